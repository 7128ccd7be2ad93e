package costs

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
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

const maxBatch = 10_000 // the highest most

// readBatches reads {composite.batch: {list: batchRequests, most: 25}}.
func (d *document) readBatches(n strictyaml.Node) {
	n.Entries(func(key, value strictyaml.Node) {
		b := BatchMethod{Method: d.readMethod(key)}
		value.Fields(
			strictyaml.Field{Key: "list", Read: func(n strictyaml.Node) { b.List = n.Text(maxText) }},
			strictyaml.Field{Key: "most", Missing: "most: 25, the calls that one request may hold",
				Read: func(n strictyaml.Node) { b.Most = n.Int(1, maxBatch) }},
		)
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

// checkBatches reports a budget that would count a batch as one call. In
// flight, it is one.
func (d *document) checkBatches(b *budgetEntry) {
	if b.Measure != quota.Calls || b.Window.Kind() == engine.InFlight {
		return
	}
	coverage, caller := b.Coverage(), coveredCaller(&b.Budget)
	for _, batch := range d.Batches {
		if coverage.Covers(batch.Method, caller.Lane, caller.Region) {
			b.at.Mistake("budget %q counts calls, and a request of %s, which batches has, holds several: write "+
				"count: units, or except: [%s]", b.Name, batch.Method, batch.Method)
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
	if boundary != "" {
		if body, ok := readBody(req); ok {
			return cmp.Or(countParts(body, boundary), b.Most)
		}
		return b.Most
	}
	lists, _ := bodyField(req, b.List)
	count := int64(0)
	for _, list := range lists {
		items, ok := list.([]any)
		if !ok {
			return b.Most
		}
		count += int64(len(items))
	}
	if len(lists) == 0 {
		return b.Most
	}
	return max(count, 1)
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
