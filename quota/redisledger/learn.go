package redisledger

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// learnRequest is what learn.lua is sent: what the account cache lacks for a
// batch, or all coverages in use.
type learnRequest struct {
	labels    []label
	coverages [2][]demand
	limits    map[askedLimit]bool
	items     int  // coverages that the whole batch needs, known ones included
	all       bool // coverages is everything in use since it was last sent to the store
}

// mostItems is how many coverages the store keeps of each scope, see learn.lua.
const mostItems = 128

// missing returns what the cache lacks for a batch.
func (a *accountCache) missing(p *spendBatch) *learnRequest {
	if len(a.labels) > maxLabels {
		clear(a.labels)
	}
	w, s := &learnRequest{limits: p.limitsOf()}, &a.scopes[p.scope]
	labels := map[label]bool{}
	keys := map[itemKey]demand{}
	all := map[itemKey]bool{}
	want := func(q demand) {
		all[q.key] = true
		if have, ok := keys[q.key]; s.find(q) < 0 && (!ok || have.horizon < q.horizon) {
			keys[q.key] = q
		}
	}
	if p.batch.History > 0 {
		want(historyDemand(p.batch.History))
	}
	for _, place := range p.places {
		r := &p.batch.Requests[place]
		if l := (label{r.Method, r.Caller}); a.labels[l] == nil && !labels[l] {
			labels[l] = true
			w.labels = append(w.labels, l)
		}
		for _, c := range r.Charges {
			for _, q := range demandsOf(c) {
				want(q)
			}
		}
	}
	for _, q := range keys {
		w.coverages[p.scope] = append(w.coverages[p.scope], q)
	}
	w.items = len(all)
	return w
}

// due returns all coverages in use once every learnEvery and when a limit ends,
// and nil in between.
func (a *accountCache) due(p *spendBatch) *learnRequest {
	if since := p.at - a.learned; since >= 0 && since < learnEvery && p.at < a.limits.expires {
		return nil
	}
	w := &learnRequest{all: true, limits: p.limitsOf()}
	for i := range a.scopes {
		for _, q := range a.scopes[i].demands {
			w.coverages[i] = append(w.coverages[i], q)
		}
	}
	return w
}

// learn reads the account's head, coverages and label numbers into the cache,
// after adding those in w. A nil w adds nothing.
func (l *Ledger) learn(op *scriptRunner, name string, w *learnRequest) error {
	if err := l.checkLookAlike(op.ctx, name, w != nil); err != nil {
		return err
	}
	n := l.names(name, "")
	now, _ := l.clock(0)
	args := []any{now}
	if w != nil {
		if w.items > mostItems {
			return fmt.Errorf("%w: one batch asks %d coverages, the ledger remembers %d; ask fewer at once", quota.ErrBadCall, w.items, mostItems)
		}
		args = append(args, random(headBytes), w.pack(), packLimits(w.limits))
		for _, l := range w.labels {
			args = append(args, random(2)+l.pack())
		}
	}
	reply, err := op.run(&learnScript, []string{n.meta, n.log, n.cooldowns}, args)
	if err != nil {
		return err
	}
	a := l.cache(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if w != nil && w.all {
		a.limits.asked = nil
	}
	if err := a.apply(reply, w, l.elapsed()); err != nil {
		return fmt.Errorf("%w: redis at %s: %w", quota.ErrLedgerConfig, l.where, err)
	}
	if w != nil && (w.all || a.learned == 0) {
		a.learned = l.elapsed()
		a.clearDemands()
	}
	return nil
}

// elapsed returns this process's clock in µs, for measuring intervals.
func (l *Ledger) elapsed() int64 {
	if l.now != nil {
		return l.now().UnixMicro()
	}
	return l.host().UnixMicro()
}

// pack packs the coverages.
func (w *learnRequest) pack() string {
	var b []byte
	for scope, coverages := range w.coverages {
		for _, q := range coverages {
			def, flags := define(q.coverage), flag(scope)
			if q.key.length > 0 {
				flags++
			}
			b = append(append(b, hex.EncodeToString([]byte(random(idBytes/2)))...), flags)
			b = append(number(number(b, q.horizon, 7), int64(len(def)), 4), def...)
		}
	}
	return string(b)
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails since Go 1.24
	return string(b)
}

// apply updates the cache from learn.lua's answer.
func (a *accountCache) apply(reply *reply, w *learnRequest, elapsed int64) error {
	head, packed := reply.text(), reply.text()
	asked, now := reply.text(), reply.number()
	if reply.bad || (head != "" && len(head) != headBytes) {
		return errMalformed
	}
	adds := w != nil && len(w.coverages[0])+len(w.coverages[1]) > 0
	if head != a.head || adds { // an older copy in the place of meta can come to the same head by other coverages
		items, err := parseItems(packed)
		if err != nil {
			return err
		}
		a.renew(head, items)
	}
	var sent map[askedLimit]bool
	if w != nil {
		sent = w.limits
	}
	if !a.limits.apply(asked, now, elapsed, sent) {
		return errMalformed
	}
	if w == nil {
		return nil
	}
	for _, l := range w.labels {
		a.labels[l] = &labelled{number: reply.number()}
	}
	if reply.bad {
		a.replace("", "", [2][]item{})
		return errMalformed
	}
	return nil
}

// Meta's items begin with the format, see learn.lua. The first release's
// did not.
const (
	formatName = "ration ledger, version "
	format     = formatName + "2"
)

// errNewer means that a later release wrote what this one cannot read.
var errNewer = errors.New("the account was written by a later version of ration; update this one")

// parseItems reads the coverages of both scopes.
func parseItems(packed string) (items [2][]item, err error) {
	rest, is := strings.CutPrefix(packed, format)
	uses := 21 // bytes of an item's generation of use
	switch {
	case !is && strings.HasPrefix(packed, formatName):
		return items, errNewer
	case !is:
		uses = 0
	}
	for rest != "" {
		fixed := idBytes + 8 + uses + 4
		if len(rest) < fixed {
			return items, errMalformed
		}
		flags := rest[idBytes]
		horizon := value(rest[idBytes+1 : idBytes+8])
		n := value(rest[fixed-4 : fixed])
		if n > int64(len(rest)-fixed) {
			return items, errMalformed
		}
		coverage, err := parseDefinition(rest[fixed : fixed+int(n)])
		if err != nil {
			return items, err
		}
		it := item{id: rest[:idBytes], horizon: horizon, coverage: coverage, key: itemKey{coverage: coverage.Key()}}
		if flags&1 == 1 {
			it.key.length = horizon / 2
		}
		for scope := range items {
			if flags&flag(scope) > 0 || !is {
				items[scope] = append(items[scope], it)
			}
		}
		rest = rest[fixed+int(n):]
	}
	return items, nil
}

// renew replaces the coverages, and drops the labels if meta's life is another.
func (a *accountCache) renew(head string, items [2][]item) {
	life := head[:len(head)*lifeBytes/headBytes]
	if life != a.life {
		clear(a.labels)
		a.newest = quota.Receipt{}
	}
	for l, have := range a.labels {
		a.labels[l] = &labelled{number: have.number}
	}
	a.replace(head, life, items)
}
