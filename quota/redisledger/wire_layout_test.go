package redisledger_test

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// wirePacked reads packed bytes into lines of fields, such as stamp[7]=T+1s:
// its name, its width in bytes, and its value as a big-endian number. T is
// 2026-11-20 12:00 UTC.
type wirePacked struct {
	w    *wire
	rest string
	line []string
}

func (w *wire) packed(text string) *wirePacked { return &wirePacked{w: w, rest: text} }

func (p *wirePacked) take(n int) string {
	n = min(n, len(p.rest))
	front := p.rest[:n]
	p.rest = p.rest[n:]
	return front
}

func (p *wirePacked) add(name, width, value string) {
	p.line = append(p.line, name+"["+width+"]="+value)
}

func bigEndian(b string) (v int64) {
	for i := range len(b) {
		v = v<<8 | int64(b[i])
	}
	return v
}

// fields reads fields. A layout names them, each with a kind and a width in
// bytes: t7 is a time, d7 a duration, c6 a part of an id, a16 a text, s2 a text
// behind its length of two bytes, 4 a number. It returns the numbers.
func (p *wirePacked) fields(layout string) (numbers []int64) {
	for _, field := range strings.Fields(layout) {
		name, kind, _ := strings.Cut(field, "/")
		width, _ := strconv.Atoi(strings.TrimLeft(kind, "tdcas"))
		b := p.take(width)
		v := bigEndian(b)
		numbers = append(numbers, v)
		size := strconv.Itoa(len(b))
		switch kind[0] {
		case 't':
			p.add(name, size, wireTime(v))
		case 'd':
			p.add(name, size, (time.Duration(v) * time.Microsecond).String())
		case 'c':
			p.add(name, size, p.w.id(strings.ToUpper(name), v))
		case 'a':
			p.add(name, size, strconv.Quote(b))
		case 's':
			p.add(name, size+"+n", strconv.Quote(p.take(int(v))))
		default:
			p.add(name, size, wireNumber(v, width))
		}
	}
	return numbers
}

// wireTime returns a time in microseconds, relative to when tests begin if it
// is near.
func wireTime(v int64) string {
	at := time.UnixMicro(v).UTC()
	since := at.Sub(noonUTC())
	switch {
	case v == 0:
		return "0"
	case since >= 0 && since < 1000*time.Hour:
		return "T+" + since.String()
	case since < 0 && since > -1000*time.Hour:
		return "T" + since.String()
	}
	return at.Format(time.RFC3339Nano)
}

// wireNumber returns a number, with a top bit that says something of its own.
func wireNumber(v int64, width int) string {
	if top := int64(1) << 31; width == 4 && v >= top {
		return fmt.Sprint("2^31+", v-top)
	}
	return fmt.Sprint(v)
}

// end ends a line.
func (p *wirePacked) end(title string) {
	if p.w.quiet {
		p.line = nil
		return
	}
	p.w.line("  " + title + ": " + strings.Join(p.line, " "))
	p.line = nil
}

// done ends the last line. What no field has read is written too.
func (p *wirePacked) done(title string) {
	if p.rest != "" {
		p.add("rest", fmt.Sprint(len(p.rest)), hex.EncodeToString([]byte(p.rest)))
		p.rest = ""
	}
	if p.line != nil {
		p.end(title)
	}
}

// head reads a head, and returns its last byte.
func (p *wirePacked) head() int64 {
	if p.rest == "" {
		p.add("life", "0", "")
		return 0
	}
	p.life("life")
	return p.fields("version/3 look/1")[1]
}

func (p *wirePacked) life(name string) {
	life := p.take(8)
	p.add(name, fmt.Sprint(len(life)), p.w.name("LIFE", life))
}

func (p *wirePacked) label() {
	switch number := p.take(2); number {
	case "\x00\x00", "\xff\xff":
		p.add("label", "2", fmt.Sprint(bigEndian(number)))
	default:
		p.add("label", "2", p.w.name("LABEL", number))
	}
}

func (p *wirePacked) words() { p.fields("method/s1 lane/s1 job/s1 region/s1") }

// definition reads a coverage.
func (p *wirePacked) definition() {
	p.fields("measure/1")
	for _, name := range []string{"methods", "except", "lanes", "regions"} {
		for range p.fields(name + "/4")[0] {
			p.fields("word/s4")
		}
	}
}

func (p *wirePacked) record() {
	p.fields("stamp/t7 total/6 amount/4")
	if p.rest != "" {
		p.label()
		p.fields("client/c6 seq/c4")
	}
	if p.rest != "" {
		p.fields("calls/4 kind/1")
	}
	p.done("record")
}

// items reads coverages, as meta has them.
func (p *wirePacked) items() {
	if p.rest == "" {
		return
	}
	p.add("format", "24", strconv.Quote(p.take(24)))
	p.end("items")
	for p.rest != "" {
		p.add("id", "12", p.w.name("ID", p.take(12)))
		p.fields("flags/1 horizon/d7 since/t7 asked/d7 before/d7 definition/4")
		p.definition()
		p.end("  item")
	}
}

func (p *wirePacked) limits() {
	for p.rest != "" {
		for range p.fields("identity/s1 asked/1")[1] {
			p.fields("config/a16 changed/t7 limit/6 ends/t7")
		}
		p.end("limits")
	}
}

// value reads what a string holds: a counter, a slot, or a name.
func (p *wirePacked) value(key string) {
	last := key[strings.LastIndex(key, ":")+1:]
	switch {
	case strings.HasPrefix(last, "c") && len(last) == 13:
		p.fields("seq/7 below/t7 try/2")
		for p.rest != "" {
			p.fields("place/4 stamp/t7")
		}
		p.done("slot")
	case len(last) == 12 && strings.Contains(key, "}:"):
		p.fields("start/t7 present/6 before/6")
		p.done("counter")
	default:
		p.w.line("  " + strconv.Quote(p.rest))
	}
}

// cooldown reads a field of the cooldowns.
func (p *wirePacked) cooldown(field string) {
	if strings.HasPrefix(field, "\x00") {
		p.fields("lasts/d7")
	} else {
		p.fields("until/t7")
		p.add("reason", "n", strconv.Quote(p.take(len(p.rest))))
	}
	p.done(strconv.Quote(field))
}
