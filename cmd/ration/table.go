package main

import (
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// grid is a table for people: columns under small headings, without lines.
// Numbers stand to the right.
type grid struct {
	writer table.Writer
	out    io.Writer
}

func (a *app) table(headings ...any) *grid {
	g := &grid{writer: table.NewWriter(), out: a.stdout}
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Format.Header = text.FormatUpper
	g.writer.SetStyle(style)
	g.writer.SuppressTrailingSpaces()
	g.writer.AppendHeader(table.Row(headings))
	return g
}

func (g *grid) row(cells ...any) { g.writer.AppendRow(table.Row(cells)) }

func (g *grid) print() { io.WriteString(g.out, g.writer.Render()+"\n") }

// clock is how tables say when.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("01-02 15:04:05Z")
}

// dash is how tables and JSON show what is not attributed.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
