package redisledger

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota/internal/engine"
)

//go:embed append.lua
var appendLua string

// script is the only one. Its text is constant; data is in KEYS and ARGV.
var script = redis.NewScript(appendLua)

// maxExact is the largest integer below which all are exact in Lua, whose
// numbers are floating-point.
const maxExact = 1<<53 - 1

// stampSize is the size of the timestamp that an element begins with.
const stampSize = 8

var (
	errMalformed = errors.New("malformed answer; look for another program that writes these keys, " +
		"or a proxy before the server")
	errOld  = errors.New("the account has a ledger of an earlier release here")
	errFull = errors.New("a total of the log, or its clock, would reach 2^53")
)

// keys returns the keys of an account, and those of earlier releases if known is
// a caller's who knows nothing of the log.
func (l *Ledger) keys(account string, known *engine.Known) []string {
	base := l.prefix + ":{" + escape(account, "") + "}:"
	keys := []string{base + "head", base + "batches"}
	if known.Epoch == 0 && !l.imports {
		keys = append(keys, base+"meta", base+"log", base+"cool")
	}
	return keys
}

// readArgs returns the command that reads a log: the name of the command, the
// script, its KEYS and ARGV.
func (l *Ledger) readArgs(account string, known *engine.Known, bytes int) []any {
	keys := l.keys(account, known)
	line := make([]any, 0, 32)
	line = append(line, "evalsha", script.Hash(), len(keys))
	for _, key := range keys {
		line = append(line, key)
	}
	clock := ""
	if l.now != nil {
		clock = strconv.FormatInt(max(0, l.now().UnixMicro()), 10)
	}
	if bytes <= 0 {
		bytes = engine.DefaultPage
	}
	return append(line, clock, known.Epoch, known.After, known.Tag[:], bytes)
}

// appendArgs returns the command that appends to a log.
func (l *Ledger) appendArgs(account string, a *engine.Append) []any {
	gen := strconv.FormatUint(a.Gen, 10)
	conditions := a.Conditions
	if a.Any {
		gen, conditions = "", nil
	}
	notAfter := a.NotAfter
	if notAfter == 0 {
		notAfter = math.MaxInt64
	}
	bump := 0
	if a.Bump {
		bump = 1
	}
	line := l.readArgs(account, &a.Known, a.Bytes)
	line = append(line, a.NewEpoch, gen, a.NotBefore, notAfter, a.Count, bump, a.Trim, a.Data, len(conditions))
	for i := range conditions {
		c := &conditions[i]
		line = append(line, len(c.Totals))
		for _, total := range c.Totals {
			line = append(line, int(total))
		}
		line = append(line, len(c.Steps))
		for _, step := range c.Steps {
			line = append(line, step.From, min(step.Most, maxExact))
		}
	}
	for _, add := range a.Adds {
		line = append(line, int(add.Index), add.Amount)
	}
	return line
}

// parseTail parses what the script returns to a caller that knows the log up to
// position after.
func parseTail(answer []string, after uint64) (*engine.Tail, error) {
	switch {
	case len(answer) == 1 && answer[0] == "old":
		return nil, errOld
	case len(answer) == 1 && answer[0] == "full":
		return nil, errFull
	case len(answer) == 0:
		return nil, errMalformed
	}
	n := numbers{rest: answer[0]}
	t := &engine.Tail{Appended: n.next() == 1, Diverged: n.next() == 1, More: n.next() == 1, At: n.next(), Now: n.next(),
		Epoch: uint64(n.next()), Position: uint64(n.next()), First: uint64(n.next()), Newest: n.next(), Gen: uint64(n.next())}
	for n.rest != "" && !n.malformed {
		index, amount := n.next(), n.next()
		if index < 0 || index >= engine.MaxTotals {
			return nil, errMalformed
		}
		t.Totals[index] = amount
	}
	if n.malformed {
		return nil, errMalformed
	}
	return t, parseBatches(t, answer[1:], max(after+1, t.First))
}

// parseBatches sets the batches of t, of which the first has position first.
func parseBatches(t *engine.Tail, elements []string, first uint64) error {
	if len(elements) == 0 {
		return nil
	}
	size := 0
	for _, element := range elements {
		if len(element) < stampSize+engine.TagSize {
			return errMalformed
		}
		size += len(element)
	}
	data := make([]byte, 0, size)
	t.Batches = make([]engine.Batch, len(elements))
	for i, element := range elements {
		begin := len(data)
		data = append(data, element...)
		batch := data[begin:len(data):len(data)]
		at := int64(binary.BigEndian.Uint64(batch))
		t.Batches[i] = engine.Batch{Position: first + uint64(i), At: at, Data: batch[stampSize:]}
	}
	return nil
}

// numbers parses integers that are separated by spaces.
type numbers struct {
	rest      string
	malformed bool
}

func (n *numbers) next() int64 {
	word, rest, _ := strings.Cut(n.rest, " ")
	v, err := strconv.ParseInt(word, 10, 64)
	n.rest, n.malformed = rest, n.malformed || err != nil || v < 0
	return v
}
