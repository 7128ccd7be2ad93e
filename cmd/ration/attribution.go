package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ration-dev/ration/quota"
)

// attributions are what log adds up by.
var attributions = []string{"run", "job", "region", "lane", "method"}

// sum is what one run, job, region, lane or method spent.
type sum struct {
	By      string      `json:"by"`
	Name    string      `json:"name"`
	Account string      `json:"account"`
	Units   quota.Units `json:"units"`
	Calls   quota.Units `json:"calls"`
	Share   float64     `json:"share"` // of the units of all that were asked for in this account, 0 to 1
	First   time.Time   `json:"first"`
	Last    time.Time   `json:"last"`
}

// of returns what an entry is attributed to.
func (e *logged) of(by string) string {
	switch by {
	case "run":
		return e.Run
	case "job":
		return e.Job
	case "region":
		return e.Region
	case "lane":
		return e.Lane
	}
	return e.Method
}

// sums adds entries up, who spent most first. Shares are of an account's own
// units: those of another account are another upstream's.
func sums(entries []logged, by string) []sum {
	type key struct{ account, name string }
	place := map[key]int{}
	total := map[string]quota.Units{}
	var all []sum
	for i := range entries {
		e := &entries[i]
		k := key{e.Account, e.of(by)}
		n, known := place[k]
		if !known {
			n = len(all)
			place[k] = n
			all = append(all, sum{By: by, Name: k.name, Account: k.account, First: e.At.UTC()})
		}
		s := &all[n]
		s.Units, s.Calls, s.Last = s.Units+e.Units, s.Calls+e.Calls, e.At.UTC()
		total[e.Account] += e.Units
	}
	for i := range all {
		if t := total[all[i].Account]; t > 0 {
			all[i].Share = float64(all[i].Units) / float64(t)
		}
	}
	slices.SortStableFunc(all, func(x, y sum) int {
		return cmp.Or(cmp.Compare(y.Units, x.Units), cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.Name, y.Name))
	})
	return all
}

func (a *app) tellSums(f *logFlags, entries []logged) error {
	all := sums(entries, f.by)
	shown := all
	if f.top > 0 && len(all) > f.top {
		shown = all[:f.top]
	}
	switch {
	case a.json:
		return lines(a, shown)
	case f.csv:
		return a.sumsCSV(shown)
	}
	several := slices.ContainsFunc(all, func(s sum) bool { return s.Account != all[0].Account })
	headings := []string{f.by, "units", "calls", "share", "first", "last"}
	if several {
		headings = append(headings, "account")
	}
	t := a.table(headings...)
	for _, s := range shown {
		row := []any{safe(s.Name), s.Units, s.Calls, percent(s.Share), a.clock(s.First), a.clock(s.Last)}
		if several {
			row = append(row, safe(s.Account))
		}
		t.row(row...)
	}
	t.print()
	var rest quota.Units
	for _, s := range all[len(shown):] {
		rest += s.Units
	}
	if left := len(all) - len(shown); left > 0 {
		fmt.Fprintf(a.stderr, "%s spent %s; --top 0 shows all\n", counted(left, "other"), counted(rest, "unit"))
	}
	return nil
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func (a *app) logCSV(entries []logged) error {
	records := [][]string{{"at", "run", "id", "account", "method", "units", "calls", "lane", "job", "region"}}
	for _, e := range entries {
		records = append(records, []string{e.At.UTC().Format(time.RFC3339Nano), e.Run, e.ID, cell(e.Account), cell(e.Method),
			fmt.Sprint(e.Units), fmt.Sprint(e.Calls), cell(e.Lane), cell(e.Job), cell(e.Region)})
	}
	return csv.NewWriter(a.stdout).WriteAll(records)
}

func (a *app) sumsCSV(all []sum) error {
	records := [][]string{{"by", "name", "account", "units", "calls", "share", "first", "last"}}
	for _, s := range all {
		records = append(records, []string{s.By, cell(s.Name), cell(s.Account), fmt.Sprint(s.Units), fmt.Sprint(s.Calls),
			strconv.FormatFloat(s.Share, 'f', 4, 64), s.First.Format(time.RFC3339Nano), s.Last.Format(time.RFC3339Nano)})
	}
	return csv.NewWriter(a.stdout).WriteAll(records)
}

// cell returns a name from outside fit for a spreadsheet, which runs what
// begins like a formula (OWASP, "CSV Injection"), and for a terminal. The lone
// dash of what is not attributed stays.
func cell(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		name = strconv.Quote(name)
	}
	if begin := strings.TrimLeft(name, " '\"`"); name != "-" && begin != "" && strings.ContainsRune("=+-@", rune(begin[0])) {
		return "'" + name
	}
	return name
}
