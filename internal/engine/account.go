package engine

import "context"

// Spend decides requests in order, each beside those before it, at one time.
// There is one answer for each. An error means that nothing was decided: it is
// the ledger's, or the context's. In that case nothing is charged, or it is
// refunded in the background, unless the error is ErrInDoubt. A request with an
// ID may stay charged after any error: it may have been asked again elsewhere.
func (a *Account) Spend(ctx context.Context, requests ...*Request) ([]*Answer, error) {
	t := a.engine.tasks.get(requests)
	err := a.do(ctx, t)
	answers := t.answers
	a.engine.tasks.put(t)
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// Settle replaces what a grant counts for by what it really cost: all zero for
// a call that was never sent. It ends the grant's lease. It is a no-op if the
// grant is no longer in the log.
func (a *Account) Settle(ctx context.Context, id ID, amounts Amounts) error {
	return a.do(ctx, newTask(false, func(d *decision) {
		d.settle(id, func(Amounts) (Amounts, bool) { return amounts, true })
	}))
}

// Change is Settle with the amounts that change returns for the present ones.
func (a *Account) Change(ctx context.Context, id ID, change func(before Amounts) Amounts) error {
	return a.do(ctx, newTask(false, func(d *decision) {
		d.settle(id, func(before Amounts) (Amounts, bool) { return change(before), true })
	}))
}

// End ends the lease of a grant, whose amounts stay as they are.
func (a *Account) End(ctx context.Context, id ID) error {
	return a.do(ctx, newTask(false, func(d *decision) {
		d.settle(id, func(before Amounts) (Amounts, bool) { return before, d.fold.isOpen(id, d.now) })
	}))
}

// settle settles a grant to what change returns, if it returns true.
func (d *decision) settle(id ID, change func(before Amounts) (after Amounts, ok bool)) {
	n, ok := d.fold.find(id)
	if !ok {
		d.refused = true // by what is known: another process may have been granted it
		return
	}
	before := d.fold.amounts(n)
	amounts, ok := change(before)
	if !ok {
		return
	}
	e := d.fold.at(n)
	labels := d.fold.labels[e.labels].Labels
	d.add(&Record{Kind: KindSettle, Ref: id, Amounts: amounts})
	rise := Amounts{Units: amounts.Units - before.Units, Calls: amounts.Calls - before.Calls}
	for _, m := range amounts.More {
		rise.More = append(rise.More, Amount{m.Measure, m.N - before.Of(m.Measure)})
	}
	d.count(labels.Method, &rise)
}

// Leave ends the ticket of a caller that waits no longer.
func (a *Account) Leave(ctx context.Context, ticket ID) error {
	return a.do(ctx, newTask(false, func(d *decision) {
		if d.fold.control.holds(ticket, d.now) {
			d.add(&Record{Kind: KindVoid, Ref: ticket})
		}
	}))
}

// Cool sets a cooldown of a budget, or of the account if budget is empty, for
// a length of time, or until a time if that is 0. It stops all keys, or the
// one that is named. If one is in force the later end holds. repeats is how
// often in succession it was asked for.
func (a *Account) Cool(ctx context.Context, budget, key string, length, until, repeats int64, reason string) error {
	return a.do(ctx, newTask(false, func(d *decision) {
		end := until
		if length > 0 {
			end = d.wall + length
		}
		latest := d.fold.control.cooldown(budget, key, d.now).Until
		for _, r := range d.records { // of the other tasks of the round
			if r.Kind == KindCooldown && r.Name == budget && r.Labels.Key == key {
				latest = r.Until
			}
		}
		if end > d.now-maxLead && end > latest {
			d.add(&Record{Kind: KindCooldown, Name: budget, Labels: Labels{Key: key, Host: d.host}, Until: end,
				Value: repeats, Text: reason})
			d.strict = true
		}
	}))
}

// EndCooldown ends the cooldown of a budget or of the account, or of one key of
// it, if there is one.
func (a *Account) EndCooldown(ctx context.Context, budget, key string) error {
	return a.do(ctx, newTask(true, func(d *decision) {
		if held := d.fold.control.cooldowns[cooldownID{budget, key}]; held.Until > d.now {
			d.add(&Record{Kind: KindCooldown, Name: budget, Labels: Labels{Key: key, Host: d.host}})
			d.strict = true
		}
	}))
}

// Move closes the account: every call is refused and told where it lives now.
// An empty text opens it again.
func (a *Account) Move(ctx context.Context, to string) error {
	return a.do(ctx, newTask(true, func(d *decision) {
		if d.fold.control.moved.Text != to {
			d.add(&Record{Kind: KindMoved, Text: to})
			d.strict = true
		}
	}))
}

// EndLimits forgets the limits that configurations have announced.
func (a *Account) EndLimits(ctx context.Context) error {
	return a.do(ctx, newTask(true, func(d *decision) {
		for id, held := range d.fold.control.limits {
			if id.budget != "" && held.Until > d.now {
				d.add(&Record{Kind: KindLimit, Name: id.budget, Owner: id.config, Value: held.Value})
				d.strict = true
			}
		}
	}))
}
