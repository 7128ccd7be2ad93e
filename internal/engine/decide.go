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
	Wait     int64     // how long the caller waits if it is refused, in microseconds: it then holds a ticket

	isOvertaken bool // it has a ticket only since others have overtaken it
}

// Answer is the decision on a Request. If Refusal is nil it was granted.
type Answer struct {
	IDs      []ID
	At       int64 // when the first call was recorded, or the time of the decision
	Epoch    uint64
	Reused   bool    // the id's client has made another call; nothing was decided
	Repeated []Entry // of calls that were granted before with these ids, as they are now; nothing was charged
	Held     []Held  // of each budget, after a grant
	Refusal  *Refusal
	Ticket   ID // of a caller that waits
}

// Held is what a budget's window holds.
type Held struct {
	Used     int64
	Reserved int64 // by floors, for others
	Open     int64 // the part of Used that calls whose leases have not ended may give back
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
	InFlight bool // it fits once calls give back what they have reserved
	Held     Held
	Needed   int64
	Waiting  int64 // what calls before it wait for
	RetryAt  int64 // the first time at which it would fit if nothing else were spent
	Ahead    int64 // how far stamps are ahead of the clock
}

// decision is one attempt to decide what is asked together, at one time. What
// it grants is tried in the fold, until the records are folded. Its memory is
// used again by the next one, so nothing may keep a part of it.
type decision struct {
	fold      *fold
	now       int64 // by which calls are decided
	wall      int64 // by which lengths of time begin; a little later
	latest    int64 // the latest time of the ledger's clock that is believed
	host      string
	client    uint64
	nextID    func() ID
	records   []*Record
	adds      []Total  // what the totals rise by
	charged   []*gauge // which hold less for later calls
	bump      bool
	strict    bool // the generation must be what the fold has
	refused   bool // something was refused, with what is known so far
	isPending bool // an answer repeats one whose records are not in the log yet
	reset     bool // the newest timestamp is of a wrong clock
	trim      uint64
	asked     []*gauge // of all requests, each once
	history   int64    // the longest of them

	grants    []*Record // memory for those of records that are grants
	granted   int       // how many of them are in use
	gauges    []*gauge  // of the budgets of the request that is being decided
	budgets   []*Budget // that they are of
	key       string
	forgotten int // of the fold, when they were found

	conditionsBuffer []Condition
	stepsBuffer      []Step
}

// clear begins a new decision.
func (d *decision) clear(f *fold, now, wall int64) {
	for _, g := range d.asked {
		g.isAsked, g.isCharged = false, false
	}
	clear(d.asked)
	clear(d.records)
	*d = decision{fold: f, now: now, wall: wall,
		host: d.host, client: d.client, nextID: d.nextID,
		records: d.records[:0], adds: d.adds[:0],
		charged: d.charged[:0], asked: d.asked[:0], grants: d.grants, gauges: d.gauges[:0],
		conditionsBuffer: d.conditionsBuffer[:0], stepsBuffer: d.stepsBuffer[:0]}
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
		d.raise(all, n)
		d.raise(narrow, n)
	}
}

// raise lets a total rise. A batch raises few of them.
func (d *decision) raise(total uint8, n int64) {
	for i := range d.adds {
		if d.adds[i].Index == total {
			d.adds[i].Amount += n
			return
		}
	}
	d.adds = append(d.adds, Total{total, n})
}

// ask finds the gauges of a request, which are often those of the one before.
func (d *decision) ask(r *Request) {
	d.history = max(d.history, r.History)
	key := r.Labels.Key
	if d.forgotten == d.fold.forgotten && d.key == key && slices.Equal(d.budgets, r.Budgets) {
		return
	}
	d.budgets, d.key = r.Budgets, key
	d.findGauges(r)
	for _, g := range d.gauges {
		if !g.isAsked {
			g.isAsked = true
			d.asked = append(d.asked, g)
		}
	}
}

// findGauges finds the gauges of a request, and leaves no mark in them.
func (d *decision) findGauges(r *Request) {
	for isDone := false; !isDone; isDone = d.forgotten == d.fold.forgotten {
		d.forgotten = d.fold.forgotten
		d.gauges = d.gauges[:0]
		for _, b := range r.Budgets {
			d.gauges = append(d.gauges, d.fold.meter(b, r.Labels.Key))
		}
	}
}

// request decides a request.
func (d *decision) request(r *Request) *Answer {
	count := max(r.Count, 1)
	d.ask(r)
	if repeated := d.repeated(r, count); repeated != nil {
		return repeated
	}
	if refusal := d.refusal(r, int64(count)); refusal != nil {
		d.refused = true
		answer := &Answer{At: d.now, Epoch: d.fold.known.Epoch, Refusal: refusal, Ticket: r.Ticket}
		switch {
		case r.Wait > 0 && refusal.passes(d.now, r.Wait):
			answer.Ticket = d.ticket(r, int64(count))
		case r.isOvertaken && d.fold.control.holds(r.Ticket, d.now):
			d.add(&Record{Kind: KindVoid, Ref: r.Ticket})
		}
		return answer
	}
	granted := &struct { // in one allocation
		Answer
		id [1]ID
	}{}
	answer := &granted.Answer
	answer.At, answer.IDs = d.now, granted.id[:0]
	for i := range count {
		answer.IDs = append(answer.IDs, d.grant(r, i))
	}
	answer.Held = d.held()
	if !r.Force {
		d.strict = true
		for i, g := range d.gauges {
			d.charge(g, answer.Held[i].Used+answer.Held[i].Reserved, r.Ticket != ID{})
		}
	}
	return answer
}

// charge notes what a gauge holds after a grant.
func (d *decision) charge(g *gauge, load int64, isQueued bool) {
	g.isQueued = isQueued && (g.isQueued || !g.isCharged)
	if g.load = load; !g.isCharged {
		g.isCharged = true
		d.charged = append(d.charged, g)
	}
}

// held returns what the windows of the request's budgets hold.
func (d *decision) held() []Held {
	if len(d.gauges) == 0 {
		return nil
	}
	all := make([]Held, len(d.gauges))
	for i, g := range d.gauges {
		all[i] = d.fold.heldBy(g, d.now)
	}
	return all
}

// passes reports whether a call that waits for a time can be granted while its
// ticket holds, and without a cooldown's end.
func (no *Refusal) passes(now, wait int64) bool {
	isSpent := !no.Never && no.Cooldown == nil && no.Moved == nil
	return isSpent && no.RetryAt-now <= min(wait, ticketHolds)
}

// ticketHolds is how long a ticket holds unless it is renewed, and
// ticketRenewed how long before its end it is.
const (
	ticketHolds   = 10_000_000
	ticketRenewed = 6_000_000
)

// ticket writes or renews the ticket of a caller that waits.
func (d *decision) ticket(r *Request, count int64) ID {
	own := r.Ticket
	if t := d.fold.control.tickets[own]; t != nil && t.served {
		own = ID{} // a clock record, or a void, has ended it
	} else if t != nil && t.until-d.now > ticketRenewed {
		return own
	}
	amounts := r.Amounts.times(count)
	record := &Record{Kind: KindTicket, Labels: r.Labels, Amounts: amounts, Until: d.wall + ticketHolds,
		Value: r.Priority, Ref: own}
	d.add(record)
	d.bump = d.bump || r.Priority > 0 // callers of lower lanes must see it before they are granted
	d.countOf(measureTickets, r.Labels.Method, amounts.Units+amounts.Calls)
	return cmp.Or(own, record.ID)
}

// grant records one call, and tries it in the fold.
func (d *decision) grant(r *Request, i int) ID {
	record := d.newGrant()
	record.Kind = cmp.Or(r.Kind, KindGrant)
	record.Labels = r.Labels
	record.Amounts = r.Amounts
	record.Ref = r.Ticket
	record.Name = r.Name
	record.Text = r.Text
	if r.ID != (ID{}) {
		record.ID = ID{r.ID.Client, r.ID.Seq + uint64(i)}
	}
	isLast := i+1 >= r.Count
	if r.Lease > 0 && (isLast || !slices.ContainsFunc(r.Budgets, (*Budget).isInFlight)) {
		record.Until = d.wall + r.Lease
	}
	d.add(record)
	d.count(r.Labels.Method, &r.Amounts)
	record.At, record.Ref = max(d.now, d.fold.newest+1)+int64(d.fold.tried), ID{}
	d.fold.try(record, d.fold.numberOf(&r.Labels))
	record.At, record.Ref = 0, r.Ticket
	return record.ID
}

// isInFlight reports whether the budget counts calls in flight.
func (b *Budget) isInFlight() bool { return b.Window.Kind == InFlight }

// newGrant returns a zero record, perhaps one of an earlier decision.
func (d *decision) newGrant() *Record {
	if d.granted == len(d.grants) {
		d.grants = append(d.grants, new(Record))
	}
	r := d.grants[d.granted]
	d.granted++
	*r = Record{}
	return r
}

// held returns what a budget's window holds at a time.
func (f *fold) held(b *Budget, key string, now int64) Held { return f.heldBy(f.meter(b, key), now) }

func (f *fold) heldBy(g *gauge, now int64) (h Held) {
	h.Used = g.used(now)
	h.Reserved = g.meter.load(now) - h.Used
	h.Open = min(f.open(g, now), h.Used)
	h.Limit, h.Until = f.control.limit(g, now)
	h.NextAt, h.Next = g.returns(now)
	return h
}

// open returns what calls whose leases have not ended hold of a budget.
func (f *fold) open(g *gauge, now int64) int64 {
	switch {
	case g.budget.Window.Kind == InFlight:
		return g.used(now)
	case len(f.leases) == 0:
		return 0
	case g.leases == nil:
		coverage := g.budget.Coverage
		coverage.inFlight = true
		g.leases = newInFlightMeter(g.budget, f.seriesFor(coverage, g.key))
	}
	return g.leases.used(now)
}

// maxLead is how far stamps may be ahead of the ledger's clock without being
// taken for those of a wrong one: it frees nothing early if it steps back by
// less.
const maxLead = 2 * 60 * 1_000_000

// ahead returns how far the newest stamp is ahead of the clock, if that is
// much.
func (f *fold) ahead(now int64) int64 {
	if ahead := f.maxStamp - now; ahead > maxLead {
		return ahead
	}
	return 0
}
