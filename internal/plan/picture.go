package plan

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Picture sets how Report.Draw draws. The zero value is usable.
type Picture struct {
	// columns of text, from 30 to 79; 0 means 79, and other values are brought into that range
	Width     int
	Year      int                      // labels of the time axis show the year unless it is this one
	Highlight func(line string) string // applied to lines above a limit; nil leaves them unchanged
}

const (
	minWidth = 30
	maxWidth = 79
	// A picture has enough rows up to the limit for a row a region, within
	// minRows and maxRows, and at most extraRows above the limit.
	minRows   = 8
	maxRows   = 20
	extraRows = 8
)

// Draw writes a picture of every budget that the schedule is charged to: what
// its window holds over time if every start is on time, a letter a region,
// against its limit. Rows are rounded up, so whatever is drawn above the limit
// exceeds it. The error is that of w.
func (r *Report) Draw(w io.Writer, p *Picture) error {
	width := maxWidth
	if p.Width > 0 {
		width = max(minWidth, min(maxWidth, p.Width))
	}
	canvas := &canvas{report: r, picture: p, width: width, letters: regionLetters(r.Regions)}
	for i := range r.Budgets {
		if r.Budgets[i].Touched {
			canvas.drawBudget(i)
		}
	}
	drawn := canvas.Len() > 0
	canvas.WriteByte('\n')
	if drawn {
		canvas.drawLegend()
	}
	_, err := io.WriteString(w, canvas.String())
	return err
}

// canvas holds the pictures of one report.
type canvas struct {
	strings.Builder
	report  *Report
	picture *Picture
	width   int
	letters []byte // by region
}

// regionLetters gives each region a letter, if possible one of its name. A dot
// is what the ledger holds.
func regionLetters(regions []RegionReport) []byte {
	letters, taken := make([]byte, len(regions)), map[byte]bool{'.': true}
	for i, region := range regions {
		for _, letter := range []byte(region.Region +
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+") {
			if letters[i] = letter; !taken[letter] {
				break
			}
		}
		taken[letters[i]] = true
	}
	return letters
}

func (c *canvas) drawBudget(budget int) {
	r, b := c.report, &c.report.Budgets[budget].Budget
	labelWidth := max(len(fmt.Sprint(b.Limit)), 6)
	columns := r.Columns(budget, c.width-labelWidth-2)
	rows := minRows
	if peak := float64(r.Budgets[budget].Peak); peak > 0 {
		rows = int(max(minRows, min(maxRows, float64(len(c.letters))*float64(b.Limit)/peak)))
	}
	stacks, height := make([]string, len(columns)), rows
	for i := range columns {
		stacks[i] = c.stackColumn(&columns[i], b.Limit, rows)
		height = max(height, len(stacks[i]))
	}
	c.WriteByte('\n')
	title := fmt.Sprintf("%s, %s in %s; a row is %s, a column %s", r.Name(b), b.Measure, b.Window,
		formatRow(b.Limit, rows), human.Duration(r.To.Sub(r.From)/time.Duration(len(columns))))
	c.writeWrapped(strings.Fields(title), " ")
	for row := height - 1; row >= 0; row-- {
		if row == rows-1 {
			fmt.Fprintf(c, "%*d |%s\n", labelWidth, b.Limit, limitLine(columns, b.Limit))
		}
		cells := make([]byte, len(columns))
		for i := range cells {
			if cells[i] = ' '; row < len(stacks[i]) {
				cells[i] = stacks[i][row]
			}
		}
		line := strings.TrimRight(fmt.Sprintf("%*s |%s", labelWidth, "", cells), " ")
		if row >= rows && c.picture.Highlight != nil {
			line = c.picture.Highlight(line)
		}
		c.WriteString(line + "\n")
	}
	fmt.Fprintf(c, "%*d +%s\n", labelWidth, 0, strings.Repeat("-", len(columns)))
	fmt.Fprintf(c, "%*s%s\n", labelWidth+1, "", c.timeLabels(len(columns)))
}

// formatRow returns how much a row stands for: a whole number, or two digits if
// it is less than ten.
func formatRow(limit quota.Units, rows int) string {
	each := float64(limit) / float64(rows)
	if each >= 10 {
		return strconv.FormatFloat(each, 'f', 0, 64)
	}
	return strconv.FormatFloat(each, 'g', 2, 64)
}

// limitLine returns the line at the limit, with ! in columns that exceed it.
func limitLine(columns []Column, limit quota.Units) string {
	line := make([]byte, len(columns))
	for i := range line {
		if line[i] = '='; columns[i].Total > limit {
			line[i] = '!'
		}
	}
	return string(line)
}

// stackColumn returns the cells of a column from the bottom up, divided
// among the ledger and the regions in proportion. A ^ at the top means that
// it is cut.
func (c *canvas) stackColumn(column *Column, limit quota.Units, limitRows int) string {
	if column.Total == 0 {
		return ""
	}
	rows := int((column.Total*quota.Units(limitRows) + limit - 1) / limit)
	cut := rows > limitRows+extraRows
	rows = min(rows, limitRows+extraRows)
	var cells strings.Builder
	sum := quota.Units(0)
	fill := func(letter byte, units quota.Units) {
		sum += units
		for cells.Len() < int(float64(sum)/float64(column.Total)*float64(rows)+0.5) {
			cells.WriteByte(letter)
		}
	}
	fill('.', column.Held)
	for i, units := range column.Regions {
		fill(c.letters[i], units)
	}
	if cut {
		return cells.String()[:rows-1] + "^"
	}
	return cells.String()
}

// timeLabels returns the labels below the time axis, in UTC.
func (c *canvas) timeLabels(columns int) string {
	const spacing, longest = 18, len("|2006-01-02 15:04Z")
	r, line := c.report, []byte(strings.Repeat(" ", columns+1))
	for i := 0; i+longest <= columns+1; i += spacing {
		at := r.From.Add(r.To.Sub(r.From) / time.Duration(columns) * time.Duration(i)).UTC()
		layout := "|2006-01-02 15:04Z"
		if at.Year() == c.picture.Year {
			layout = "|01-02 15:04Z"
		}
		copy(line[i+1:], at.Format(layout))
	}
	return strings.TrimRight(string(line), " ")
}

func (c *canvas) drawLegend() {
	var regions []string
	for i, region := range c.report.Regions {
		regions = append(regions, string(c.letters[i])+" "+region.Region)
	}
	c.writeWrapped(regions, "   ")
	c.writeWrapped([]string{". held by the ledger", "! over the limit", "^ higher than is drawn"}, "   ")
	c.WriteByte('\n')
}

// writeWrapped writes parts in lines of at most c.width columns.
func (c *canvas) writeWrapped(parts []string, separator string) {
	line := ""
	for _, part := range parts {
		switch next := line + separator + part; {
		case line == "":
			line = part
		case utf8.RuneCountInString(next) <= c.width:
			line = next
		default:
			c.WriteString(line + "\n")
			line = part
		}
	}
	c.WriteString(line + "\n")
}
