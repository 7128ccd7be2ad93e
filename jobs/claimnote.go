package jobs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// maxAgain is the longest time for which a pass that is done stays claimed.
const maxAgain = quota.MaxHistory

// doneFor returns for how long a pass stays claimed once it is done: until the
// next tick, and longer because the clocks of hosts differ.
func doneFor(tick, next time.Time) time.Duration {
	if next.IsZero() {
		return maxAgain
	}
	interval := next.Sub(tick)
	slack := min(max(24*interval, time.Hour), 24*time.Hour)
	return min(2*interval+slack, maxAgain)
}

// claimRequest says what is claimed for a pass: what its steps fetch for a
// region of an account at a tick. Passes of equal steps are the same on
// all hosts.
func claimRequest(region *Region, tick time.Time) engine.ClaimRequest {
	var steps []any
	for _, step := range region.Steps {
		steps = append(steps, step.Name(), step.Pages)
		if step.Program != nil {
			steps = append(steps, step.Program.Args)
		}
	}
	packed, err := json.Marshal(steps)
	if err != nil {
		panic(err) // there are only strings and numbers in it
	}
	name := fmt.Sprintf("pass %s %s %.8x", region.Name, tick.UTC().Format(time.RFC3339), sha256.Sum256(packed))
	return engine.ClaimRequest{Name: name, Hold: DefaultClaimTime, Again: doneFor(tick, region.Schedule.Next(tick))}
}

// passAccount returns the account of the first call of a region's pass, or the
// first of costs.yaml if regions.yaml does not say what is called.
func passAccount(table *costs.Table, region *Region) string {
	if table == nil {
		return ""
	}
	for _, step := range region.Steps {
		for _, calls := range step.Calls() {
			if call, err := table.Call("", calls.Method); err == nil {
				return call.Account
			}
		}
	}
	for _, account := range table.Accounts() {
		return account
	}
	return ""
}

// maxHost is the most bytes of a host's name in an owner.
const maxHost = 64

// newOwner returns a name for this process in one pass: host, pid and
// random digits.
func newOwner(host string) string {
	var random [6]byte
	rand.Read(random[:])
	return fmt.Sprintf("%s/%d/%x", host[:min(len(host), maxHost)], os.Getpid(), random)
}

// parseOwner returns the host and pid of an owner.
func parseOwner(owner string) (host string, pid int) {
	parts := strings.Split(owner, "/")
	if len(parts) < 3 {
		return owner, 0
	}
	pid, _ = strconv.Atoi(parts[len(parts)-2])
	return strings.Join(parts[:len(parts)-2], "/"), pid
}

// packCheckpoint returns the note that says how far a step has come, or nil if
// its page token is too long for one: a host that takes over then begins the
// step anew.
func packCheckpoint(step string, at catalog.Checkpoint) []byte {
	note := append([]byte(stepKey(step)), 0)
	if at.Done {
		note[len(note)-1] = 1
	}
	note = binary.AppendUvarint(note, uint64(at.Pages))
	note = binary.AppendUvarint(note, uint64(at.Videos))
	note = append(note, at.Next...)
	if len(note) > quota.MaxClaimNote {
		return nil
	}
	return note
}

// stepKeyBytes is the length of a step's key in notes.
const stepKeyBytes = 4

func stepKey(step string) string {
	sum := sha256.Sum256([]byte(step))
	return string(sum[:stepKeyBytes])
}

// readNotes returns how far the steps of a region have come by all notes.
func readNotes(region *Region, notes []string) map[string]catalog.Checkpoint {
	names := map[string]string{}
	for _, step := range region.Steps {
		names[stepKey(step.Name())] = step.Name()
	}
	steps := map[string]catalog.Checkpoint{}
	for _, note := range notes {
		if len(note) <= stepKeyBytes {
			continue
		}
		name, known := names[note[:stepKeyBytes]]
		at, ok := parseCheckpoint([]byte(note[stepKeyBytes:]))
		if known && ok && isFurther(at, steps[name]) {
			steps[name] = at
		}
	}
	return steps
}

// isFurther reports whether a step has come further at a checkpoint than at
// another: by more pages, or to its end.
func isFurther(at, than catalog.Checkpoint) bool {
	return at.Pages > than.Pages || at.Pages == than.Pages && at.Done
}

func parseCheckpoint(note []byte) (at catalog.Checkpoint, ok bool) {
	at.Done, note = note[0] == 1, note[1:]
	for _, n := range []*int{&at.Pages, &at.Videos} {
		value, read := binary.Uvarint(note)
		if read <= 0 || value > 1<<31 {
			return at, false
		}
		*n, note = int(value), note[read:]
	}
	at.Next = string(note)
	return at, true
}

// PassClaim says which host has the current pass of a region, or has done it.
// Times are by the ledger's clock.
type PassClaim struct {
	Region string
	Tick   time.Time
	Host   string
	PID    int
	Since  time.Time // when the host claimed the pass
	Until  time.Time // when the claim lapses unless it is renewed; zero if the pass is done
	Done   time.Time // zero if it is not done
}

// PassClaims returns who has the current passes of regions, in their order.
// Passes that no host has are left out.
func PassClaims(ctx context.Context, guard *quota.Guard, table *costs.Table, regions []Region,
	now time.Time) ([]PassClaim, error) {
	var claims []PassClaim
	for i := range regions {
		tick := regions[i].Schedule.Tick(now)
		if tick.IsZero() {
			continue
		}
		account := guard.Account(passAccount(table, &regions[i]))
		state, err := account.ClaimState(ctx, claimRequest(&regions[i], tick).Name)
		if err != nil {
			return nil, err
		}
		if state.IsFree() {
			continue
		}
		c := PassClaim{Region: regions[i].Name, Tick: tick, Since: state.Since, Until: state.Until, Done: state.Done}
		c.Host, c.PID = parseOwner(state.Owner)
		claims = append(claims, c)
	}
	return claims, nil
}
