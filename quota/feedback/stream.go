package feedback

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/ration-dev/ration/quota"
)

// What is kept of a body that the caller reads: the beginning, where some
// streams say what the input cost, and at least the last maxTail bytes.
const (
	maxHead = 4 << 10
	maxTail = maxBody - maxHead
)

// tap is a body of which the beginning and the end are kept while the caller
// reads it. No byte is delayed: what is read at the end is applied before the
// end itself is passed on.
type tap struct {
	io.ReadCloser
	head, tail []byte
	isCut      bool  // bytes between head and tail are gone
	err        error // what follows the last bytes

	once sync.Once
	done func(kept [][]byte)
}

func (t *tap) Read(p []byte) (n int, err error) {
	if t.err == nil {
		n, t.err = t.ReadCloser.Read(p)
		t.keep(p[:n])
	}
	if n > 0 || t.err == nil {
		return n, nil
	}
	t.end()
	return 0, t.err
}

// Close closes the body. What was read until then counts.
func (t *tap) Close() error {
	t.end()
	return t.ReadCloser.Close()
}

func (t *tap) keep(p []byte) {
	room := min(maxHead-len(t.head), len(p))
	t.head = append(t.head, p[:room]...)
	t.tail = append(t.tail, p[room:]...)
	if extra := len(t.tail) - maxTail; extra > maxTail {
		t.tail, t.isCut = append(t.tail[:0], t.tail[extra:]...), true
	}
}

// end calls done once with what was kept: the beginning, and the end if it does
// not follow at once.
func (t *tap) end() {
	t.once.Do(func() {
		kept := [][]byte{t.head, t.tail}
		if !t.isCut {
			kept = [][]byte{append(t.head, t.tail...)}
		}
		t.done(kept)
	})
}

// readLate returns the cost that is read at the end of the body.
func (r *reader) readLate(a *answer, resp *http.Response) *quota.LateVerdict {
	later := &quota.LateVerdict{}
	late := *a
	late.trace = nil // explain has returned by then
	resp.Body = &tap{ReadCloser: resp.Body, done: func(kept [][]byte) {
		var v quota.Verdict
		out := &outcome{}
		documents := documentsIn(kept)
		for _, c := range r.rules {
			if !c.saysCost() || !c.mayMatch(&late) {
				continue
			}
			out.addMeasures(c, late, documents)
			if !out.hasCost && len(c.Cost) > 0 {
				out.cost, out.hasCost = c.sumLast(c.Cost, late, documents)
			}
		}
		r.settle(&v, &late, out)
		later.Tell(v)
	}}
	return later
}

// sumLast adds up the last number that documents have for each value.
func (c *rule) sumLast(values RuleValues, a answer, documents []any) (sum quota.Units, ok bool) {
	for i := range values {
		isFound := false
		for j := len(documents) - 1; j >= 0; j-- {
			a.doc = documents[j]
			if !c.matchesBody(&a) {
				continue
			}
			if n, found := values[i].sum(&a); found {
				sum, isFound = min(sum+n, quota.MaxLimit), true
				break
			}
		}
		if ok = ok || isFound; !isFound {
			a.missed(&values[i], "number")
		}
	}
	return sum, ok
}

// sum adds up the numbers at a value: of all items, if it is a list.
func (v *RuleValue) sum(a *answer) (sum quota.Units, ok bool) {
	for _, text := range v.read(a) {
		if n, isNumber := parseAmount(text); isNumber {
			sum, ok = min(sum+roundUp(n), quota.MaxLimit), true
		}
	}
	return sum, ok
}

// documentsIn returns the JSON documents in a stream: one a line, or the data
// of an event, or else the whole. Of a document that is cut, the last object
// with a name is taken as one: "usage": {…}.
func documentsIn(kept [][]byte) (documents []any) {
	for _, part := range kept {
		for line := range bytes.Lines(part) {
			line = bytes.TrimSpace(line)
			line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("data:")))
			if len(line) > 0 && line[0] == '{' {
				if doc := parseJSON(line); doc != nil {
					documents = append(documents, doc)
				}
			}
		}
	}
	if len(documents) > 0 {
		return documents
	}
	whole := kept[len(kept)-1]
	switch doc := parseJSON(whole).(type) {
	case nil:
	case []any:
		return doc
	default:
		return []any{doc}
	}
	return lastObject(string(whole))
}

// lastObject returns the document that the last named object of a cut document
// makes, unless that is within another one.
func lastObject(text string) []any {
	at := len(text)
	for tries := 0; tries < maxTries; {
		if at = strings.LastIndex(text[:at], `":`); at < 0 {
			return nil
		}
		from := strings.LastIndexByte(text[:at], '"')
		if isObject := strings.HasPrefix(strings.TrimLeft(text[at+2:], " \t\r\n"), "{"); !isObject || from < 0 {
			continue
		}
		tries++
		var object map[string]any
		decoder := json.NewDecoder(strings.NewReader(text[at+2:]))
		decoder.UseNumber()
		if decoder.Decode(&object) != nil {
			continue
		}
		rest := text[at+2+int(decoder.InputOffset()):]
		if isNested := strings.Count(rest, "}")-strings.Count(rest, "{") > 1; !isNested {
			return []any{map[string]any{text[from+1 : at]: object}}
		}
	}
	return nil
}

// maxTries bounds the time for a hostile document.
const maxTries = 100
