package redisledger

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
)

//go:embed append.lua
var appendLua string

// script is the only one. Its text is constant; data is in KEYS and ARGV.
var script = redis.NewScript(appendLua)

// maxExact is the largest integer below which all are exact in Lua, whose
// numbers are floating-point.
const maxExact = 1<<53 - 1

var errMalformed = errors.New("malformed answer; look for another program that writes these keys, " +
	"or a proxy before the server")

// What the script answers instead of a tail, as errors.
const (
	errOld  scriptError = "the account has a ledger of an earlier release here"
	errFull scriptError = "a total of the log, or its clock, would reach 2^53"
)

// scriptError is a redis.Error: nothing was appended.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (scriptError) RedisError() {}

// numbers are integers of 8 bytes each, as the script packs them.
type numbers []byte

func (n *numbers) add(values ...int64) {
	for _, v := range values {
		*n = binary.BigEndian.AppendUint64(*n, uint64(v))
	}
}

func (n numbers) at(i int) int64 { return int64(binary.BigEndian.Uint64(n[8*i:])) }

// known returns the numbers that a read begins with.
func (l *Ledger) known(known *engine.Known, bytes int) (n numbers) {
	now := int64(-1)
	if l.now != nil {
		now = max(0, l.now().UnixMicro())
	}
	if bytes <= 0 {
		bytes = engine.DefaultPage
	}
	n = make(numbers, 0, 512)
	n.add(now, int64(known.Epoch), int64(known.After), int64(bytes))
	return n
}

// conditions returns the numbers of an append.
func (l *Ledger) conditions(a *engine.Append) numbers {
	gen, conditions := int64(a.Gen), a.Conditions
	if a.Any {
		gen, conditions = -1, nil
	}
	notAfter := a.NotAfter
	if notAfter == 0 {
		notAfter = math.MaxInt64
	}
	bump, reset := int64(0), int64(0)
	if a.Bump {
		bump = 1
	}
	if a.Reset {
		reset = 1
	}
	trim := int64(min(a.Trim, math.MaxInt64))
	n := l.known(&a.Known, a.Bytes)
	n.add(int64(a.NewEpoch), gen, a.NotBefore, notAfter, int64(a.Count), bump, reset, trim, int64(len(conditions)))
	for i := range conditions {
		c := &conditions[i]
		n.add(int64(len(c.Totals)))
		for _, total := range c.Totals {
			n.add(int64(total))
		}
		n.add(int64(len(c.Steps)))
		for _, step := range c.Steps {
			n.add(step.From, min(step.Most, maxExact))
		}
	}
	for _, add := range a.Adds {
		n.add(int64(add.Index), add.Amount)
	}
	return n
}

// base returns what the keys of an account begin with.
func (l *Ledger) base(account string) string { return l.prefix + ":{" + escape(account, "") + "}:" }

// arguments returns the script's KEYS, preceded by their number, and ARGV. A
// caller that knows nothing of a log names the keys of earlier releases too.
func (l *Ledger) arguments(account string, known *engine.Known, n numbers, data []byte) []any {
	base := l.base(account)
	args := append(make([]any, 0, 10), 2, base+"head", base+"batches")
	if known.Epoch == 0 && !l.imports {
		args[0] = 5
		args = append(args, base+"meta", base+"log", base+"cool")
	}
	args = append(args, []byte(n), known.Tag[:])
	if data != nil {
		args = append(args, data)
	}
	return args
}

// parseTail parses what the script returns.
func parseTail(answer []string) (*engine.Tail, error) {
	const head = 11 // numbers
	switch {
	case len(answer) == 1 && answer[0] == "old":
		return nil, errOld
	case len(answer) == 1 && answer[0] == "full":
		return nil, errFull
	case len(answer) < 2 || len(answer[0]) != 8*head:
		return nil, errMalformed
	case len(answer[1])%8 != 0 || len(answer[1]) > 8*engine.MaxTotals:
		return nil, errMalformed
	}
	n := numbers(answer[0])
	t := &engine.Tail{
		Appended: n.at(0) == 1, Diverged: n.at(1) == 1, More: n.at(2) == 1, At: n.at(3), Now: n.at(4),
		Epoch: uint64(n.at(5)), Position: uint64(n.at(6)), First: uint64(n.at(7)), Newest: n.at(8),
		Gen: uint64(n.at(9)),
	}
	totals := numbers(answer[1])
	for i := range len(totals) / 8 {
		t.Totals[i] = totals.at(i)
	}
	return t, parseBatches(t, answer[2:], uint64(n.at(10)))
}

// parseBatches adds batches to t, of which the first has position first.
func parseBatches(t *engine.Tail, elements []string, first uint64) error {
	const stamp = 8 // bytes that an element begins with
	size := 0
	for _, element := range elements {
		if len(element) < stamp+engine.TagSize {
			return errMalformed
		}
		size += len(element)
	}
	if size == 0 {
		return nil
	}
	data := make([]byte, 0, size)
	t.Batches = slices.Grow(t.Batches, len(elements))
	for i, element := range elements {
		begin := len(data)
		data = append(data, element...)
		batch := data[begin:len(data):len(data)]
		t.Batches = append(t.Batches,
			engine.Batch{Position: first + uint64(i), At: numbers(batch).at(0), Data: batch[stamp:]})
	}
	return nil
}
