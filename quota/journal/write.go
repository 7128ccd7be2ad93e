package journal

import (
	"cmp"
	"errors"
	"time"

	"github.com/ration-dev/ration/quota"
)

// newestGrant returns the entry that newestRecord is about; only an epoch if
// the host was refused and found none; or zero.
func (l *Ledger) newestGrant(a *account) (known quota.Receipt, err error) {
	newest, err := l.newestRecord(a)
	return newest.known(a.name), err
}

// newestRecord returns the newest grant of any process of this host, or a newer
// one of others that a refusal found. If a process knew only its own, the loss
// of a later one would go unnoticed. The only error is errNewer; others are
// reported, and calls go on.
func (l *Ledger) newestRecord(a *account) (newest newestRecord, err error) {
	if l.dir == "" {
		return newest, nil
	}
	newest, err = a.readNewest()
	if errors.Is(err, errNewer) {
		return newest, err
	}
	l.read(a, err)
	return newest, nil
}

// Knows reports whether the journal knows of any answer of the ledger about an
// account.
func (l *Ledger) Knows(account string) (bool, error) {
	known, err := l.newestGrant(l.account(account))
	return known != (quota.Receipt{}), err
}

// readNewest brings the newest grant up to date, and returns it.
func (a *account) readNewest() (newest newestRecord, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.loaded || !a.files.updateNewest(&a.newest) {
		a.newest, err = a.files.readNewest()
		a.loaded = true
	}
	return a.newest, err
}

// Check returns an error if a newer version of this package has written the
// journal of an account, which Spend refuses then.
func (l *Ledger) Check(account string) error {
	_, err := l.newestGrant(l.account(account))
	return err
}

// read reports an error of reading the journal's files, unless one was reported
// since they were last written: files that cannot be written may be readable.
func (l *Ledger) read(a *account, err error) {
	if err != nil {
		l.written(a, err)
	}
}

// written reports the first of consecutive errors of writing the journal's
// files.
func (l *Ledger) written(a *account, err error) {
	a.mu.Lock()
	first := err != nil && !a.failed
	a.failed = err != nil
	a.mu.Unlock()
	if first && l.report != nil {
		l.report(&UnwrittenError{Account: a.name, Err: err})
	}
}

// stricterLimits returns records of the limits that hold because another
// configuration has asked them, for budgets of which a grant has said what
// they hold.
func (l *Ledger) stricterLimits(batch *quota.Batch, answers []quota.Answer, grant *record) (records []record) {
	for _, u := range grant.heard {
		for i := range answers {
			for n, held := range answers[i].Held {
				if held.Limit == 0 || l.heardName(batch.Account, batch.Requests[i].Charges[n].Budget) != u.budget {
					continue
				}
				limited := record{kind: refused, at: grant.at, epoch: grant.epoch, units: held.Limit, heard: []use{u}}
				if len(records) == 0 || records[len(records)-1].heard[0] != u {
					records = append(records, limited)
				}
			}
		}
	}
	return records
}

// write writes the grants of a batch that was sent at a time of the host's
// clock. The newest of them says what was heard of all budgets.
func (l *Ledger) write(a *account, host time.Time, batch *quota.Batch, answers []quota.Answer) {
	a.writing.Lock()
	defer a.writing.Unlock()
	records, newest := a.records[:0], 0
	for i := range answers {
		if answers[i].Err != nil {
			continue
		}
		request, receipt := &batch.Requests[i], &answers[i].Receipt
		records = append(records, record{kind: granted, entry: request.Kind, at: receipt.At.UnixMicro(), skew: host.Sub(receipt.At).Microseconds(), epoch: receipt.Epoch, id: receipt.ID,
			units: request.Units, calls: request.Count(), method: request.Method, caller: request.Caller})
		if n := len(records) - 1; records[n].at > records[newest].at { // in a repeated batch it need not be the last
			newest = n
		}
	}
	if len(records) == 0 {
		return
	}
	records[newest].heard = l.heardIn(batch, answers)
	written := append(records, l.stricterLimits(batch, answers, &records[newest])...)
	a.records = written
	err := a.files.append(false, written...)
	a.spelling.Do(func() { l.keepSpelling(a.name) })
	a.mu.Lock()
	a.newest.update(&records[newest])
	a.mu.Unlock()
	l.written(a, err)
}

// writeDoubts writes the calls of a batch whose answer was lost. Those that
// cannot be granted were not sent.
func (l *Ledger) writeDoubts(a *account, batch *quota.Batch) {
	client, seq := l.batchID(batch)
	skew, err := a.hostSkew()
	var records []record
	for i := range batch.Requests {
		r := &batch.Requests[i]
		if r.Check(batch.Account) == nil {
			records = append(records, record{kind: doubted, at: l.now().Add(-skew).UnixMicro(), id: quota.ID{Client: client, Seq: seq + uint64(i)},
				units: r.Units, calls: r.Count(), method: r.Method, caller: r.Caller})
		}
	}
	if len(records) > 0 {
		err = cmp.Or(a.files.append(false, records...), err)
	}
	l.written(a, err)
}
