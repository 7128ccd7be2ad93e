package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota"
)

// The size of a picture. pictureLow and pictureHigh bound its rows up to the
// limit, which are enough for a row a region where possible; pictureAbove is the
// most rows above the limit. pictureWidth is its width with its labels, less
// where the terminal is narrower, down to pictureNarrow.
const (
	pictureLow    = 8
	pictureHigh   = 20
	pictureAbove  = 8
	pictureWidth  = 79
	pictureNarrow = 30
)

func (a *app) pictureWidth() int {
	if w := a.width(); w > 0 {
		return max(pictureNarrow, min(pictureWidth, w-1))
	}
	return pictureWidth
}

// pictures draws, for every budget that the schedule is charged to, what its
// window holds over time on the dot, a letter a region, against its limit. A
// row that is begun is drawn, so that what stands above the line is over the limit.
func (a *app) pictures(p *planning) {
	letters := regionLetters(p.report.Regions)
	drawn := false
	for i := range p.report.Budgets {
		if b := &p.report.Budgets[i]; b.Touched {
			a.picture(p.report, i, letters)
			drawn = true
		}
	}
	if !drawn {
		fmt.Fprintln(a.stdout)
		return
	}
	var legend []string
	for i, region := range p.report.Regions {
		legend = append(legend, string(letters[i])+" "+region.Region)
	}
	fmt.Fprintln(a.stdout)
	for _, line := range strings.Split(text.WrapSoft(strings.Join(legend, "   "), a.pictureWidth()), "\n") {
		fmt.Fprintln(a.stdout, strings.TrimSpace(line))
	}
	a.paragraph("", ". held by the ledger   ! over the limit   ^ higher than is drawn")
	fmt.Fprintln(a.stdout)
}

// regionLetters gives each region a letter: of its name where one is free.
func regionLetters(regions []plan.RegionReport) []byte {
	letters, taken := make([]byte, len(regions)), map[byte]bool{}
	for i, region := range regions {
		for _, letter := range []byte(region.Region + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+") {
			if letters[i] = letter; !taken[letter] {
				break
			}
		}
		taken[letters[i]] = true
	}
	return letters
}

func (a *app) picture(r *plan.Report, budget int, letters []byte) {
	b := &r.Budgets[budget].Budget
	margin := max(len(fmt.Sprint(b.Limit)), 6) + 2
	columns := r.Columns(budget, a.pictureWidth()-margin)
	rows := pictureLow
	if peak := float64(r.Budgets[budget].Peak); peak > 0 {
		rows = int(max(pictureLow, min(pictureHigh, float64(len(letters))*float64(b.Limit)/peak)))
	}
	stacks, high := make([]string, len(columns)), rows
	for i := range columns {
		stacks[i] = stack(&columns[i], b.Limit, rows, letters)
		high = max(high, len(stacks[i]))
	}
	fmt.Fprintln(a.stdout)
	a.paragraph("", "%s, %s in %s; a row is %s, a column %s", safe(b.Name), b.Measure, b.Window,
		perRow(b.Limit, rows), quota.Human(r.To.Sub(r.From)/time.Duration(len(columns))))
	for row := high - 1; row >= 0; row-- {
		if row == rows-1 {
			fmt.Fprintf(a.stdout, "%*d |%s\n", margin-2, b.Limit, limitLine(columns, b.Limit))
		}
		cells := make([]byte, len(columns))
		for i := range cells {
			if cells[i] = ' '; row < len(stacks[i]) {
				cells[i] = stacks[i][row]
			}
		}
		line := fmt.Sprintf("%*s |%s", margin-2, "", strings.TrimRight(string(cells), " "))
		if row >= rows {
			line = a.red(line)
		}
		fmt.Fprintln(a.stdout, strings.TrimRight(line, " "))
	}
	fmt.Fprintf(a.stdout, "%*d +%s\n%*s%s\n", margin-2, 0, strings.Repeat("-", len(columns)), margin-1, "", a.hours(r, len(columns)))
}

// perRow says what a row stands for: whole, or with two figures where that is little.
func perRow(limit quota.Units, rows int) string {
	each := float64(limit) / float64(rows)
	if each >= 10 {
		return strconv.FormatFloat(each, 'f', 0, 64)
	}
	return strconv.FormatFloat(each, 'g', 2, 64)
}

// limitLine is the line of the limit; ! marks what is over it.
func limitLine(columns []plan.Column, limit quota.Units) string {
	line := make([]byte, len(columns))
	for i := range line {
		if line[i] = '='; columns[i].Total > limit {
			line[i] = '!'
		}
	}
	return string(line)
}

// stack is a column from the bottom up. Its cells are shared out by what each
// part counts for; ^ at the top says that there is no room for more.
func stack(c *plan.Column, limit quota.Units, upto int, letters []byte) string {
	if c.Total == 0 {
		return ""
	}
	rows := int((c.Total*quota.Units(upto) + limit - 1) / limit) // limits are far below what an integer holds
	full := rows > upto+pictureAbove
	rows = min(rows, upto+pictureAbove)
	var cells strings.Builder
	sum := quota.Units(0)
	fill := func(letter byte, units quota.Units) {
		sum += units
		for cells.Len() < int(float64(sum)/float64(c.Total)*float64(rows)+0.5) {
			cells.WriteByte(letter)
		}
	}
	fill('.', c.Held)
	for i, units := range c.Regions {
		fill(letters[i], units)
	}
	if full {
		return cells.String()[:rows-1] + "^"
	}
	return cells.String()
}

// hours labels the time below a picture, in UTC.
func (a *app) hours(r *plan.Report, columns int) string {
	const between, longest = 18, len("|2006-01-02 15:04Z")
	line := []byte(strings.Repeat(" ", columns+1))
	for i := 0; i+longest <= columns+1; i += between {
		at := r.From.Add(r.To.Sub(r.From) / time.Duration(columns) * time.Duration(i)).UTC()
		copy(line[i+1:], dated(at, a.now(), "|01-02 15:04Z"))
	}
	return strings.TrimRight(string(line), " ")
}

// red colours what is over a limit, where colours are wanted.
func (a *app) red(line string) string {
	if !a.terminal || a.getenv("NO_COLOR") != "" || a.getenv("TERM") == "dumb" {
		return line
	}
	return text.FgRed.Sprint(line)
}
