package engine

import (
	"context"
	"slices"
)

// isContended reports whether a caller that waits, without a ticket, should
// queue at once: others have waited lately, so what is known here of the room
// there is will not do.
func (a *Account) isContended(tasks []*task) bool {
	if len(a.fold.control.tickets) == 0 {
		return false
	}
	others := a.fold.control.waitingBeside(a.engine.client, a.clock.now(&a.engine.o)-ticketHolds)
	return others > 0 && slices.ContainsFunc(tasks, func(t *task) bool {
		return slices.ContainsFunc(t.requests, func(r *Request) bool { return r.Wait > 0 && r.Ticket == ID{} })
	})
}

// takeTickets writes tickets for the spends of a round that others have
// overtaken twice.
func (a *Account) takeTickets(ctx context.Context, tasks []*task) error {
	d := a.newDecision()
	tickets := map[*Request]ID{}
	for _, t := range tasks {
		for _, r := range t.requests {
			if !r.Force && r.ID == (ID{}) && r.Ticket == (ID{}) {
				tickets[r] = d.ticket(r, int64(max(r.Count, 1)))
			}
		}
	}
	if len(tickets) == 0 {
		return nil
	}
	_, err := a.append(ctx, d)
	for r, id := range tickets {
		r.Ticket, r.isOvertaken = id, r.Wait == 0
	}
	return err
}
