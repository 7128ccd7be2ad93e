package costs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/readahead"
)

// BatchMethod is a method whose requests hold several calls.
type BatchMethod struct {
	Method string
	List   string // key of the list in the body's JSON object that has an item for each call; "" if there is none
	Most   int64  // number of calls charged if there is no such list, or it cannot be read
}

// String describes the batch in one line.
func (b *BatchMethod) String() string {
	if b.List == "" {
		return fmt.Sprintf("%s: %d calls each", b.Method, b.Most)
	}
	return fmt.Sprintf("%s: as many calls as its %s, %d if that cannot be read", b.Method, b.List, b.Most)
}

const (
	maxBatch = 10_000  // the highest most
	maxBody  = 1 << 20 // bytes that Price reads at most
)

// readBatches reads {composite.batch: {list: batchRequests, most: 25}}.
func (d *document) readBatches(n strictyaml.Node) {
	n.Entries(func(key, value strictyaml.Node) {
		b := BatchMethod{Method: d.readMethod(key)}
		value.Fields(batchFields(&b)...)
		if b.Method != "" && b.Most > 0 {
			d.site.batches[b.Method] = b
			d.setOrigin(key, "batches", b.Method)
		}
	})
	d.Batches = nil
	for _, method := range slices.Sorted(maps.Keys(d.site.batches)) {
		d.Batches = append(d.Batches, d.site.batches[method])
	}
}

func batchFields(b *BatchMethod) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "list", Read: func(n strictyaml.Node) { b.List = n.Text(maxText) }},
		{Key: "most", Missing: "most: 25, the calls that one request may hold", Read: func(n strictyaml.Node) { b.Most = n.Int(1, maxBatch) }},
	}
}

// checkBatches reports a budget that would count a batch as one call.
func (d *document) checkBatches(b *quota.Budget, at *budgetAt) {
	if b.Measure != quota.Calls {
		return
	}
	coverage, caller := b.Coverage(), coveredCaller(b)
	for _, batch := range d.Batches {
		if coverage.Covers(batch.Method, caller) {
			at.entry.Mistake("budget %q counts calls, and a request of %s, which batches has, holds several: write count: units, or except: [%s]", b.Name, batch.Method, batch.Method)
		}
	}
}

// countCalls returns the number of calls in a request: of the parts of a
// multipart body or of the items of its list, at least 1, or Most if that
// cannot be read.
func (b *BatchMethod) countCalls(req *http.Request) int64 {
	boundary := boundaryOf(req.Header)
	if b.List == "" && boundary == "" {
		return b.Most
	}
	body, ok := readBody(req)
	if !ok {
		return b.Most
	}
	if boundary != "" {
		if count := countParts(body, boundary); count > 0 {
			return count
		}
		return b.Most
	}
	count, ok := countMembers(body, b.List)
	if !ok {
		return b.Most
	}
	return max(count, 1)
}

// readBody returns the body of a request and restores it. ok is false if the
// body is compressed, longer than maxBody, or of unknown length, or has not
// arrived when the request's context ends.
func readBody(req *http.Request) ([]byte, bool) {
	fits := req.ContentLength > 0 && req.ContentLength <= maxBody
	isCompressed := len(req.Header.Values("Content-Encoding")) > 0
	if req.Body == nil || !fits || isCompressed {
		return nil, false
	}
	ahead := readahead.New(req.Body, int(req.ContentLength))
	req.Body = ahead
	select {
	case <-ahead.Done():
	case <-req.Context().Done():
	}
	body, _ := ahead.Stop()
	return body, int64(len(body)) == req.ContentLength
}

// boundaryOf returns what separates the parts of a multipart/mixed body, or "".
func boundaryOf(header http.Header) string {
	types := header.Values("Content-Type")
	if len(types) != 1 {
		return ""
	}
	kind, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || kind != "multipart/mixed" {
		return ""
	}
	return parameters["boundary"]
}

// countParts returns the number of calls in a multipart body, or 0 if it is not
// one. Parsers differ in what they take for a separator, so each one counts,
// also within a part, and only one of them may be the end. A part may hold
// several calls, as OData's change sets do.
func countParts(body []byte, boundary string) int64 {
	separator := []byte("--" + boundary)
	if !bytes.HasPrefix(bytes.TrimSpace(body), separator) {
		return 0
	}
	parts := bytes.Count(body, separator)
	if bytes.Contains(body, append(separator, "--"...)) {
		parts--
	}
	calls := bytes.Count(bytes.ToLower(body), []byte("application/http"))
	return int64(max(parts, calls))
}

// countMembers returns the number of items in the lists under a key of a JSON
// object. Repeated keys add up, since parsers differ in which one they use. ok
// is false unless body is a single object with at least one such list.
func countMembers(body []byte, list string) (count int64, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return 0, false
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return 0, false
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return 0, false
		}
		if name, _ := key.(string); strings.EqualFold(name, list) {
			var items []json.RawMessage
			if err := json.Unmarshal(value, &items); err != nil || items == nil {
				return 0, false
			}
			count, ok = count+int64(len(items)), true
		}
	}
	if _, err := decoder.Token(); err != nil { // the end of the object
		return 0, false
	}
	if _, err := decoder.Token(); err != io.EOF {
		return 0, false
	}
	return count, ok
}
