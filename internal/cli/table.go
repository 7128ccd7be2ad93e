package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is a table without lines: columns under headings in capitals. Columns
// that have only numbers or percentages are aligned right.
type Table struct {
	out     io.Writer
	width   int        // 0: no limit
	rows    [][]string // that are not printed yet
	numbers []bool     // by column: all its cells are numbers
	widest  []int      // by column: the width of the widest cell that was printed
}

// maxRows is how many rows are printed at once. Columns can become wider with
// the next ones, so that a long table needs no more memory.
const maxRows = 2_000

// NewTable returns an empty table that Print writes to out in at most width
// columns of text. A width of 0 means no limit.
func NewTable(out io.Writer, width int, headings ...string) *Table {
	t := &Table{out: out, width: width, numbers: slices.Repeat([]bool{true}, len(headings)),
		widest: make([]int, len(headings))}
	head := make([]string, len(headings))
	for i, heading := range headings {
		head[i] = strings.ToUpper(heading)
	}
	t.rows = append(t.rows, head)
	return t
}

var oneLine = strings.NewReplacer("\n", "; ", "\t", " ")

// Row adds a row of as many cells as the table has headings. Text is escaped
// here, not only when it is written, so that columns have the width of what
// is shown.
func (t *Table) Row(cells ...any) {
	if len(t.rows) == maxRows {
		t.Print()
	}
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = Escape(oneLine.Replace(fmt.Sprint(cell)))
		t.numbers[i] = t.numbers[i] && isNumber(row[i])
	}
	t.rows = append(t.rows, row)
}

// isNumber reports whether a cell is an integer, or a percentage such as 3.4 %.
func isNumber(cell string) bool {
	_, err := strconv.ParseInt(cell, 10, 64)
	if share, isShare := strings.CutSuffix(cell, " %"); isShare {
		_, err = strconv.ParseFloat(share, 64)
	}
	return err == nil
}

// Print writes the rows that are not written yet. A table that is too wide for
// the terminal is narrowed in the way that takes the fewest lines: its widest
// texts are wrapped at words, or its last columns move to a line below each
// row, or texts are wrapped within words too, at punctuation. A number or a
// time is never broken.
func (t *Table) Print() {
	natural := t.measure(text.StringWidthWithoutEscSequences)
	for i := range natural {
		natural[i] = max(natural[i], t.widest[i])
	}
	t.widest = natural
	io.WriteString(t.out, t.layOut(natural))
	t.rows = t.rows[:0]
}

// layOut returns the rows in columns of their natural widths, or narrower ones.
func (t *Table) layOut(natural []int) string {
	if t.width == 0 || total(natural) <= t.width {
		return t.render(natural, []int{len(natural)})
	}
	best := ""
	consider := func(widths, lines []int) {
		if s := t.render(widths, lines); best == "" || strings.Count(s, "\n") < strings.Count(best, "\n") {
			best = s
		}
	}
	whole := []int{len(natural)}
	if widths, ok := fit(natural, t.measure(longest(wordsOf)), t.width); ok {
		consider(widths, whole)
	}
	consider(t.fold(natural))
	if widths, ok := fit(natural, t.measure(longest(piecesOf)), t.width); ok {
		consider(widths, whole)
	}
	return best
}

// measure returns the largest measurement of each column's cells.
func (t *Table) measure(of func(string) int) []int {
	most := make([]int, len(t.numbers))
	for _, row := range t.rows {
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
func (t *Table) fold(natural []int) (widths, lines []int) {
	words, pieces := t.measure(longest(wordsOf)), t.measure(longest(piecesOf))
	first := 0
	for end := 1; end <= len(natural); end++ {
		room := t.width - min(first, 1)*indent
		if end < len(natural) && total(natural[first:end+1]) <= room {
			continue
		}
		line, ok := fit(natural[first:end], words[first:end], room)
		if !ok { // a word that is wider than the terminal
			line, _ = fit(natural[first:end], pieces[first:end], room)
		}
		widths = append(widths, line...)
		lines = append(lines, end)
		first = end
	}
	return widths, lines
}

// render returns the table with columns of these widths; lines are as fold
// returns them.
func (t *Table) render(widths, lines []int) string {
	var out strings.Builder
	for _, row := range t.rows {
		first := 0
		for n, end := range lines {
			t.renderLine(&out, row[first:end], widths[first:end], t.numbers[first:end], min(n, 1)*indent)
			first = end
		}
	}
	return out.String()
}

func (t *Table) renderLine(out *strings.Builder, cells []string, widths []int, numbers []bool, margin int) {
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
