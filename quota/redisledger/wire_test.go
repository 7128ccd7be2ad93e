package redisledger_test

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestWire compares what a ledger and its server send each other, and what is
// stored, with testdata/wire. Arguments and answers may change freely, since
// each process sends its own scripts; what is stored may not. With
// RATION_UPDATE=1 it writes the files.
func TestWire(t *testing.T) {
	server := redistest.Start(t)
	for name, play := range wireScenarios {
		t.Run(name, func(t *testing.T) {
			do(t, raw(t, server), "flushall")
			w := newWire(t, server)
			play(w)
			w.stored(raw(t, server))
			file := "testdata/wire/" + name + ".golden"
			if os.Getenv("RATION_UPDATE") == "1" {
				w.must(os.WriteFile(file, []byte(w.text.String()), 0o600))
			}
			want, err := os.ReadFile(file)
			w.must(err)
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(w.text.String(), "\n")); diff != "" {
				t.Errorf("%s -, now +\n%s", file, diff)
			}
		})
	}
}

// wire writes down the commands that a ledger sends, and their answers. Random
// bytes have names.
type wire struct {
	*redisledger.Ledger
	t      *testing.T
	now    time.Time
	reopen func() // make the ledger anew, which knows nothing

	meanwhile func() // what happens, silently, when the ledger has sent an rpush

	mu      sync.Mutex // held while text is written
	text    strings.Builder
	quiet   bool              // write nothing
	lose    bool              // lose the answer to the next spend
	names   map[string]string // of random bytes
	counts  map[string]int    // of names, by kind
	scripts map[string]string // names by text or SHA-1
	batch   wireBatch         // the last one sent
}

// wirePrefix begins the keys of the tests' account.
const wirePrefix = "wire:{" + account + "}:"

func newWire(t *testing.T, server *redistest.Server) *wire {
	w := &wire{t: t, now: noonUTC(), names: map[string]string{}, counts: map[string]int{}, scripts: map[string]string{}}
	for name, text := range redisledger.Scripts {
		sum := sha1.Sum([]byte(text))
		w.scripts[text], w.scripts[hex.EncodeToString(sum[:])] = name, name
	}
	client := raw(t, server)
	client.AddHook(w)
	w.reopen = func() {
		w.Ledger = redisledger.New(client, &redisledger.Options{Prefix: "wire", Now: func() time.Time { return w.now }})
	}
	w.reopen()
	return w
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, cmd := range commands {
			isHandshake := cmd.Name() == "hello" || cmd.Name() == "client"
			if !w.quiet && !isHandshake {
				w.write(cmd)
			}
		}
		return err
	}
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "rpush" && w.meanwhile != nil {
			defer w.silently(w.meanwhile)
			w.meanwhile = nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		failed := err != nil && !errors.Is(err, redis.Nil) // such as NOSCRIPT
		if failed || w.quiet || cmd.Name() == "hello" {
			return err
		}
		if name := w.write(cmd); name == "spend" && w.lose {
			w.lose = false
			w.line("< lost")
			return errors.New("i/o timeout")
		}
		return err
	}
}

// write writes a command and its answer, and returns the name of its script.
func (w *wire) write(cmd redis.Cmder) (script string) {
	var args []string
	for _, arg := range cmd.Args() {
		if b, ok := arg.([]byte); ok {
			arg = string(b)
		}
		args = append(args, fmt.Sprint(arg))
	}
	if !strings.HasPrefix(cmd.Name(), "eval") {
		w.line("> " + strings.TrimSpace(cmd.Name()+" "+w.plain(args)))
		w.plainAnswer(cmd, args)
		return ""
	}
	script = w.scripts[args[1]]
	keys := cmd.Args()[2].(int)
	w.line("> " + script + " " + w.keys(args[3:3+keys]))
	w.arguments(script, args[3+keys:])
	answer := &wireAnswer{w: w}
	switch value := cmd.(interface{ Val() any }).Val().(type) {
	case []any:
		answer.values = value
	default:
		answer.values = []any{value}
	}
	answer.read(script)
	return script
}

func (w *wire) line(text string) {
	if !w.quiet {
		w.text.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}

// step says what comes next.
func (w *wire) step(text string) {
	if w.text.Len() > 0 {
		w.line("")
	}
	w.line("# " + text)
}

// silently runs what is not written down.
func (w *wire) silently(run func()) {
	w.quiet = true
	run()
	w.quiet = false
}

// name returns the name of random bytes, by kind and order of appearance.
func (w *wire) name(kind, random string) string {
	if w.names[kind+random] == "" {
		w.counts[kind]++
		w.names[kind+random] = fmt.Sprint(kind, w.counts[kind])
	}
	return w.names[kind+random]
}

// id returns a number of an id, or its name if the ledger has chosen it.
func (w *wire) id(kind string, number int64) string {
	if number < 100 {
		return fmt.Sprint(number)
	}
	return w.name(kind, fmt.Sprint(number))
}

// heard returns what clients have heard, with names for epochs.
func (w *wire) heard(text string) string {
	for random, name := range w.names {
		if life, ok := strings.CutPrefix(random, "LIFE"); ok {
			epoch := strconv.FormatUint(binary.BigEndian.Uint64([]byte(life)), 10)
			text = strings.ReplaceAll(text, epoch, name)
		}
	}
	return text
}

// key returns a key's name, with names for the random bytes in it.
func (w *wire) key(key string) string {
	if i := len(key) - 8; i > 0 && key[i:i+2] == ":r" {
		return key[:i+2] + "RANDOM"
	}
	base, last := key[:strings.LastIndex(key, ":")+1], key[strings.LastIndex(key, ":")+1:]
	switch of := strings.TrimPrefix(base, wirePrefix); {
	case (of == "log:" || strings.HasPrefix(of, "k:") || strings.HasPrefix(of, "h:")) && len(last) == 12:
		return base + w.name("ID", last)
	case strings.HasPrefix(last, "c") && len(last) == 13:
		client, _ := strconv.ParseInt(last[1:], 16, 64)
		return base + "c" + w.id("CLIENT", client)
	}
	return key
}

// keys returns keys without their prefix.
func (w *wire) keys(keys []string) string {
	var all []string
	for _, key := range keys {
		all = append(all, strings.TrimPrefix(w.key(key), wirePrefix))
	}
	return strings.Join(all, " ")
}

// must fails the test on an error.
func (w *wire) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// spend sends a batch as it is, without combining.
func (w *wire) spend(client, seq uint64, requests ...quota.Request) []quota.Answer {
	w.t.Helper()
	batch := &quota.Batch{Account: account, Client: client, Seq: seq, Requests: requests}
	answers, err := w.Spend(w.t.Context(), batch)
	w.must(err)
	return answers
}

// know makes the account know coverages, one after the other: a batch names
// new ones in random order. Each leaves a note of 0 units in the log.
func (w *wire) know(key string, charges ...*quota.Charge) {
	w.t.Helper()
	w.silently(func() {
		for i, c := range charges {
			bare := *c
			bare.Floors, bare.FloorUntil = nil, 0
			note := quota.Request{Method: "list", Kind: quota.EntryNote, Force: true, Charges: []*quota.Charge{&bare}}
			_, err := w.Spend(w.t.Context(), &quota.Batch{Account: account, Key: key, Client: 6, Seq: uint64(1 + i), Requests: []quota.Request{note}})
			w.must(err)
		}
	})
}

// stored writes what the server has.
func (w *wire) stored(client *redis.Client) {
	w.step("stored")
	var all []string
	for _, key := range do(w.t, client, "keys", "*").([]any) {
		all = append(all, key.(string))
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(w.key(a), w.key(b)) })
	for _, key := range all {
		kind := do(w.t, client, "type", key).(string)
		w.line(kind + " " + w.key(key))
		switch kind {
		case "list":
			for _, record := range do(w.t, client, "lrange", key, 0, -1).([]any) {
				w.packed(record.(string)).record()
			}
		case "string":
			w.packed(do(w.t, client, "get", key).(string)).value(key)
		case "hash":
			w.hash(key, client.HGetAll(w.t.Context(), key).Val())
		}
	}
}
