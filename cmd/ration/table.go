package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// width returns how many columns a line on stdout may have: COLUMNS if it is
// set, else the width of the terminal. 0 is no limit: stdout is not a terminal.
func (a *app) width() int {
	if n, err := strconv.Atoi(a.getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if a.columns == nil {
		return 0
	}
	return a.columns()
}

// grid is a table for people: columns under headings in capitals, without
// lines. Numbers are aligned right. print fits it to the width of the terminal.
type grid struct {
	out     io.Writer
	width   int // 0: no limit
	rows    [][]string
	numbers []bool // by column: all its cells are numbers
}

func (a *app) table(headings ...string) *grid {
	g := &grid{out: a.stdout, width: a.width(), numbers: slices.Repeat([]bool{true}, len(headings))}
	head := make([]string, len(headings))
	for i, heading := range headings {
		head[i] = strings.ToUpper(heading)
	}
	g.rows = append(g.rows, head)
	return g
}

// row adds a row of as many cells as the table has headings. Text is escaped
// here, not only when it is written, so that columns have the width of what is
// shown.
func (g *grid) row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = visible(strings.NewReplacer("\n", "; ", "\t", " ").Replace(fmt.Sprint(cell)))
		_, err := strconv.ParseInt(row[i], 10, 64)
		g.numbers[i] = g.numbers[i] && err == nil
	}
	g.rows = append(g.rows, row)
}

// print writes the table. One that is too wide for the terminal is narrowed in
// the way that takes the fewest lines: its widest texts are wrapped at words, or
// its last columns move to a line below each row, or texts are wrapped within
// words too, at punctuation. A number or a time is never broken.
func (g *grid) print() {
	natural := g.measure(text.StringWidthWithoutEscSequences)
	if g.width == 0 || total(natural) <= g.width {
		io.WriteString(g.out, g.render(natural, []int{len(natural)}))
		return
	}
	best := ""
	consider := func(widths, lines []int) {
		if s := g.render(widths, lines); best == "" || strings.Count(s, "\n") < strings.Count(best, "\n") {
			best = s
		}
	}
	whole := []int{len(natural)}
	if widths, ok := fit(natural, g.measure(longest(wordsOf)), g.width); ok {
		consider(widths, whole)
	}
	consider(g.fold(natural))
	if widths, ok := fit(natural, g.measure(longest(piecesOf)), g.width); ok {
		consider(widths, whole)
	}
	io.WriteString(g.out, best)
}

// measure returns the largest measurement of each column's cells.
func (g *grid) measure(of func(string) int) []int {
	most := make([]int, len(g.numbers))
	for _, row := range g.rows {
		for i, cell := range row {
			most[i] = max(most[i], of(cell))
		}
	}
	return most
}

// total returns how wide a row of such columns is, with a space between them.
func total(widths []int) int {
	sum, last := 0, 0
	for i, w := range widths {
		if sum += w; w > 0 {
			last = i
		}
	}
	return sum + last
}

// fit narrows the widest columns until a row fits, none below its least width.
// It reports whether they fit.
func fit(natural, least []int, width int) ([]int, bool) {
	narrowed := func(most int) []int {
		widths := make([]int, len(natural))
		for i := range widths {
			widths[i] = max(min(natural[i], most), min(natural[i], least[i]))
		}
		return widths
	}
	most := slices.Max(natural)
	for ; most > 0 && total(narrowed(most)) > width; most-- {
	}
	widths := narrowed(most)
	for i := range widths { // what the last step took too much
		if widths[i] == most && widths[i] < natural[i] && total(widths) < width {
			widths[i]++
		}
	}
	return widths, total(widths) <= width
}

// indent is how far the lines below a row's first are indented.
const indent = 2

// fold distributes the columns over several lines of a row. It returns their
// widths, and of each line the index after its last column.
func (g *grid) fold(natural []int) (widths, lines []int) {
	words, pieces := g.measure(longest(wordsOf)), g.measure(longest(piecesOf))
	first := 0
	for end := 1; end <= len(natural); end++ {
		room := g.width - min(first, 1)*indent
		if end < len(natural) && total(natural[first:end+1]) <= room {
			continue
		}
		line, ok := fit(natural[first:end], words[first:end], room)
		if !ok { // a word that is wider than the terminal
			line, _ = fit(natural[first:end], pieces[first:end], room)
		}
		widths, lines, first = append(widths, line...), append(lines, end), end
	}
	return widths, lines
}

// render returns the table with columns of these widths; lines are as fold
// returns them.
func (g *grid) render(widths, lines []int) string {
	var out strings.Builder
	for _, row := range g.rows {
		first := 0
		for n, end := range lines {
			g.renderLine(&out, row[first:end], widths[first:end], g.numbers[first:end], min(n, 1)*indent)
			first = end
		}
	}
	return out.String()
}

func (g *grid) renderLine(out *strings.Builder, cells []string, widths []int, numbers []bool, margin int) {
	wrapped, height := make([][]string, len(cells)), 0
	for i, cell := range cells {
		wrapped[i] = wrap(cell, widths[i])
		height = max(height, len(wrapped[i]))
	}
	for n := range height {
		line := strings.Repeat(" ", margin)
		for i, parts := range wrapped {
			part, align := "", text.AlignLeft
			if n < len(parts) {
				part = parts[n]
			}
			if numbers[i] {
				align = text.AlignRight
			}
			if i > 0 {
				line += " "
			}
			line += align.Apply(part, widths[i])
		}
		if line = strings.TrimRight(line, " "); line != "" {
			out.WriteString(line + "\n")
		}
	}
}

// clock writes a time in a table: 11-20 12:00:00Z, with its year unless that is
// this year.
func (a *app) clock(t time.Time) string { return dated(t.UTC(), a.now(), tableTime) }

// tableTime is the layout of times in tables; see dated.
const tableTime = "01-02 15:04:05Z"

// dated formats a time by a layout that has month and day, with the year before
// them unless it is this year; the zero time is a dash.
func dated(t, now time.Time, layout string) string {
	if t.IsZero() {
		return "-"
	}
	if t.Year() != now.In(t.Location()).Year() {
		layout = strings.Replace(layout, "01-02", "2006-01-02", 1)
	}
	return t.Format(layout)
}

// dash is how tables and JSON show what is not attributed.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
