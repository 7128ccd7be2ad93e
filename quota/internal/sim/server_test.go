//go:build !race

package sim

import (
	"context"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// server is the ledger that all hosts share: one in memory, behind a network
// and with a disk that fail. Its methods are one atomic step each.
type server struct {
	mu    sync.Mutex
	log   *memledger.Ledger
	clock time.Duration // how far its clock is ahead
	down  time.Time     // until when it refuses connections
	slow  time.Time     // until when it answers too late
	lossy time.Time     // until when a part of the messages is lost

	epoch     uint64 // of the log, as far as anybody was told
	life      int    // grows with each loss, which drops all connections
	snapshots []snapshot
	held      map[uint64][]map[grantID]quota.Entry // by epoch: what each life of the log with it held at its end
	decided   map[grantID]decision
}

// grantID identifies a grant even if the same request was granted again by a
// log that had forgotten it.
type grantID struct {
	id quota.ID
	at int64
}

// decision is when a request was granted, in true time and in the
// server's lives.
type decision struct {
	at   time.Time
	life int
}

// snapshot is a copy of the log, as of a backup or of a replica that lags.
type snapshot struct {
	log   *memledger.Ledger
	epoch uint64
}

func newServer() *server {
	s := &server{held: map[uint64][]map[grantID]quota.Entry{}, decided: map[grantID]decision{}}
	s.log = memledger.Open(&memledger.Options{Now: s.now})
	return s
}

// now is called by the ledger, within a step.
func (s *server) now() time.Time { return time.Now().Add(s.clock) }

func (s *server) entries() (entries []quota.Entry) {
	for e, err := range s.log.Entries(context.Background(), quota.Query{Account: account}) {
		if err != nil {
			panic(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// takeSnapshot keeps a copy to which the log may be rolled back.
func (s *server) takeSnapshot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots = append(s.snapshots, snapshot{s.log.Copy(), s.epoch})
	if len(s.snapshots) > 4 {
		s.snapshots = s.snapshots[1:]
	}
}

// lose replaces the log by an older copy, or by an empty one if back is 0, and
// returns the entries that it holds then.
func (s *server) lose(back int) []quota.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(s.entries())
	s.log, s.epoch = memledger.Open(&memledger.Options{Now: s.now}), 0
	if back > 0 && back <= len(s.snapshots) {
		older := s.snapshots[len(s.snapshots)-back]
		s.log, s.epoch = older.log.Copy(), older.epoch
	}
	s.life++
	return s.entries()
}

// remember keeps what the log holds at the end of its epoch, or of a life.
func (s *server) remember(entries []quota.Entry) {
	held := map[grantID]quota.Entry{}
	for _, e := range entries {
		held[grantID{e.ID, e.At.UnixMicro()}] = e
	}
	s.held[s.epoch] = append(s.held[s.epoch], held)
}

// spend is one round trip. A connection that is new has the ledger look for the
// entry that the client knows.
func (s *server) spend(batch quota.Batch, isNew bool) ([]quota.Answer, error) {
	if known := batch.Known; batch.Key == "" && isNew && !known.At.IsZero() && known.ID != (quota.ID{}) && !s.holds(known) {
		return nil, batch.Forgotten(s.epoch, time.Time{})
	}
	answers, err := s.log.Spend(context.Background(), &batch)
	for i := range answers {
		if r := &answers[i].Receipt; answers[i].Err == nil && batch.Key == "" {
			s.epoch = r.Epoch
			id := grantID{r.ID, r.At.UnixMicro()}
			if _, again := s.decided[id]; !again {
				s.decided[id] = decision{time.Now(), s.life}
			}
		}
	}
	return answers, err
}

// holds reports whether the log has an entry, or can no longer have it because
// it is too old.
func (s *server) holds(known quota.Receipt) bool {
	if s.now().Sub(known.At) > 24*time.Hour {
		return true
	}
	for e := range s.log.Entries(context.Background(), quota.Query{Account: account, Since: known.At, Until: known.At.Add(time.Microsecond)}) {
		return e.ID == known.ID
	}
	return false
}

func (s *server) restore(r *quota.Restoration) (quota.RestoreResult, error) {
	before := s.entries()
	done, err := s.log.Restore(context.Background(), r)
	if err == nil && s.epoch != done.Known.Epoch {
		s.remember(before)
		s.epoch = done.Known.Epoch
	}
	return done, err
}

// counted returns what the ledger counts for each call.
func (s *server) counted() map[quota.ID]quota.Units {
	units := map[quota.ID]quota.Units{}
	for _, e := range s.entries() {
		units[e.ID] += e.Units
	}
	return units
}
