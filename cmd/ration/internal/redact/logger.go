package redact

import (
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes to out, in UTC and with texts as
// Message returns them, as JSON or as text.
func NewLogger(out io.Writer, level slog.Level, json bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.TimeKey {
			attr.Value = slog.StringValue(attr.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
		} else if attr.Value.Kind() == slog.KindString {
			attr.Value = slog.StringValue(Message(attr.Value.String()))
		}
		return attr
	}}
	if json {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}
