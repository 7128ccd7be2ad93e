package command

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxLine = 4096 // the most bytes of a line that are passed on
	maxLast = 200  // and of the last line, for errors
)

// output passes the lines of a program's two streams on, one at a time.
type output struct {
	emit    func(line string)
	secrets []string

	mu   sync.Mutex
	last string // the last line that is not empty
}

func (o *output) line(text string) {
	for _, secret := range o.secrets {
		text = strings.ReplaceAll(text, secret, "[hidden]")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if brief := strings.TrimSpace(text); brief != "" {
		o.last = cutText(brief, maxLast)
	}
	if o.emit != nil {
		o.emit(text)
	}
}

// lineWriter splits one stream into lines. It keeps at most maxLine bytes of a
// line, and says how many it left out. Its Write never fails.
type lineWriter struct {
	output  *output
	begun   []byte // of the line that is not complete
	dropped int    // bytes of that line beyond maxLine
}

// Write implements io.Writer.
func (w *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, complete := bytes.Cut(rest, []byte("\n"))
		kept := min(len(part), maxLine-len(w.begun))
		w.begun = append(w.begun, part[:kept]...)
		w.dropped += len(part) - kept
		if complete {
			w.end()
		}
		rest = after
	}
	return len(p), nil
}

// flush passes on a last line that has no newline.
func (w *lineWriter) flush() {
	if len(w.begun) > 0 {
		w.end()
	}
}

func (w *lineWriter) end() {
	text := strings.TrimSuffix(string(w.begun), "\r")
	if w.dropped > 0 {
		text = fmt.Sprintf("%s… (%d more bytes)", wholeRunes(text), w.dropped)
	}
	w.begun, w.dropped = w.begun[:0], 0
	w.output.line(text)
}

func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return wholeRunes(text[:most]) + "…"
}

// wholeRunes returns text without a character at its end that was cut.
func wholeRunes(text string) string {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if begin := len(text) - back; utf8.RuneStart(text[begin]) {
			if !utf8.FullRuneInString(text[begin:]) {
				return text[:begin]
			}
			break
		}
	}
	return text
}
