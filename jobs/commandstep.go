package jobs

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

const (
	maxArgument   = 64 << 10 // bytes of one argument of a program
	maxCalls      = 1_000_000
	maxTimeout    = 24 * time.Hour
	shortestLimit = time.Second
)

// readCommand reads an item with a program: command, job, calls and timeout.
func (r *reader) readCommand(item strictyaml.Node, region string, add addStep) {
	p := &command.Program{Dir: r.dir, Timeout: command.DefaultTimeout}
	values := &command.Values{Region: region, Zone: r.zone.String(), Tick: time.Unix(0, 0)}
	var at strictyaml.Node
	var callsAt []strictyaml.Node
	item.Fields(
		strictyaml.Field{Key: "command", Read: func(n strictyaml.Node) {
			at = n
			p.Args = readArguments(n, values)
		}},
		strictyaml.Field{Key: "job", Read: func(n strictyaml.Node) { p.Job = n.Text(quota.MaxLabel) }},
		strictyaml.Field{Key: "calls", Read: func(n strictyaml.Node) {
			n.Entries(func(key, value strictyaml.Node) {
				p.Calls = append(p.Calls,
					command.Calls{Method: key.Text(quota.MaxLabel), Most: int(value.Int(1, maxCalls))})
				callsAt = append(callsAt, key)
			})
		}},
		strictyaml.Field{Key: "timeout",
			Read: func(n strictyaml.Node) { p.Timeout = n.Seconds(shortestLimit, maxTimeout) }},
	)
	if len(p.Args) == 0 || p.Args[0] == "" { // reported already
		return
	}
	file, line, column := at.Place()
	p.Place = file + ":" + strconv.Itoa(line) + ":" + strconv.Itoa(column)
	if p.Job == "" {
		p.Job = programName(p.Args[0], values)
	}
	if len(p.Job) > quota.MaxLabel {
		at.Mistake("the name of the program has %d bytes: name the job, such as job: fetch", len(p.Job))
		return
	}
	add(at, Step{Kind: Command, Pages: 1, Program: p}, callsAt...)
}

// readArguments reads a program and its arguments. A program alone needs
// no list.
func readArguments(n strictyaml.Node, values *command.Values) []string {
	if n.Kind() == strictyaml.Text {
		text, ok := n.Verbatim(maxArgument)
		if words := strings.Fields(text); ok && len(words) > 1 {
			n.Mistake("command is a line, and no shell splits it: write a list, command: %s",
				strictyaml.FlowList(words))
			return nil
		}
		return []string{readArgument(n, true, values)}
	}
	var args []string
	n.Items(func(item strictyaml.Node) { args = append(args, readArgument(item, len(args) == 0, values)) })
	if n.IsEmpty() {
		n.Mistake("command is empty: write command: [./fetch.sh]")
	}
	return args
}

func readArgument(n strictyaml.Node, isProgram bool, values *command.Values) string {
	if n.Kind() == strictyaml.Map { // unquoted, {region} is a map in YAML
		n.Mistake("an item of command is a map: write it in quotes, such as \"{region}\"")
		return ""
	}
	text, ok := n.Verbatim(maxArgument)
	if !ok {
		return ""
	}
	if isProgram && strings.TrimSpace(text) == "" {
		n.Mistake("command names no program: write command: [./fetch.sh]")
		return ""
	}
	if isProgram && strings.Contains(text, "{tick}") {
		n.Mistake("{tick} is in the name of the program: write it in an argument")
		return ""
	}
	if _, err := command.Expand(text, values); err != nil {
		n.Mistake("%v", err)
	}
	return text
}

// programName returns the base name of a program, with its
// placeholders replaced.
func programName(arg string, values *command.Values) string {
	name, err := command.Expand(arg, values)
	if err != nil {
		name = arg
	}
	return path.Base(filepath.ToSlash(name))
}
