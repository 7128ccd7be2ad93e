//go:build linux || darwin

package sqliteledger_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// crowd starts eight processes in one role, lets them begin together once all
// have opened the ledger, and calls f with every line they print.
func crowd(t testing.TB, role, path string, f func(line []byte)) {
	t.Helper()
	input, begin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmds, outs := make([]*exec.Cmd, 8), make([]*bufio.Scanner, 8)
	for i := range cmds {
		cmds[i], outs[i] = start(t, fmt.Sprint(role, " ", i), path, input)
	}
	for i, out := range outs {
		if !out.Scan() || out.Text() != "ready" {
			t.Errorf("process %d: %q", i, out.Text())
		}
	}
	input.Close()
	begin.Close() // the end of their input
	for i, out := range outs {
		for out.Scan() {
			f(out.Bytes())
		}
		if err := cmds[i].Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
}

// raced is the report of one process of a race.
type raced struct {
	Granted int
	Longest time.Duration
}

// inCrowd is the main function of one process of a crowd.
func inCrowd(role string, client int, l quota.Ledger) error {
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	if role == "race" {
		const long = 2 * time.Second
		r, empty := raced{}, charge("day", quota.MaxLimit, quota.Sliding(time.Hour))
		for end, now := time.Now().Add(long), time.Now(); now.Before(end); {
			answers, err := l.Spend(context.Background(), one(1, empty))
			if err != nil || answers[0].Err != nil {
				return fmt.Errorf("%w, %v after %d", err, answers, r.Granted)
			}
			r.Granted++
			before := now
			now = time.Now()
			r.Longest = max(r.Longest, now.Sub(before))
		}
		return encoder.Encode(r)
	}
	if role == "floors" {
		regional, err := ledgertest.PlayFloors(context.Background(), l, client)
		return errors.Join(err, encoder.Encode(regional))
	}
	history, err := ledgertest.Play(context.Background(), l, client, 60)
	for _, op := range history {
		if err := encoder.Encode(op); err != nil {
			return err
		}
	}
	return err
}

// TestHistoryOfEightProcesses: the answers of eight processes are linearizable.
func TestHistoryOfEightProcesses(t *testing.T) {
	var history []ledgertest.Operation
	crowd(t, "play", fresh(t), func(line []byte) {
		var op ledgertest.Operation
		if err := json.Unmarshal(line, &op); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		history = append(history, op)
	})
	ledgertest.CheckHistory(t, history)
}

// TestFloorsOfEightProcesses: each of eight regions, in its own process, gets
// its floor; together they get exactly the limit.
func TestFloorsOfEightProcesses(t *testing.T) {
	path := fresh(t)
	var all []ledgertest.Regional
	crowd(t, "floors", path, func(line []byte) {
		var r ledgertest.Regional
		if err := json.Unmarshal(line, &r); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		all = append(all, r)
	})
	ledgertest.CheckFloors(t, open(t, path, nil), all)
}

// BenchmarkEightProcesses lets eight processes spend for two seconds, and
// reports how evenly they got their turns.
func BenchmarkEightProcesses(b *testing.B) {
	for b.Loop() {
		var all []raced
		crowd(b, "race", fresh(b), func(line []byte) {
			var r raced
			if err := json.Unmarshal(line, &r); err != nil {
				b.Errorf("%s: %v", line, err)
			}
			all = append(all, r)
		})
		least, most, sum, longest := all[0].Granted, 0, 0, time.Duration(0)
		for _, r := range all {
			least, most, sum, longest = min(least, r.Granted), max(most, r.Granted), sum+r.Granted, max(longest, r.Longest)
		}
		b.ReportMetric(float64(least)/float64(most), "slowest/fastest")
		b.ReportMetric(float64(longest.Milliseconds()), "longest-ms")
		b.ReportMetric(float64(sum)/2, "spends/s")
	}
}
