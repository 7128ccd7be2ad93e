// Package command runs the user's own programs as steps of a pass.
//
// A Program describes one, as regions.yaml does, and a Run executes it: in
// a process group of its own, with a time limit, and with its output passed
// on line by line. The program is guarded by a Gateway, which it finds in
// its environment.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Gateway is where a step's program reaches its guard.
type Gateway interface {
	// Open returns the environment (RATION_URL, RATION_TOKEN) of one program
	// run, attributed to caller, and what ends it. close returns the last
	// refusal of the program's calls, or nil.
	Open(ctx context.Context, caller quota.Caller) (env []string, close func() error, err error)
}

// CallerVariables returns the variables by which the commands that a program
// runs, such as ration spend, attribute their calls to caller.
func CallerVariables(caller quota.Caller) []string {
	return []string{"RATION_LANE=" + caller.Lane, "RATION_JOB=" + caller.Job, "RATION_REGION=" + caller.Region}
}

// Program is a program as regions.yaml describes it.
type Program struct {
	// Args are the program and its arguments, each a template for Expand. No
	// shell reads them.
	Args    []string
	Job     string        // how its calls are attributed
	Calls   []Calls       // the most that one run makes of each method, its first call first
	Timeout time.Duration // the longest that one run may take
	Dir     string        // its working folder, that of regions.yaml
	Place   string        // where regions.yaml names it, for errors: regions.yaml:5:14
}

// Calls is a number of calls of one method.
type Calls struct {
	Method string
	Most   int
}

// DefaultTimeout is the Timeout of a program that names none.
const DefaultTimeout = time.Hour

// String describes the program in one line: what is run, what it calls, and for
// how long.
func (p *Program) String() string {
	parts := []string{human.Name(strings.Join(p.Args, " "))}
	for _, c := range p.Calls {
		parts = append(parts, fmt.Sprintf("%s %d", human.Name(c.Method), c.Most))
	}
	return strings.Join(append(parts, human.Exactly(p.Timeout)), ", ")
}

// Expand returns the arguments of one run, the first of which is the path of
// the program. A name with a slash is relative to Dir, any other is looked up
// in PATH. The error says where the program was expected.
func (p *Program) Expand(v *Values) ([]string, error) {
	args := slices.Clone(p.Args)
	for i, arg := range p.Args {
		var err error
		if args[i], err = Expand(arg, v); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Place, err)
		}
	}
	path, err := p.find(args[0])
	if err != nil {
		return nil, err
	}
	args[0] = path
	return args, nil
}

func (p *Program) find(name string) (string, error) {
	path := name
	if strings.ContainsAny(name, `/`+string(filepath.Separator)) && !filepath.IsAbs(name) {
		path = filepath.Join(p.Dir, name)
	}
	found, err := exec.LookPath(path)
	if err == nil {
		return found, nil
	}
	where, advice := human.Name(path), "correct command"
	reason := errors.Unwrap(err) // without the name, which is said once
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		reason = file.Err
	}
	switch {
	case errors.Is(err, exec.ErrDot):
		where, advice = human.Name(name), "write ./"+name+" to run the one beside regions.yaml"
	case errors.Is(err, exec.ErrNotFound):
		where, advice = human.Name(name)+" in PATH", "install it, or write its path"
	case errors.Is(err, fs.ErrPermission):
		advice = "make it executable with chmod +x, or " + advice
	}
	return "", fmt.Errorf("%s: no program %s (%w); %s", p.Place, where, reason, advice)
}
