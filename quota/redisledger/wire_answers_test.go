package redisledger_test

import (
	"fmt"
	"strconv"
	"time"
)

// wireAnswer writes the answer to a script.
type wireAnswer struct {
	w      *wire
	values []any
}

// text returns the next value if it is a text.
func (a *wireAnswer) text() string {
	text, _ := a.next().(string)
	return text
}

func (a *wireAnswer) next() (value any) {
	if len(a.values) > 0 {
		value, a.values = a.values[0], a.values[1:]
	}
	return value
}

func (a *wireAnswer) number() int64 {
	n, _ := a.next().(int64)
	return n
}

func (a *wireAnswer) line(text string) { a.w.line("< " + text) }

// read writes all values.
func (a *wireAnswer) read(script string) {
	switch script {
	case "spend":
		a.w.packed(a.text()).decided()
	case "learn":
		a.learned()
	case "standings":
		a.line(fmt.Sprint("code=", a.number()))
		if len(a.values) > 0 {
			a.line("now=" + wireTime(a.number()))
		}
		a.standings()
	case "snapshot":
		a.line(fmt.Sprintf("settled=%d records=%d", a.number(), a.number()))
		for range 2 {
			if p := a.w.packed(a.text()); p.rest != "" {
				p.record()
				p.done("record")
			}
		}
		a.line(fmt.Sprintf("heard=%s from=%q", a.w.heard(a.text()), a.text()))
	case "entries":
		a.line(fmt.Sprint("code=", a.number()))
		a.entries()
	}
	for len(a.values) > 0 {
		a.line(fmt.Sprint(a.next()))
	}
}

func (a *wireAnswer) learned() {
	p := a.w.packed(a.text())
	a.line("")
	p.head()
	p.done("head")
	a.w.packed(a.text()).items()
	a.w.packed(a.text()).limits()
	a.line("now=" + wireTime(a.number()))
	for len(a.values) > 0 {
		a.line("label=" + a.w.name("LABEL", wireLabel(fmt.Sprint("l", a.number()))))
	}
}

func (a *wireAnswer) standings() {
	if len(a.values) > 0 {
		a.line("ahead=" + (time.Duration(a.number()) * time.Microsecond).String())
	}
	for len(a.values) >= 8 {
		used, over, since, before, frees, till := a.number(), a.number(), a.number(), a.number(), a.number(), a.number()
		a.line(fmt.Sprintf("used=%d over=%d since=%s before=%d frees=%s cooldown=%s budget=%q reason=%q",
			used, over, wireTime(since), before, wireTime(frees), wireTime(till), a.text(), a.text()))
	}
}

// entries writes a page, or places.
func (a *wireAnswer) entries() {
	if len(a.values) == 0 {
		return
	}
	if _, is := a.values[0].(string); !is {
		first, behind, from, labelled, settled := a.number(), a.number(), a.number(), a.number(), a.number()
		a.line(fmt.Sprintf("first=%d behind=%d from=%s labelled=%s settled=%s", first, behind, wireTime(from), wireTime(labelled), wireTime(settled)))
		return
	}
	for len(a.values) > 0 {
		a.w.packed(a.text()).record()
		p := a.w.packed(a.text())
		p.words()
		p.done("words")
	}
}

// decided reads the answer to a batch.
func (p *wirePacked) decided() {
	switch p.fields("code/1")[0] {
	case 0:
		p.fields("now/t7")
		p.end("answer")
		for i := range p.w.batch.runs {
			p.run(&p.w.batch.runs[i])
		}
		for p.rest != "" {
			p.fields("budget/2 first/t7 before/6 counts/4 place/4")
			p.end("window")
		}
	case 2:
		p.fields("now/t7")
	case 5:
		p.fields("try/2")
	case 8:
		p.fields("now/t7 newest/t7")
	}
	p.done("answer")
}

// run reads the answers to the requests of one run.
func (p *wirePacked) run(r *wireRun) {
	for left := r.times[0]; left > 0 && p.rest != ""; {
		n := p.fields("code/1 times/4")
		if n[0] < 6 {
			left -= n[1]
		}
		title := strconv.FormatInt(n[0], 10)
		switch n[0] {
		case 0:
			title = "granted"
			p.fields("stamp/t7")
			for _, number := range r.budgets {
				p.stands(p.w.batch.budgets[number-1])
			}
		case 1:
			title = "refused"
			p.fields("budget/2 used/7 retry/t7")
		case 2:
			title = "cooled down"
			p.fields("budget/2 used/7 retry/t7 reason/s2")
		case 4:
			title = "refused"
			for range p.fields("budget/2 used/7 kept/7 retry/t7 cooldown/1 reason/s2 ends/2")[6] {
				p.fields("budget/2 used/7 kept/7 used_next/7 kept_next/7")
			}
		case 5:
			title = "known"
			p.fields("stamp/t7")
		case 6:
			title = "ahead"
			p.fields("by/d7")
		case 7:
			title = "newest"
			p.fields("stamp/t7 client/6 seq/4")
		}
		p.end(title)
	}
}

// stands reads how a window stands after a grant.
func (p *wirePacked) stands(b wireBudget) {
	switch {
	case b.counter:
		p.fields("start/t7 present/7 before/7")
	case b.floors:
		p.fields("used/7 frees/t7 kept/7")
	default:
		p.fields("used/7 frees/t7")
	}
}
