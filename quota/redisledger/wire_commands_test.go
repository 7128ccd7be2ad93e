package redisledger_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// wireBatch is what an answer's layout depends on.
type wireBatch struct {
	runs    []wireRun
	budgets []wireBudget
}

type (
	wireRun    struct{ times, budgets []int64 }
	wireBudget struct{ counter, floors bool }
)

// wireArguments are the arguments that each script begins with: a title and a
// layout of fields, or the title of a text.
var wireArguments = map[string][]string{
	"spend": {"batch: batch", "test: now/t7", "key"},
	"learn": {"test: now/t7"},
	"settle": {"head: head", "test: now/t7", "log: horizon/d7", "entry: stamp/t7 client/c6 seq/4 units/4 calls/1 newer/4 scope/1",
		"recorded: units/4 calls/1 keeps/1 unsure/1", "words: method/s1 lane/s1 job/s1 region/s1"},
	"standings": {"head: head", "test: now/t7", "log: horizon/d7", "names: budgets"},
	"entries":   {"head: head", "log: horizon/d7", "page: from/t7 before/t7 most/4 what/1"},
	"restamp":   {"head: head", "test: now/t7", "page: scope/1 keeps/1 size/4"},
	"snapshot":  {"mark: random", "milliseconds"},
	"restore":   {"head: head", "test: now/t7", "log: scope/1 horizon/d7 records/4 restored/4 settled/4", "record: record"},
	"cooldown":  {"cooldown: for/d7 until/t7", "budget", "reason", "test: now/t7"},
	"recool":    {"test: now/t7"},
}

// arguments writes the arguments of a script, see the top of each.
func (w *wire) arguments(script string, args []string) {
	for _, form := range wireArguments[script] {
		if len(args) == 0 {
			break
		}
		title, layout, _ := strings.Cut(form, ": ")
		p := w.packed(args[0])
		args = args[1:]
		switch layout {
		case "":
			w.line("  " + title + ": " + strconv.Quote(p.rest))
			continue
		case "random":
			w.line(fmt.Sprintf("  %s[%d]=RANDOM", title, len(p.rest)))
			continue
		case "head":
			p.head()
		case "batch":
			p.batch()
		case "record":
			p.record()
		case "budgets":
			p.asked(len(args))
		default:
			p.fields(layout)
		}
		p.done(title)
	}
	switch {
	case script == "learn":
		w.learned(args)
	case script == "standings":
		w.definitions(args)
	case script == "restore":
		w.restored(args)
	case len(args) > 0:
		w.line(fmt.Sprintf("  rest: %q", args))
	}
}

// definitions writes the coverages of standings; that of the log is empty.
func (w *wire) definitions(args []string) {
	for _, def := range args {
		p := w.packed(def)
		if def != "" {
			p.definition()
		}
		p.end("coverage")
	}
}

// learned writes what learn.lua is to write.
func (w *wire) learned(args []string) {
	if len(args) == 0 {
		return
	}
	w.line(fmt.Sprintf("  life[%d]=RANDOM", len(args[0])))
	var coverages []string // in random order
	p := w.packed(args[1])
	for p.rest != "" {
		p.add("id", fmt.Sprint(len(p.take(12))), "RANDOM")
		p.fields("flags/1 horizon/d7 definition/4")
		p.definition()
		coverages = append(coverages, "  coverage: "+strings.Join(p.line, " "))
		p.line = nil
	}
	slices.Sort(coverages)
	for _, line := range coverages {
		w.line(line)
	}
	p = w.packed(args[2])
	for p.rest != "" {
		p.fields("identity/s1 config/a16 changed/t7 limit/6")
		p.end("limit")
	}
	for _, label := range args[3:] {
		p = w.packed(label)
		p.add("number", fmt.Sprint(len(p.take(2))), "RANDOM")
		p.words()
		p.done("label")
	}
}

// restored writes what clients have heard, the new life, what counters have not
// counted, and the mark.
func (w *wire) restored(args []string) {
	p := w.packed(args[1])
	if p.rest != "" {
		p.life("life")
	}
	w.line("  heard: " + w.heard(args[0]))
	p.done("new")
	p = w.packed(args[2])
	for p.rest != "" {
		p.fields("stamp/t7 units/4 calls/4")
		p.label()
		p.end("uncounted")
	}
	w.line(fmt.Sprintf("  mark[%d]=RANDOM", len(args[3])))
	for _, key := range args[4:] {
		w.line("  key: " + strconv.Quote(key))
	}
}

// batch reads the batch of a spend.
func (p *wirePacked) batch() {
	look := p.head()
	n := p.fields("mode/1 keeps/1 own/1 client/c6 seq/7 known/t7 caller/t7 horizon/d7 sources/1 budgets/2 runs/2")
	mode, sources, budgets, runs := n[0], n[8], n[9], n[10]
	p.end("batch")
	if mode%4 >= 2 {
		p.fields("requests/4 since/t7 try/2")
		p.end("repeat")
	}
	if look != 0 {
		for range budgets {
			p.fields("budget/s2")
		}
		p.end("names")
	}
	p.w.batch = wireBatch{}
	for range budgets {
		p.w.batch.budgets = append(p.w.batch.budgets, p.budget())
	}
	for range sources {
		p.fields("counter/1 calls/1 horizon/d7")
		p.end("source")
	}
	for range runs {
		p.label()
		n := p.fields("units/4 place/4 times/2 sources/1 budgets/2")
		run := wireRun{times: n[2:3]}
		for range n[3] {
			p.fields("source/1")
		}
		for range n[4] {
			run.budgets = append(run.budgets, p.fields("budget/2")...)
		}
		if n[1] >= 1<<31 {
			p.fields("kind/1 calls/4")
		}
		p.end("run")
		p.w.batch.runs = append(p.w.batch.runs, run)
	}
	p.done("batch")
}

// budget reads a budget, see windows.lua.
func (p *wirePacked) budget() wireBudget {
	n := p.fields("window/1 source/1 floors/1 length/d7 limit/6 from/t7 first/t7 before/6 counts/4 place/4")
	if n[0] == 2 {
		p.fields("start/t7 since/t7 opens/t7 next/t7 reopens/t7")
	}
	if n[2] > 0 {
		p.fields("ends/d7")
	}
	for range n[2] {
		p.fields("source/1 units/6")
	}
	p.end("budget")
	return wireBudget{n[0] == 3, n[2] > 0}
}

// asked reads the budgets of a question, and their names.
func (p *wirePacked) asked(many int) {
	for range many {
		p.budget()
	}
	for range many {
		p.fields("budget/s2")
	}
	p.done("names")
}

// plain returns the arguments of a command that is not a script.
func (w *wire) plain(args []string) string {
	name, args := args[0], slices.Clone(args[1:])
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "heard"):
			args[i] = "heard" + w.keys([]string{arg[len("heard"):]})
		case strings.HasPrefix(arg, wirePrefix):
			args[i] = w.keys([]string{arg})
		case name == "rpush" && i > 0:
			args[i] = "RECORD"
		case wireLabel(arg) != "":
			args[i] = "l" + w.name("LABEL", wireLabel(arg))
		}
	}
	return strings.Join(args, " ")
}

// wireLabel returns the bytes of the number in meta's field of a label, or ""
// for another field.
func wireLabel(field string) string {
	n, err := strconv.ParseUint(strings.TrimPrefix(field, "l"), 10, 16)
	if field[:min(1, len(field))] != "l" || err != nil {
		return ""
	}
	return string([]byte{byte(n >> 8), byte(n)})
}

// plainAnswer writes the answer to a command that is not a script.
func (w *wire) plainAnswer(cmd redis.Cmder, args []string) {
	var values []string
	switch c := cmd.(type) {
	case *redis.ScanCmd:
		values, _ = c.Val()
		for i := range values {
			values[i] = w.key(values[i])
		}
		slices.Sort(values)
	case *redis.MapStringStringCmd:
		w.hash(args[1], c.Val())
		return
	case interface{ Val() []string }:
		values = c.Val()
	case interface{ Val() string }:
		values = []string{c.Val()}
	case interface{ Val() any }:
		all, ok := c.Val().([]any)
		if !ok {
			all = []any{c.Val()}
		}
		for _, value := range all {
			values = append(values, fmt.Sprint(value))
		}
	}
	for _, value := range values {
		if cmd.Name() == "lrange" {
			w.packed(value).record()
		} else {
			w.line("< " + strconv.Quote(value))
		}
	}
}

// hash writes meta or the cooldowns, sorted.
func (w *wire) hash(key string, all map[string]string) {
	if strings.HasSuffix(key, ":cool") {
		for _, field := range slices.Sorted(maps.Keys(all)) {
			w.packed(all[field]).cooldown(field)
		}
		return
	}
	for _, field := range slices.SortedFunc(maps.Keys(all), w.byLabel) {
		p := w.packed(all[field])
		switch {
		case field == "head":
			p.head()
			p.done("head")
		case field == "items":
			p.items()
		case field == "limits":
			p.limits()
		case field == "from" || field == "guard":
			at, _ := strconv.ParseInt(p.rest, 10, 64)
			w.line("  " + field + ": " + wireTime(at))
		case strings.HasPrefix(field, "heard"):
			w.line("  heard" + w.key(field[len("heard"):]) + ": " + w.heard(p.rest))
		case wireLabel(field) != "":
			p.words()
			p.done("l" + w.name("LABEL", wireLabel(field)))
		case field[0] == 'n':
			p := w.packed(field[1:])
			p.words()
			p.add("number", "n", w.name("LABEL", wireLabel("l"+all[field])))
			p.done("n")
		default:
			w.line("  " + field + ": " + p.rest)
		}
	}
}

// byLabel sorts fields of meta: those with the number of a label by its name.
func (w *wire) byLabel(a, b string) int {
	name := func(field string) string {
		if label := wireLabel(field); label != "" {
			return "l" + w.name("LABEL", label)
		}
		return field
	}
	return strings.Compare(name(a), name(b))
}
