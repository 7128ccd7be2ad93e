package ledgertest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/quota"
)

// set is a set of events.
type set []uint64

func (s set) has(i int) bool { return i/64 < len(s) && s[i/64]>>(i%64)&1 == 1 }

func (s *set) add(i int) {
	for len(*s) <= i/64 {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// union adds the members of other.
func (s *set) union(other set) {
	for len(*s) < len(other) {
		*s = append(*s, 0)
	}
	for i, word := range other {
		(*s)[i] |= word
	}
}

// contains reports whether all of other is in s.
func (s set) contains(other set) bool {
	for i, word := range other {
		if i < len(s) {
			word &^= s[i]
		}
		if word != 0 {
			return false
		}
	}
	return true
}

// host has a replica and a few processes.
type host struct {
	w         *world
	number    int
	processes []*process
	awayUntil time.Time

	onDisk    set
	yesterday set    // what was on the disk when the newest file began
	date      string // of that file
	outages   []int  // events that only the disk has
}

func (h *host) folder() string { return filepath.Join(h.w.dir, fmt.Sprint("host", h.number)) }

// learn notes that events are on the disk, in the file of today.
func (h *host) learn(events set) {
	if today := time.Now().UTC().Format(time.DateOnly); today != h.date {
		h.date, h.yesterday = today, slices.Clone(h.onDisk)
	}
	h.onDisk.union(events)
}

// process is one process of a host.
type process struct {
	host    *host
	number  int
	conn    *conn
	replica *replica.Replica
	guard   *quota.Guard
	granted bool // by the allowance, in the spend that was made last

	known   set
	isNew   bool // it has not read the disk
	wasDown bool // the ledger, since it read the outages on the disk
	life    int  // of the store, when it was used last
	calls   []*call
}

func (p *process) String() string { return fmt.Sprintf("h%dp%d", p.host.number, p.number) }

// disk is a replica that nothing is written to once the process is dead.
type disk struct {
	*replica.Replica
	p *process
}

func (d disk) Save(account string, known engine.Known, batches []engine.Batch) (isFork bool) {
	return !d.p.conn.isDead && d.Replica.Save(account, known, batches)
}

func (d disk) Outage(account string, now time.Time,
	decide func([]engine.Record) (*engine.Record, error)) error {
	if d.p.conn.isDead {
		return errors.New("the process is dead")
	}
	return d.Replica.Outage(account, now, decide)
}

// start starts a process in a place of the host. If the place is new, it is
// added.
func (h *host) start(place int) *process {
	w := h.w
	w.processes++
	p := &process{host: h, number: w.processes, isNew: true, life: w.store.life}
	p.conn = &conn{store: w.store, p: p}
	o := &quota.Options{Host: fmt.Sprint("host", h.number)}
	r, err := replica.Open(h.folder(), &replica.Options{
		Keep: func(string) time.Duration { return engine.Retention(w.horizon()) },
	})
	if err != nil {
		w.fail("%v", err)
		return p
	}
	p.replica, o.Replica = r, disk{r, p}
	o.Allowance = &quota.Allowance{
		Limit:   func(quota.Call) quota.Units { return w.allowance },
		Granted: func(quota.Units) { p.granted = true },
	}
	if p.guard, err = quota.NewGuard(p.conn, w.budgets, o); err != nil {
		w.fail("%v", err)
	}
	if place == len(h.processes) {
		h.processes = append(h.processes, p)
	} else {
		h.processes[place].conn.isDead = true
		h.processes[place].replica.Close()
		h.processes[place] = p
	}
	return p
}

// restartDead replaces the processes that were killed.
func (h *host) restartDead() {
	for i, p := range h.processes {
		if p.conn.isDead {
			h.start(i)
		}
	}
}

// loseReplica deletes the files of the replica. The processes live on.
func (h *host) loseReplica() {
	err := errors.Join(os.RemoveAll(h.folder()), os.Mkdir(h.folder(), 0o700))
	if err != nil {
		h.w.fail("%v", err)
	}
	h.onDisk, h.yesterday, h.outages = nil, nil, nil
}

// cutPower kills all processes, and takes a part of the newest file.
func (h *host) cutPower() {
	for i := range h.processes {
		h.start(i)
	}
	files, _ := filepath.Glob(filepath.Join(h.folder(), "*.log"))
	if len(files) == 0 {
		return
	}
	newest := files[len(files)-1]
	if info, err := os.Stat(newest); err != nil {
		h.w.fail("%v", err)
	} else if err := os.Truncate(newest, h.w.rng.Int64N(info.Size()+1)); err != nil {
		h.w.fail("%v", err)
	}
	h.onDisk = slices.Clone(h.yesterday)
	h.outages = slices.DeleteFunc(h.outages, func(e int) bool { return !h.onDisk.has(e) })
}
