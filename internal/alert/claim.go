package alert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota"
)

// claimAndSend sends an event to each of its account's targets that want it,
// unless another process does. It reports false if it has to be tried again.
func (w *Watch) claimAndSend(ctx context.Context, e *event) (done bool) {
	done = true
	for i, target := range w.targets[e.Account] {
		if !slices.Contains(target.On, e.Kind) {
			continue
		}
		levels := []quota.Units{0}
		if e.Kind == costs.AlertLevel {
			levels = target.Levels
		}
		for _, level := range slices.Backward(levels) {
			if level > e.percent {
				continue
			}
			one := *e
			one.Level = level
			sent, ok := w.claimOne(ctx, &one, target, fmt.Sprintf("%s %d %d", e.name, level, i))
			done = done && ok
			if sent {
				w.settleLower(ctx, &one, target, i)
			}
			break // the highest level says it all
		}
	}
	return done
}

// claimOne claims and sends one event to one target. ok is false if it failed.
func (w *Watch) claimOne(ctx context.Context, e *event, target *costs.Alert, name string) (sent, ok bool) {
	claim, err := w.claim(ctx, e, target, name)
	if err != nil {
		return false, errors.Is(err, quota.ErrClaimed)
	}
	if err := w.send(ctx, e, target); err != nil {
		w.failed(e, errors.Join(err, claim.Release(ctx)))
		return false, false
	}
	if err := claim.Done(ctx); err != nil {
		w.failed(e, fmt.Errorf("sent, and may be sent again: %w", err))
	}
	return true, true
}

func (w *Watch) claim(ctx context.Context, e *event, target *costs.Alert, name string) (*engine.Claim, error) {
	return w.client.Guard().Account(e.Account).Claim(ctx, w.claimOf(e, target, name))
}

func (w *Watch) claimOf(e *event, target *costs.Alert, name string) engine.ClaimRequest {
	return engine.ClaimRequest{Name: nameOf(name), Hold: hold, Again: max(e.again, target.Repeat)}
}

// settleLower makes the levels below one that was sent count as sent.
func (w *Watch) settleLower(ctx context.Context, e *event, target *costs.Alert, i int) {
	for _, level := range target.Levels {
		if e.Kind != costs.AlertLevel || level >= e.Level {
			return
		}
		claim, err := w.claim(ctx, e, target, fmt.Sprintf("%s %d %d", e.name, level, i))
		if err == nil {
			_ = claim.Done(ctx) // at worst that level is sent too
		}
	}
}

func (w *Watch) failed(e *event, err error) {
	if w.options.Report != nil {
		w.options.Report(fmt.Errorf("alert about %s: %w", e.Kind, err))
	}
}

// nameOf returns a name of bounded length for a claim.
func nameOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "alert " + hex.EncodeToString(sum[:12])
}

// ledgerDown sends that the ledger does not answer, unless another process of
// this host has.
func (w *Watch) ledgerDown(ctx context.Context, account string, reason error) {
	e := &event{Kind: costs.AlertLedger, Account: account,
		detail: fmt.Sprintf("the ledger %s does not answer: %v", w.client.LedgerName(), reason)}
	for _, target := range w.ledgerTargets() {
		if !w.mark(target) {
			continue
		}
		if err := w.send(ctx, e, target); err != nil {
			w.failed(e, err)
			_ = os.Remove(w.markPath(target))
			delete(w.sent, addressOf(target))
		}
	}
}

// addressOf returns where a target's alerts go, which may be a secret: two
// channels of one service differ in the path of their webhooks alone.
func addressOf(target *costs.Alert) string {
	return strings.Join(append([]string{target.Webhook, target.WebhookFile}, target.Command...), "\x00")
}

// ledgerTargets returns the targets that hear of the ledger, each once.
func (w *Watch) ledgerTargets() (all []*costs.Alert) {
	seen := map[string]bool{}
	for _, account := range w.client.Table().Accounts() {
		for _, target := range w.targets[account] {
			if slices.Contains(target.On, costs.AlertLedger) && !seen[addressOf(target)] {
				seen[addressOf(target)] = true
				all = append(all, target)
			}
		}
	}
	return all
}

// markPath is a file that exists while a target of this host knows that the
// ledger is down.
func (w *Watch) markPath(target *costs.Alert) string {
	return filepath.Join(w.client.State(), "alerts", nameOf(w.client.LedgerName()+" "+addressOf(target)))
}

// mark reports whether this process is to tell a target that the ledger
// is down.
func (w *Watch) mark(target *costs.Alert) bool {
	path := w.markPath(target)
	if w.client.State() == "" || files.MkdirAll(filepath.Dir(path)) != nil {
		first := !w.sent[addressOf(target)]
		w.sent[addressOf(target)] = true
		return first
	}
	if age, ok := ageOf(path + endedSuffix); ok && age < stale {
		return false // another process has just reached it
	}
	if age, ok := ageOf(path); ok && age > target.Repeat {
		_ = os.Remove(path)
	}
	f, err := files.Create(path)
	if err != nil {
		return !errors.Is(err, fs.ErrExist)
	}
	return f.Close() == nil
}

// ageOf returns how long ago a file was written, or how far ahead its time is,
// since the clock was set back.
func ageOf(path string) (age time.Duration, ok bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	return time.Since(info.ModTime()).Abs(), true
}

// unmark makes the next outage one to tell of.
func (w *Watch) unmark() {
	clear(w.sent)
	if w.client.State() == "" {
		return
	}
	for _, target := range w.ledgerTargets() {
		path := w.markPath(target)
		if os.Chtimes(path, time.Time{}, time.Now()) == nil {
			_ = os.Rename(path, path+endedSuffix)
		}
	}
}

const (
	// endedSuffix names a mark whose outage is over.
	endedSuffix = ".ended"
	// stale is for how long a process may still report an outage that is over:
	// a connection pool repeats its last error for a second.
	stale = 2 * time.Second
)
