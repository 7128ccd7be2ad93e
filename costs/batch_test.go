package costs_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

func salesforce(t testing.TB) *costs.Table { return use(t, uses["salesforce"]) }

func post(t testing.TB, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest("POST", "https://my-domain.my.salesforce.com/services/data/v65.0/"+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// subrequests returns the body of a batch of n.
func subrequests(n int) string {
	return `{"haltOnError":false,"batchRequests":[` +
		strings.TrimSuffix(strings.Repeat(`{"method":"GET","url":"v65.0/limits"},`, n), ",") + `]}`
}

func TestBatchIsPricedByItsSubrequests(t *testing.T) {
	table := salesforce(t)
	for name, c := range map[string]struct {
		path, body string
		want       quota.Units
	}{
		"one":                             {"composite/batch", subrequests(1), 1},
		"three":                           {"composite/batch", subrequests(3), 3},
		"25":                              {"composite/batch", subrequests(25), 25},
		"more than there is":              {"composite/batch", subrequests(40), 40},
		"none":                            {"composite/batch", subrequests(0), 1},
		"no body":                         {"composite/batch", "", 25},
		"XML":                             {"composite/batch", "<batch><batchRequests/></batch>", 25},
		"not JSON":                        {"composite/batch", `{"batchRequests":[1,2`, 25},
		"another key":                     {"composite/batch", `{"requests":[1]}`, 25},
		"a list":                          {"composite/batch", `[{"batchRequests":[1]}]`, 25},
		"not a list":                      {"composite/batch", `{"batchRequests":{"a":1}}`, 25},
		"null":                            {"composite/batch", `{"batchRequests":null}`, 25},
		"the key twice":                   {"composite/batch", `{"batchRequests":[1],"batchRequests":[1,2,3]}`, 4},
		"the key in capitals and escaped": {"composite/batch", `{"\u0062atchRequests":[1,2],"BATCHREQUESTS":[1]}`, 3},
		"the key deeper": {"composite/batch", `{"x":{"batchRequests":[1,2,3]},"batchRequests":[1]}`,
			1},
		"more behind it": {"composite/batch", subrequests(1) + subrequests(25), 25},
		"a long one": {"composite/batch", `{"batchRequests":["` + strings.Repeat("x", 1<<20) +
			`"]}`, 25},
		// Salesforce takes the format of an answer from the end of a path, too.
		"as JSON":            {"composite/batch.json", subrequests(3), 3},
		"as XML":             {"composite/batch.xml", subrequests(3), 3},
		"connect as JSON":    {"connect/batch.json", subrequests(3), 25},
		"connect as XML":     {"connect/batch.xml", subrequests(3), 25},
		"chatter as JSON":    {"chatter/batch.json", subrequests(3), 25},
		"chatter as XML":     {"chatter/batch.xml", subrequests(3), 25},
		"connect":            {"connect/batch", subrequests(2), 25},
		"chatter":            {"chatter/batch", subrequests(2), 25},
		"GraphQL":            {"graphql", `{"query":"{uiapi{query{Account{edges{node{Id}}}}}}"}`, 10},
		"composite":          {"composite", `{"compositeRequest":[{},{},{}]}`, 1},
		"composite/graph":    {"composite/graph", `{"graphs":[{"compositeRequest":[{},{}]}]}`, 1},
		"composite/sobjects": {"composite/sobjects", `{"records":[{},{},{}]}`, 1},
		"composite/tree":     {"composite/tree/Account", `{"records":[{},{},{}]}`, 1},
	} {
		req := post(t, c.path, c.body)
		call, err := table.Price(req)
		if err != nil || call.Units != c.want {
			t.Errorf("%s: %+v, %v; want %d", name, call, err, c.want)
		}
		if c.body == "" {
			continue
		}
		for _, again := range []quota.Units{c.want, c.want} { // what was read is there again
			if call, err := table.Price(req); err != nil || call.Units != again {
				t.Errorf("%s, again: %+v, %v", name, call, err)
			}
		}
		if sent, err := io.ReadAll(req.Body); err != nil || string(sent) != c.body {
			t.Errorf("%s: %d bytes of %d would be sent, %v", name, len(sent), len(c.body), err)
		}
	}
}

func TestABatchThatCannotBeReadCostsTheMost(t *testing.T) {
	table, broken := salesforce(t), errors.New("broken")
	for name, edit := range map[string]func(*http.Request){
		"compressed": func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") },
		"too short":  func(r *http.Request) { r.ContentLength++ },
		"broken": func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(broken)))
		},
	} {
		req := post(t, "composite/batch", subrequests(2))
		edit(req)
		if call, err := table.Price(req); err != nil || call.Units != 25 {
			t.Errorf("%s: %+v, %v", name, call, err)
		}
		sent, err := io.ReadAll(req.Body)
		if want := subrequests(2); name != "broken" && (err != nil || string(sent) != want) || name == "broken" &&
			(string(sent) != "{" || !errors.Is(err, broken)) {
			t.Errorf("%s: %q would be sent, %v", name, sent, err)
		}
	}
	closed := &closing{Reader: strings.NewReader(subrequests(2))}
	req := post(t, "composite/batch", subrequests(2))
	req.Body = closed
	if call, err := table.Price(req); err != nil || call.Units != 2 || closed.closed {
		t.Errorf("%+v, %v, closed %v", call, err, closed.closed)
	}
	if req.Body.Close(); !closed.closed {
		t.Error("closing the body does not close what it stands for")
	}
}

// TestAStalledBatchEndsWithItsContext: a request whose body does not arrive was
// not given up when its context ended.
func TestAStalledBatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := salesforce(t)
		guard, err := quota.NewGuard(memledger.Open(nil), table.Budgets(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body, writer := io.Pipe()
		defer writer.Close()
		req := post(t, "composite/batch", subrequests(2)).WithContext(ctx)
		req.Body = body
		_, err = (&quota.Transport{Guard: guard, Price: table.Price}).RoundTrip(req)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v; want the end of the context", err)
		}
		if _, err := writer.Write([]byte("{")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v; want the body closed", err)
		}
	})
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestParseReportsAllMistakesInBatches(t *testing.T) {
	const budgets = "budgets:\n"
	expect(t, valid, []mistake{
		{budgets, "batches: {serach.list: {most: 2}}\n" + budgets,
			`12:11: unknown method of youtube/v3 "serach.list": write search.list`},
		{budgets, "batches: {search.list: {list: x}}\n" + budgets,
			`12:24: missing key "most": write most: 25, the calls that one request may hold`},
		{budgets, "batches: {search.list: {most: 0}}\n" + budgets,
			`12:31: most is 0: write an integer from 1 to 10000`},
		{budgets, "batches: {search.list: 25}\n" + budgets, `12:24: search.list is 25: write a map, {most: …}`},
	})
	_, err := costs.Parse("costs.yaml",
		[]byte(strings.Replace(valid, "    limit: 500", "    count: calls\n    limit: 500", 1)+
			"batches: {search.list: {most: 2}}\n"))
	const want = `costs.yaml:14:5: budget "search" counts calls, and a request of search.list, which batches has, ` +
		`holds several: write count: units, or except: [search.list]`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// A method named by hand, and one without a body, cost the most; a price that
// no integer holds is one that no budget pays.
func TestBatchesByNameCostTheMost(t *testing.T) {
	if call, err := salesforce(t).Call("", "composite.batch"); err != nil || call.Units != 25 {
		t.Errorf("%+v, %v", call, err)
	}
	huge := use(t,
		"costs: {get: 2147483647}\nbatches: {get: {most: 10000}}\nbudgets: [{name: all, limit: 2147483647, window: "+
			"1h}]")
	if call, err := huge.Call("", "get"); err != nil || call.Units != quota.MaxUnits {
		t.Errorf("%+v, %v", call, err)
	}
	own := use(t,
		"preset: salesforce\nhosts: [my.my.salesforce.com]\nbatches: {composite.batch: {list: batchRequests, most: "+
			"5}}\n"+
			"budgets: [{name: salesforce, limit: 9}, {name: long, limit: 25, in_flight: true}]")
	for method, want := range map[string]quota.Units{"composite.batch": 5, "graphql": 10} {
		if call, err := own.Call("", method); err != nil || call.Units != want {
			t.Errorf("over the preset's, beside a budget in flight: %s: %+v, %v", method, call, err)
		}
	}
}

// TestMultipartBatchIsPricedByItsParts: a body that may hold more calls than it
// has parts is priced higher, never lower.
func TestMultipartBatchIsPricedByItsParts(t *testing.T) {
	part := "--b\r\nContent-Type: application/http\r\n\r\nGET /1\r\n"
	set := "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n" +
		strings.ReplaceAll(part+part, "--b", "--c") + "--c--\r\n"
	table := salesforce(t)
	for name, c := range map[string]struct {
		kind, body string
		want       quota.Units
	}{
		"two":                {"multipart/mixed; boundary=b", part + part + "--b--\r\n", 2},
		"quoted":             {`Multipart/Mixed; boundary="b"`, part + part + "--b--", 2},
		"without an end":     {"multipart/mixed; boundary=b", part + part, 2},
		"more after the end": {"multipart/mixed; boundary=b", part + "--b--\r\n" + part + "--b--", 3},
		"a change set":       {"multipart/mixed; boundary=b", set + part + "--b--", 3},
		"no boundary":        {"multipart/mixed", part, 25},
		"another boundary":   {"multipart/mixed; boundary=x", part, 25},
		"JSON in disguise":   {"multipart/mixed; boundary=b", `{"x":"--b","batchRequests":[1,2]}`, 25},
	} {
		req := post(t, "composite/batch", c.body)
		req.Header.Set("Content-Type", c.kind)
		if call, err := table.Price(req); err != nil || call.Units != c.want {
			t.Errorf("%s: %d units, %v; want %d", name, call.Units, err, c.want)
		}
	}
}
