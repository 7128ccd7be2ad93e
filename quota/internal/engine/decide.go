package engine

import (
	"cmp"
	"slices"
)

// Request asks for a call, or for several calls that are alike.
type Request struct {
	Labels   Labels
	Amounts  Amounts   // of one call
	Budgets  []*Budget // those that cover it
	Count    int       // how many calls, all or none; 0 is 1
	Force    bool      // record it whatever budgets and cooldowns say
	Kind     Kind      // KindGrant, or KindNote, which must be forced; 0 is KindGrant
	Name     string    // of a note: what kind of note it is
	Text     string    // of a note
	Lease    int64     // how long it counts as in flight unless it is settled, in microseconds; 0: never
	ID       ID        // of the first call; zero lets the account choose
	Once     bool      // ID's client has no other calls; if it has, the answer is Reused
	Ticket   ID        // of the caller, which waits; zero for none
	Priority int64     // of its lane; tickets of a higher one come first
	History  int64     // how long the log is kept at least, in microseconds
	Wait     bool      // the caller waits if it is refused: its ticket is written or renewed

	isOvertaken bool // it has a ticket only since others have overtaken it
}

// Answer is the decision on a Request. If Refusal is nil it was granted.
type Answer struct {
	IDs      []ID
	At       int64 // when the first call was recorded, or the time of the decision
	Epoch    uint64
	Reused   bool   // the id's client has made another call; nothing was decided
	Repeated bool   // calls with these ids were granted before; nothing was charged now
	Held     []Held // of each budget, after a grant
	Refusal  *Refusal
	Ticket   ID // of a caller that waits
}

// Held is what a budget's window holds.
type Held struct {
	Used     int64
	Reserved int64 // by floors and by tickets, for others
	Limit    int64 // in force, and until when, if that is not the budget's own
	Until    int64
	NextAt   int64 // when used falls next, and by how much; 0 if it is 0
	Next     int64
}

// Refusal says which budget or cooldown refuses a call, and until when.
type Refusal struct {
	Budget   *Budget // nil for a cooldown of the account, or a move
	Cooldown *Record // nil if the budget is spent
	Moved    *Record
	Never    bool // it costs more than the whole limit
	Held     Held
	Needed   int64
	RetryAt  int64 // the first time at which it would fit if nothing else were spent
	Ahead    int64 // how far stamps are ahead of the clock
}

// decision is one attempt to decide what is asked together, at one time. What
// it grants is tried in the fold, and taken back before records are folded.
type decision struct {
	fold    *fold
	now     int64 // by which calls are decided
	wall    int64 // by which lengths of time begin; a little later
	host    string
	records []*Record
	tried   int // entries that were added to the fold for a try
	adds    [MaxTotals]int64
	loads   map[meterID]int64 // of each budget, right after the last call that was charged to it
	bump    bool
	strict  bool // the generation must be what the fold has
	refused bool // something was refused, with what is known so far
	nextID  func() ID
	adders  map[*task]bool // the tasks that have added records
	reset   bool           // the newest timestamp is of a wrong clock
	trim    uint64
	asked   []*Budget // of all requests
	history int64     // the longest of them
}

// add adds a record to those that are to be appended.
func (d *decision) add(r *Record) {
	if r.ID == (ID{}) {
		r.ID = d.nextID()
	}
	d.records = append(d.records, r)
	d.bump = d.bump || r.Kind.changesDecisions()
}

// count adds amounts of a record to the totals.
func (d *decision) count(method string, a *Amounts) {
	d.countOf(MeasureUnits, method, a.Units)
	d.countOf(MeasureCalls, method, a.Calls)
	for _, m := range a.More {
		d.countOf(m.Measure, method, m.N)
	}
}

func (d *decision) countOf(measure, method string, n int64) {
	if n > 0 {
		all, narrow := totalOf(measure, method)
		d.adds[all] += n
		d.adds[narrow] += n
	}
}

// request decides a request.
func (d *decision) request(r *Request) *Answer {
	count := max(r.Count, 1)
	d.asked = append(d.asked, r.Budgets...)
	d.history = max(d.history, r.History)
	if repeated := d.repeated(r, count); repeated != nil {
		return repeated
	}
	if refusal := d.refusal(r, int64(count)); refusal != nil {
		d.refused = true
		answer := &Answer{At: d.now, Epoch: d.fold.known.Epoch, Refusal: refusal, Ticket: r.Ticket}
		switch {
		case r.Wait && refusal.passes():
			answer.Ticket = d.ticket(r, int64(count))
		case r.isOvertaken && d.fold.control.holds(r.Ticket, d.now):
			d.add(&Record{Kind: KindVoid, Ref: r.Ticket})
		}
		return answer
	}
	answer := &Answer{At: d.now}
	for i := range count {
		answer.IDs = append(answer.IDs, d.grant(r, i))
	}
	if !r.Force {
		d.strict = true
		for _, b := range r.Budgets {
			d.loads[idOf(b, r.Labels.Key)] = d.fold.meter(b, r.Labels.Key).load(d.now)
		}
	}
	for _, b := range r.Budgets {
		answer.Held = append(answer.Held, d.fold.held(b, r.Labels.Key, d.now))
	}
	return answer
}

// passes reports whether a call that waits may be granted without a cooldown's
// end.
func (no *Refusal) passes() bool { return !no.Never && no.Cooldown == nil && no.Moved == nil }

// ticketHolds is how long a ticket holds unless it is renewed, and
// ticketRenewed how long before its end it is.
const (
	ticketHolds   = 10_000_000
	ticketRenewed = 6_000_000
)

// ticket writes or renews the ticket of a caller that waits.
func (d *decision) ticket(r *Request, count int64) ID {
	if t := d.fold.control.tickets[r.Ticket]; t != nil && !t.served && t.until-d.now > ticketRenewed {
		return r.Ticket
	}
	amounts := r.Amounts.times(count)
	record := &Record{Kind: KindTicket, Labels: r.Labels, Amounts: amounts, Until: d.wall + ticketHolds,
		Value: r.Priority, Ref: r.Ticket}
	d.add(record)
	d.count(r.Labels.Method, &amounts)
	return cmp.Or(r.Ticket, record.ID)
}

// repeated answers a request with an id of its own that was granted before.
func (d *decision) repeated(r *Request, count int) *Answer {
	if r.ID == (ID{}) {
		return nil
	}
	n, ok := d.fold.find(r.ID)
	if !ok && r.Once && d.fold.clients[r.ID.Client].any() {
		return &Answer{At: d.now, Reused: true}
	}
	if !ok {
		return nil
	}
	answer := &Answer{At: d.fold.at(n).at, Epoch: d.fold.known.Epoch, Repeated: true}
	for i := range count {
		answer.IDs = append(answer.IDs, ID{r.ID.Client, r.ID.Seq + uint64(i)})
	}
	return answer
}

// grant records one call, and tries it in the fold.
func (d *decision) grant(r *Request, i int) ID {
	record := &Record{Kind: cmp.Or(r.Kind, KindGrant), Labels: r.Labels, Amounts: r.Amounts, Ref: r.Ticket, Name: r.Name, Text: r.Text}
	if r.ID != (ID{}) {
		record.ID = ID{r.ID.Client, r.ID.Seq + uint64(i)}
	}
	if r.Lease > 0 {
		record.Until = d.wall + r.Lease
	}
	d.add(record)
	d.count(r.Labels.Method, &r.Amounts)
	try := *record
	try.At, try.Ref = max(d.now, d.fold.newest+1)+int64(d.tried), ID{}
	d.fold.entry(&try, d.fold.labelsOf(r.Labels.append(nil)), 0)
	d.tried++
	return record.ID
}

// takeBack removes what was tried.
func (d *decision) takeBack() {
	d.fold.pop(d.tried)
	d.tried = 0
}

// refusal returns why a request is refused, or nil.
func (d *decision) refusal(r *Request, count int64) *Refusal {
	if r.Force {
		return nil
	}
	c := &d.fold.control
	if c.moved.Text != "" {
		moved := c.moved.Record
		return &Refusal{Moved: &moved}
	}
	var worst *Refusal
	consider := func(no *Refusal) {
		if no != nil && (worst == nil || no.after(worst)) {
			worst = no
		}
	}
	tickets := c.before(r.Ticket, r.Priority, d.now)
	for _, b := range r.Budgets {
		consider(d.spent(b, r, count*r.Amounts.Of(b.Coverage.Measure), tickets))
	}
	for _, b := range r.Budgets {
		consider(d.cooled(b, r))
	}
	consider(d.cooled(nil, r))
	if worst != nil && !worst.Never {
		worst.RetryAt = d.settled(r, count, worst.RetryAt)
	}
	return worst
}

// settled returns the first time from a time on at which a call fits all of its
// budgets: floors that end for a while may hold again once another budget
// admits it.
func (d *decision) settled(r *Request, count, at int64) int64 {
	for range 8 {
		before := at
		for _, b := range r.Budgets {
			limit, _ := d.fold.control.limit(b, d.now)
			if most := limit - count*r.Amounts.Of(b.Coverage.Measure); most >= 0 {
				if then := d.fold.meter(b, r.Labels.Key).retry(at, most); then != Never {
					at = max(at, then)
				}
			}
		}
		if at == before {
			break
		}
	}
	return at
}

// after reports whether no says more than other: that a call never fits, or
// that it fits later.
func (no *Refusal) after(other *Refusal) bool {
	if no.Never != other.Never {
		return no.Never
	}
	return no.RetryAt > other.RetryAt
}

// cooled refuses a call while a cooldown of the budget, or of the account if b
// is nil, is in force.
func (d *decision) cooled(b *Budget, r *Request) *Refusal {
	name := ""
	if b != nil {
		name = b.Name
	}
	held := d.fold.control.cooldown(name, r.Labels.Key, d.now)
	if held.Until == 0 {
		return nil
	}
	no := &Refusal{Budget: b, Cooldown: &held.Record, Needed: r.Amounts.Units, RetryAt: held.Until, Ahead: d.fold.ahead(d.now)}
	if b != nil {
		no.Held = d.fold.held(b, r.Labels.Key, d.now)
		no.Needed = r.Amounts.Of(b.Coverage.Measure)
	}
	return no
}

// spent refuses a call that does not fit a budget beside the tickets of others.
func (d *decision) spent(b *Budget, r *Request, needed int64, tickets []*ticket) *Refusal {
	m := d.fold.meter(b, r.Labels.Key)
	limit, _ := d.fold.control.limit(b, d.now)
	waiting, ends := waitingFor(b, r.Labels.Key, tickets)
	if m.load(d.now)+waiting+needed <= limit {
		return nil
	}
	no := &Refusal{Budget: b, Needed: needed, Held: d.fold.held(b, r.Labels.Key, d.now), Ahead: d.fold.ahead(d.now)}
	no.Held.Reserved += waiting
	if no.Never = needed > limit-b.reserved(); no.Never {
		return no
	}
	if most := limit - waiting - needed; most >= 0 {
		no.RetryAt = m.retry(d.now, most)
	}
	if no.RetryAt == 0 || no.RetryAt == Never {
		no.RetryAt = max(ends, m.retry(d.now, limit-needed))
	}
	return no
}

// waitingFor returns what tickets wait for in a budget, and when the first of
// them ends unless it is renewed.
func waitingFor(b *Budget, key string, tickets []*ticket) (units, ends int64) {
	for _, t := range tickets {
		l := &t.first.Labels
		if !b.Coverage.covers(l) || b.Coverage.ByKey && l.Key != key {
			continue
		}
		if amount := t.first.Amounts.Of(b.Coverage.Measure); amount > 0 {
			units += amount
			if ends == 0 || t.until < ends {
				ends = t.until
			}
		}
	}
	return units, ends
}

// held returns what a budget's window holds at a time.
func (f *fold) held(b *Budget, key string, now int64) (h Held) {
	m := f.meter(b, key)
	h.Used = m.used(now)
	h.Reserved = m.load(now) - h.Used
	h.Limit, h.Until = f.control.limit(b, now)
	h.NextAt, h.Next = m.returns(now)
	return h
}

// maxLead is how far stamps may be ahead of the ledger's clock without being
// taken for those of a wrong one: it frees nothing early if it steps back by
// less.
const maxLead = 2 * 60 * 1_000_000

// ahead returns how far the newest stamp is ahead of the clock, if that is much.
func (f *fold) ahead(now int64) int64 {
	if ahead := f.maxStamp - now; ahead > maxLead {
		return ahead
	}
	return 0
}

func idOf(b *Budget, key string) meterID {
	if !b.Coverage.ByKey {
		key = ""
	}
	return meterID{b, key}
}

// conditions takes back what was tried, and returns what must hold when the
// records are appended, so that what was decided is still right: that at most so
// much was added since, in the totals that rise with a budget's use. What is
// appended counts from then on, so it never makes room for itself.
func (d *decision) conditions() (conditions []Condition, notAfter int64) {
	d.takeBack()
	for id, load := range d.loads {
		b := id.budget
		m := d.fold.meter(b, id.key)
		limit, _ := d.fold.control.limit(b, d.now)
		if end := m.until(d.now); end != 0 && (notAfter == 0 || end < notAfter) {
			notAfter = end
		}
		if b.totals == nil {
			b.totals = b.Coverage.totals()
		}
		c := Condition{Totals: b.totals}
		var sum int64
		for _, i := range c.Totals {
			sum += d.fold.totals[i]
		}
		room := limit - load
		c.Steps = append(c.Steps, Step{0, sum + room})
		if room < limit/4 {
			c.Steps = appendSteps(c.Steps, m.steps(d.now, MaxSteps-1), sum+room+m.load(d.now))
		}
		conditions = append(conditions, c)
	}
	return mergeConditions(conditions), notAfter
}

// appendSteps adds a step for each time at which the load falls.
func appendSteps(steps []Step, falls []loadStep, most int64) []Step {
	for _, fall := range falls {
		last := &steps[len(steps)-1]
		if bound := most - fall.load; bound > last.Most {
			steps = append(steps, Step{fall.at, bound})
		}
	}
	return steps
}

// mergeConditions leaves out conditions of one step that others imply.
func mergeConditions(all []Condition) []Condition {
	var merged []Condition
	for _, c := range all {
		i := slices.IndexFunc(merged, func(m Condition) bool {
			return len(m.Steps) == 1 && len(c.Steps) == 1 && slices.Equal(m.Totals, c.Totals)
		})
		if i < 0 {
			merged = append(merged, c)
		} else if c.Steps[0].Most < merged[i].Steps[0].Most {
			merged[i] = c
		}
	}
	return merged
}

// totals returns what the records add to the totals.
func (d *decision) totals() (adds []Total) {
	for i, amount := range d.adds {
		if amount > 0 {
			adds = append(adds, Total{uint8(i), amount})
		}
	}
	return adds
}
