package redisledger_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// recorder records the last script sent, and its answer.
type recorder struct {
	args   []any
	answer any
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if command, ok := cmd.(interface{ Val() any }); ok && strings.HasPrefix(cmd.Name(), "eval") {
			r.args, r.answer = cmd.Args(), command.Val()
		}
		return err
	}
}

// fields splits packed bytes into hexadecimal fields of the given widths, and
// the rest.
func fields(packed string, widths ...int) string {
	var all []string
	for _, n := range widths {
		n = min(n, len(packed))
		all, packed = append(all, hex.EncodeToString([]byte(packed[:n]))), packed[n:]
	}
	if packed != "" {
		all = append(all, "and "+hex.EncodeToString([]byte(packed)))
	}
	return strings.Join(all, " ")
}

// TestWire checks the encoding of a batch, its answer and its records. The
// first two may change freely, since each process sends its own script; the
// records may not.
func TestWire(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	now := time.Unix(1795176000, 0)
	l, way := recorded(t, server, func() time.Time { return now })
	search, list, note := wireRequests()
	send := func(seq uint64, requests ...quota.Request) (batch, answer string) {
		t.Helper()
		if _, err := l.Spend(t.Context(), &quota.Batch{Account: account, Client: 7, Seq: seq, Requests: requests}); err != nil {
			t.Fatal(err)
		}
		keys := way.args[2].(int)
		return string(way.args[3+keys].([]byte)), way.answer.(string)
	}
	send(1, note, search)
	now = now.Add(2 * time.Minute)
	send(5, list)
	batch, answer := send(9, list, list, search, search, note)
	life, labels := hex.EncodeToString([]byte(batch[:8])), map[string]string{}
	lines := []string{"batch"}
	add := func(packed *string, name string, widths ...int) {
		lines = append(lines, name+": "+cutFields(packed, widths...))
	}
	add(&batch, "head", 8, 3, 1, 1, 1, 1, 6, 7, 7, 7, 7, 1, 2, 2)
	add(&batch, "day", 1, 1, 1, 7, 6, 7, 7, 6, 4, 4)
	add(&batch, "minute", 1, 1, 1, 7, 6, 7, 7, 6, 4, 4)
	add(&batch, "daily", 1, 1, 1, 7, 6, 7, 7, 6, 4, 4, 7, 7, 7, 7, 7, 7, 1, 6)
	for range 3 {
		add(&batch, "source", 1, 1, 7)
	}
	label := func() { // random
		have := hex.EncodeToString([]byte(batch[:2]))
		if labels[have] == "" {
			labels[have] = fmt.Sprintf("(%d)", len(labels)+1)
		}
	}
	label()
	add(&batch, "lists", 2, 4, 4, 2, 1, 2, 1, 2, 2)
	label()
	add(&batch, "searches", 2, 4, 4, 2, 1, 2, 1, 1, 2, 2)
	label()
	add(&batch, "note", 2, 4, 4, 2, 1, 2, 1, 1, 4)
	lines = append(lines, "answer"+hex.EncodeToString([]byte(batch)))
	add(&answer, "now", 1, 7)
	add(&answer, "lists", 1, 4, 7, 7, 7, 7, 7, 7)
	add(&answer, "search", 1, 4, 7, 7, 7, 7, 7, 7)
	add(&answer, "refused", 1, 4, 2, 7, 7, 7, 1, 2, 2, 2, 7, 7, 7, 7)
	add(&answer, "note", 1, 4, 7)
	add(&answer, "daily begins", 2, 7, 6, 4, 4)
	lines = append(lines, "records"+hex.EncodeToString([]byte(answer)))
	for _, r := range do(t, client, "lrange", redisledger.LogKey(l, account), 0, -1).([]any) {
		record := r.(string)
		add(&record, "record", 7, 6, 4, 2, 6, 4, 4, 1)
	}
	got := strings.ReplaceAll(strings.Join(lines, "\n")+"\n", life, "LIFE")
	for have, name := range labels {
		got = strings.ReplaceAll(got, " "+have+" ", " "+name+" ")
	}
	compareGolden(t, "testdata/wire.golden", got)
}

// cutFields cuts fields of some widths off the front of packed, and
// returns them.
func cutFields(packed *string, widths ...int) string {
	n := 0
	for _, w := range widths {
		n += w
	}
	n = min(n, len(*packed))
	front := (*packed)[:n]
	*packed = (*packed)[n:]
	return fields(front, widths...)
}

// compareGolden compares a text with a file.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s -, now +\n%s", file, diff)
		t.Log(got)
	}
}

// wireRequests are requests with every kind of budget, and a note.
func wireRequests() (search, list, note quota.Request) {
	daily := charge("daily", 100, quota.Daily(time.UTC), "search")
	floor := quota.Floor{Coverage: quota.NewCoverage(quota.Coverage{Methods: []string{"search"}, Regions: []string{"IN"}}), Units: 20}
	daily.Floors, daily.FloorUntil = []quota.Floor{floor}, time.Hour
	minute := charge("minute", 50, quota.Counter(time.Minute))
	search = quota.Request{Method: "search", Units: 30, Charges: []*quota.Charge{day, daily}}
	list = quota.Request{Method: "list", Units: 1, Charges: []*quota.Charge{day, minute}}
	note = quota.Request{Method: "list", Units: 5, Kind: quota.EntryNote, Calls: 2, Force: true}
	return search, list, note
}

// recorded returns a ledger whose last command the recorder keeps.
func recorded(t *testing.T, server *redistest.Server, now func() time.Time) (*redisledger.Ledger, *recorder) {
	t.Helper()
	way := &recorder{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	return redisledger.New(given, &redisledger.Options{Prefix: "wire", Now: now}), way
}
