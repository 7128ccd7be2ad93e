// Package cli is what the commands share: flags and arguments, tables and
// paragraphs that fit the width of a terminal, names from outside with what a
// terminal would obey escaped, secrets kept out of what is printed.
package cli

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer escapes control characters and characters that are not shown, because
// titles, names, status lines and refusals come from outside. Bytes that begin
// a character wait for the rest of it in the next Write, or for Flush. It is
// safe for concurrent use.
type Writer struct {
	out io.Writer

	mu      sync.Mutex
	pending []byte // an incomplete character, of at most three bytes
	failed  error  // of the first write that failed
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.pending, p...)
	end := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if begin := len(text) - back; utf8.RuneStart(text[begin]) {
			if !utf8.FullRune(text[begin:]) {
				end = begin
			}
			break
		}
	}
	w.pending = append([]byte(nil), text[end:]...)
	if err := w.write(text[:end]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what is left of a character that was never completed. It returns
// the first error of all writes: tables and paragraphs do not check theirs.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		_ = w.write(w.pending) // kept in failed
		w.pending = nil
	}
	return w.failed
}

// write writes text, escaped. The caller has locked w.
func (w *Writer) write(text []byte) error {
	_, err := w.out.Write(appendEscaped(nil, text))
	if w.failed == nil {
		w.failed = err
	}
	return err
}

// Escape returns text as a Writer writes it.
func Escape(text string) string { return string(appendEscaped(nil, []byte(text))) }

// appendEscaped appends text with what is obeyed or not shown as \u009b, and
// bytes that are not UTF-8 as \x9b. A character is escaped as JSON does it,
// so a JSON document, which has such characters in strings only, means the
// same afterwards.
func appendEscaped(out, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case !obeyed(r):
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}

// obeyed reports whether a character changes how a terminal shows others, or
// is not shown itself: controls but for newline and tab, direction marks,
// characters without width, and separators of lines and paragraphs.
func obeyed(r rune) bool {
	isPrintableASCII := r >= ' ' && r < 0x7f
	if r == '\n' || r == '\t' || isPrintableASCII {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}
