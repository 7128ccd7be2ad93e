package feedback

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/ration-dev/ration/quota"
)

// What is kept of a body that the caller reads: the beginning, where some
// streams say what the input cost, and a ring of the last bytes.
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
	next       int  // where the next byte of tail goes, once it is full
	full       bool // tail has wrapped

	once sync.Once
	done func(kept [][]byte)
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.keep(p[:n])
	if err == nil {
		return n, nil
	}
	if n > 0 {
		t.ReadCloser = &ended{t.ReadCloser, err}
		return n, nil
	}
	t.end()
	return 0, err
}

// ended is a body that has only its error left.
type ended struct {
	io.ReadCloser
	err error
}

func (e *ended) Read([]byte) (int, error) { return 0, e.err }

// Close closes the body. What was read until then counts.
func (t *tap) Close() error {
	t.end()
	return t.ReadCloser.Close()
}

func (t *tap) keep(p []byte) {
	if room := maxHead - len(t.head); room > 0 {
		t.head = append(t.head, p[:min(room, len(p))]...)
		p = p[min(room, len(p)):]
	}
	if len(p) > maxTail {
		p = p[len(p)-maxTail:]
		t.full, t.next = true, 0
		t.tail = t.tail[:0]
	}
	room := min(maxTail-len(t.tail), len(p))
	t.tail = append(t.tail, p[:room]...)
	for p = p[room:]; len(p) > 0; {
		n := copy(t.tail[t.next:], p)
		t.full = true
		t.next = (t.next + n) % maxTail
		p = p[n:]
	}
}

// end calls done once with what was kept: the beginning, and the end if it does
// not follow at once.
func (t *tap) end() {
	t.once.Do(func() {
		if !t.full {
			t.done([][]byte{append(t.head, t.tail...)})
			return
		}
		t.done([][]byte{t.head, append(append([]byte{}, t.tail[t.next:]...), t.tail[:t.next]...)})
	})
}

// readLate returns the cost that is read at the end of the body.
func (r *reader) readLate(a *answer, resp *http.Response) *quota.LateVerdict {
	later := &quota.LateVerdict{}
	late := *a
	resp.Body = &tap{ReadCloser: resp.Body, done: func(kept [][]byte) {
		var v quota.Verdict
		out := &outcome{}
		for _, c := range r.rules {
			if len(c.Cost) > 0 && c.mayMatch(&late) && !out.hasCost {
				out.cost, out.hasCost = c.sumLast(late, documentsIn(kept))
			}
		}
		r.settle(&v, &late, out)
		later.Tell(v)
	}}
	return later
}

// sumLast adds up the last number that documents have for each value.
func (c *rule) sumLast(a answer, documents []any) (sum quota.Units, ok bool) {
	for i := range c.Cost {
		for j := len(documents) - 1; j >= 0; j-- {
			a.doc = documents[j]
			if !c.matchesBody(&a) {
				continue
			}
			if units, found := c.Cost[i : i+1].sum(&a); found {
				sum, ok = min(sum+units, quota.MaxLimit), true
				break
			}
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

// lastObject returns the document that the last named objects of a cut
// document make.
func lastObject(text string) []any {
	for at := len(text); ; {
		at = strings.LastIndex(text[:at], `":`)
		if at < 0 {
			return nil
		}
		rest := strings.TrimLeft(text[at+2:], " \t\r\n")
		from := strings.LastIndexByte(text[:at], '"')
		if !strings.HasPrefix(rest, "{") || from < 0 {
			continue
		}
		if end := endOfObject(rest); end > 0 {
			if v := parseJSON([]byte(rest[:end])); v != nil && !isNested(text[at+2+end:]) {
				return []any{map[string]any{text[from+1 : at]: v}}
			}
		}
	}
}

// isNested reports whether an object that ends here is within another one than
// the document.
func isNested(rest string) bool {
	return strings.Count(rest, "}")-strings.Count(rest, "{") > 1
}

// endOfObject returns the length of the JSON object at the beginning of a text.
func endOfObject(text string) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}
