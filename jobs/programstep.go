package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/quota"
)

// CheckPrograms returns a *client.ConfigError that lists the programs of the
// regions that cannot be found, each with its place in regions.yaml.
func CheckPrograms(regions []Region) error {
	var missing []error
	known := map[string]bool{}
	for _, region := range regions {
		for _, step := range region.Steps {
			if step.Kind != Command {
				continue
			}
			if _, err := step.Program.Expand(region.values(time.Unix(0, 0))); err != nil && !known[err.Error()] {
				known[err.Error()] = true
				missing = append(missing, err)
			}
		}
	}
	if missing == nil {
		return nil
	}
	return &client.ConfigError{Err: errors.Join(missing...)}
}

func (r *Region) values(tick time.Time) *command.Values {
	return &command.Values{Region: r.Name, Zone: r.Schedule.Zone().String(), Tick: tick}
}

// fetchProgram runs the program of a step, unless an earlier run for this tick
// has. One that ended with exit code 75 has a page that is not done, unless a
// budget or cooldown stopped it: that one is started again at its retry time.
func (p *pass) fetchProgram(ctx context.Context, step Step, at catalog.Checkpoint) error {
	if at.Done {
		return nil
	}
	if at.Pages > 0 && !p.Again {
		return &EndedEarlyError{Job: step.Name(), RetryAt: p.nextTick}
	}
	if err := p.checkTime(ctx); err != nil {
		return err
	}
	if err := p.probeFirstCall(ctx, step); err != nil {
		return err
	}
	attempt, err := p.beginAttempt(ctx, step)
	if err != nil {
		return err
	}
	refused, why := p.runProgram(ctx, step.Program)
	stopped := errors.Is(why, command.ErrStopped)
	switch {
	case why != nil && p.stop.Err() != nil:
		why = context.Cause(p.stop)
		attempt.end(ctx, why)
		return why
	case why != nil && !stopped:
		attempt.end(ctx, why)
		return fmt.Errorf("%s: %w", step.Name(), why)
	}
	if stopped {
		if at := p.resumesAt(ctx, step, refused); !at.IsZero() {
			attempt.end(ctx, nil)
			return &EndedEarlyError{Job: step.Name(), RetryAt: at, Resumes: true, Err: why}
		}
	}
	page := catalog.Page{Region: p.region.Name, Tick: p.tick, Step: step.Name(), Method: step.family(),
		Number: at.Pages, Done: !stopped}
	if err := p.Catalog.Commit(context.WithoutCancel(ctx), page); err != nil {
		attempt.end(ctx, err)
		return err
	}
	p.noteProgress(ctx, step, catalog.Checkpoint{Pages: at.Pages + 1, Done: page.Done})
	if stopped {
		return &EndedEarlyError{Job: step.Name(), RetryAt: p.nextTick, Err: why}
	}
	p.pages++
	p.reportProgress(step.Name(), false)
	return nil
}

// resumesAt returns when a program that has stopped is started again before the
// next tick: at the retry time of the budget or cooldown that refused its last
// call, through the gateway or by ration spend, or that would refuse its first
// one. It is zero if none did, or not before the next tick.
func (p *pass) resumesAt(ctx context.Context, step Step, refused error) time.Time {
	if refused == nil {
		refused = p.probeFirstCall(ctx, step)
	}
	refusal, ok := errors.AsType[*quota.RefusedError](refused)
	if !ok || !p.nextTick.IsZero() && !refusal.RetryAt.Before(p.nextTick) {
		return time.Time{}
	}
	return refusal.RetryAt
}

// probeFirstCall returns the refusal that the first call of a step would get.
// Its method is the first in calls of regions.yaml. While the ledger is down,
// it returns an error if the method has no allowance.
func (p *pass) probeFirstCall(ctx context.Context, step Step) error {
	calls := step.Calls()
	if len(calls) == 0 {
		return nil
	}
	call, err := p.Table.Call("", calls[0].Method)
	if err != nil {
		return err
	}
	call.Caller = quota.CallerFrom(ctx)
	err = p.Guard.Probe(ctx, call)
	if errors.Is(err, quota.ErrLedgerDown) && p.Table.Allowance(call) > 0 {
		return nil
	}
	return err
}

// runProgram runs a program behind the gateway and adds to the meter what it
// was charged. refused is the last refusal of the program's calls by the
// gateway, or else by ration spend.
func (p *pass) runProgram(ctx context.Context, program *command.Program) (refused, why error) {
	args, err := program.Expand(p.region.values(p.tick))
	if err != nil {
		return nil, &client.ConfigError{Err: err}
	}
	caller := quota.CallerFrom(ctx)
	run := &command.Run{Args: args, Dir: program.Dir, Env: slices.Clip(p.Environ), Timeout: program.Timeout,
		Grace: cmp.Or(p.Grace, DefaultGrace)}
	if p.Output != nil {
		run.Output = func(text string) { p.Output(OutputLine{Region: p.region.Name, Job: program.Job, Text: text}) }
	}
	if run.Env == nil {
		run.Env = os.Environ()
	}
	run.Env = append(run.Env, command.CallerVariables(caller)...)
	began := p.ledgerTimes(ctx)
	if p.Gateway != nil {
		env, end, err := p.Gateway.Open(ctx, caller)
		if err != nil {
			return nil, fmt.Errorf("open the gateway: %w", err)
		}
		defer func() {
			if refused = end(); refused == nil {
				refused = p.refusalSince(began, caller)
			}
		}()
		run.Env = append(run.Env, env...)
		run.Secrets = tokens(env)
	}
	defer func() { p.meterProgram(context.WithoutCancel(ctx), program, caller, began) }()
	p.report.Started++
	return nil, run.Do(p.stop)
}

// refusalSince returns the last refusal by ration spend, which the state folder
// has, if it is one of a caller since the given times.
func (p *pass) refusalSince(began map[string]time.Time, caller quota.Caller) error {
	last, err := client.LastRefusal(p.State)
	if p.State == "" || err != nil || last == nil {
		return nil
	}
	since, ok := began[last.Account]
	if refused := last.RefusedError(); ok && refused.Caller == caller && !last.At.Before(since) {
		return refused
	}
	return nil
}

// tokens returns the values of variables that are not to be shown.
func tokens(env []string) (secrets []string) {
	for _, variable := range env {
		if name, value, _ := strings.Cut(variable, "="); strings.HasSuffix(name, "_TOKEN") && value != "" {
			secrets = append(secrets, value)
		}
	}
	return secrets
}

// ledgerTimes returns the time on the ledger's clock for each account, as far
// as the ledger answers.
func (p *pass) ledgerTimes(ctx context.Context) map[string]time.Time {
	times := map[string]time.Time{}
	if p.Meter == nil {
		return times
	}
	for _, account := range p.Table.Accounts() {
		if now, ahead, err := p.Guard.Now(ctx, account); err == nil {
			times[account] = now.Add(ahead)
		}
	}
	return times
}

// meterProgram adds to the meter what a caller was charged since the given
// times, as the ledger has it: a program may spend through the gateway, with
// ration spend, or by itself. It reports more calls than regions.yaml says, and
// that the charge is unknown if the ledger does not answer.
func (p *pass) meterProgram(ctx context.Context, program *command.Program, caller quota.Caller,
	since map[string]time.Time) {
	made := map[string]int{}
	if p.Meter != nil && len(since) < len(p.Table.Accounts()) {
		p.report.Unmetered = true
	}
	for account, began := range since {
		for sum, err := range p.Guard.Sums(ctx, quota.Query{Account: account, Since: began}) {
			if err != nil {
				p.report.Unmetered = true
				break
			}
			if sum.Caller == caller {
				p.Meter.Charged(quota.Call{Account: account, Method: sum.Method, Caller: caller}, int(sum.Calls),
					sum.Units)
				made[sum.Method] += int(sum.Calls)
			}
		}
	}
	for _, calls := range program.Calls {
		if n := made[calls.Method]; n > calls.Most && p.Output != nil {
			p.Output(OutputLine{Region: p.region.Name, Job: program.Job,
				Text: fmt.Sprintf("made %d calls of %s, more than the %d in regions.yaml", n, calls.Method,
					calls.Most)})
		}
	}
}
