package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota"
)

// RefusalCount is how many calls of one kind were refused at one time. "-"
// stands for no method, region, job or lane.
type RefusalCount struct {
	At      time.Time `json:"at"` // by the ledger's clock, rounded down to a minute
	Account string    `json:"account"`
	Budget  string    `json:"budget"` // "" for a cooldown of the whole account
	Method  string    `json:"method"`
	Region  string    `json:"region"`
	Job     string    `json:"job"`
	Lane    string    `json:"lane"`
	Count   int64     `json:"count"`
}

// isWhole reports whether c has what every count has.
func (c *RefusalCount) isWhole() bool {
	return c.Account != "" && c.Count > 0 && !c.At.IsZero()
}

// maxCounts is the most kinds of refusal that are counted between two writes.
const maxCounts = 4096

// count counts a refusal. The caller has locked r.
func (r *refusals) count(c *Client, refused *quota.RefusedError) {
	caller := &refused.Caller
	kind := RefusalCount{At: RefusedAt(refused, c.options.Now).UTC().Truncate(time.Minute),
		Account: refused.Account, Budget: refused.Budget, Method: cmp.Or(refused.Method, "-"),
		Region: cmp.Or(caller.Region, "-"), Job: cmp.Or(caller.Job, "-"), Lane: cmp.Or(caller.Lane, "-")}
	if r.counts == nil {
		r.counts = map[RefusalCount]int64{}
	}
	if _, known := r.counts[kind]; known || len(r.counts) < maxCounts {
		r.counts[kind]++
	}
}

// refusalFiles is how the names of the files with counts begin: one for each
// day of UTC, so that a file is complete when its day is over.
const refusalFiles = "refusals-"

// writeCounts appends the counts to the file of the day, in one write. Those
// that cannot be written are lost: a refusal never waits or fails for them. The
// caller has locked r.
func (r *refusals) writeCounts(c *Client) {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for kind, n := range r.counts {
		kind.Count = n
		_ = encoder.Encode(kind) // a buffer takes all
	}
	clear(r.counts)
	if lines.Len() == 0 {
		return
	}
	now := time.Now
	if c.options.Now != nil {
		now = c.options.Now
	}
	f, err := files.Append(filepath.Join(c.state, refusalFiles+now().UTC().Format(time.DateOnly)+".jsonl"))
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(lines.Bytes())
}

// RefusalFiles returns the names of the files in a state folder in which the
// refusals of each day are counted.
func RefusalFiles(state string) ([]string, error) {
	entries, err := os.ReadDir(state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), refusalFiles) && strings.HasSuffix(e.Name(), ".jsonl") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// maxRefusalRead is the most bytes that ReadRefusals reads at once.
const maxRefusalRead = 4 << 20

// ReadRefusals reads the counts in a file of a state folder, starting at an
// offset. It returns them and the offset to resume at, or from if there are no
// more. It skips malformed lines.
func ReadRefusals(state, name string, from int64) (counts []RefusalCount, next int64, err error) {
	f, err := files.OpenRead(filepath.Join(state, name))
	if err != nil {
		return nil, from, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, from, maxRefusalRead))
	if err != nil {
		return nil, from, err
	}
	end := bytes.LastIndexByte(text, '\n') + 1 // the last line may not be whole yet
	for line := range bytes.Lines(text[:end]) {
		var c RefusalCount
		if json.Unmarshal(line, &c) == nil && c.isWhole() {
			counts = append(counts, c)
		}
	}
	return counts, from + int64(end), nil
}
