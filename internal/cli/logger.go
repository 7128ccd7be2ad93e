package cli

import (
	"bytes"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes to out, in UTC and with texts as
// RedactMessage returns them, as JSON or as text.
func NewLogger(out io.Writer, level slog.Level, json bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.TimeKey {
			attr.Value = slog.StringValue(attr.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
		} else if attr.Value.Kind() == slog.KindString {
			attr.Value = slog.StringValue(RedactMessage(attr.Value.String()))
		}
		return attr
	}}
	if json {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}

// WithoutAnswers returns a writer for the standard logger, which writes to out
// but for one message: net/http prints the first bytes of an answer that no
// request asked for, with what may be secret in it.
func WithoutAnswers(out io.Writer) io.Writer { return withoutAnswers{out} }

type withoutAnswers struct{ out io.Writer }

// Write implements io.Writer. The logger calls it once for each message.
func (w withoutAnswers) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response received on idle HTTP channel")) {
		return len(line), nil
	}
	return w.out.Write(line)
}
