package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
)

// writeJSON prints a document, with the state of the ledger as its last key.
func (a *app) writeJSON(document any) error {
	text, err := a.setup().LedgerState().AddTo(document)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(text, '\n'))
	return err
}

// width returns how many columns a line on stdout may have: COLUMNS if it
// is set, else the width of the terminal. 0 means no limit: stdout is not
// a terminal.
func (a *app) width() int {
	if n, err := strconv.Atoi(a.getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if a.columns == nil {
		return 0
	}
	return a.columns()
}

// table returns a table on stdout that fits its width.
func (a *app) table(headings ...string) *cli.Table {
	return cli.NewTable(a.stdout, a.width(), headings...)
}

// paragraph prints a text behind a label, wrapped to the width of stdout.
func (a *app) paragraph(label, format string, args ...any) {
	cli.WriteParagraph(a.stdout, a.width(), label, fmt.Sprintf(format, args...))
}

// clock writes a time in a table: 11-20 12:00:00Z, with its year unless that is
// this year.
func (a *app) clock(t time.Time) string { return human.Dated(t.UTC(), a.now(), human.TableTime) }

// dash is how tables and JSON show what is not attributed.
func dash(s string) string { return cmp.Or(s, "-") }
