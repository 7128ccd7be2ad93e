package jobs

import (
	"errors"
	"slices"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// maxQuery is the most bytes of a query: the job of its calls is its step's
// name.
const maxQuery = quota.MaxLabel - len(Search) - len(":")

// readSteps reads a fetch list. The shared list is read once for each region,
// since the budgets that a call is charged to depend on the region. A repeated
// mistake is reported once.
func (r *reader) readSteps(n strictyaml.Node, region string) []Step {
	var steps []Step
	add := func(at strictyaml.Node, step Step, callsAt ...strictyaml.Node) {
		if slices.ContainsFunc(steps, func(s Step) bool { return s.Name() == step.Name() }) {
			advice := "remove one"
			if step.Kind == Command {
				advice = "remove one, or tell them apart with job"
			}
			at.Mistake("%s is fetched twice: %s", step.Name(), advice)
			return
		}
		for i, calls := range step.Calls() {
			at := at
			if i < len(callsAt) {
				at = callsAt[i]
			}
			if r.check != nil {
				r.checkCalls(at, step, calls.Method, region)
			}
		}
		steps = append(steps, step)
	}
	items := 0
	n.Items(func(item strictyaml.Node) {
		items++
		if item.Kind() == strictyaml.Text {
			if kind := item.OneOf("step", kinds); kind != "" {
				readStep(Step{Kind: StepKind(kind)}, item, strictyaml.Node{}, add)
			}
			return
		}
		if item.Has(string(Command)) {
			r.readCommand(item, region, add)
			return
		}
		first := true
		item.Entries(func(key, value strictyaml.Node) {
			if !first {
				key.Mistake("second step in one item: start each step with its own dash")
			} else if kind := key.OneOf("step", kinds); kind != "" {
				readStep(Step{Kind: StepKind(kind)}, key, value, add)
			}
			first = false
		})
		if first && item.Kind() == strictyaml.Map {
			item.Mistake("empty item in fetch: write trending: {pages: 4}, or remove it")
		}
	})
	if items == 0 && n.Kind() == strictyaml.List {
		n.Mistake("fetch is empty: write fetch: [{trending: {pages: 4}}]")
	}
	return steps
}

// addStep adds a step to a list, given the place of its item and those of its
// calls, if they are not the same.
type addStep func(at strictyaml.Node, step Step, callsAt ...strictyaml.Node)

// readStep reads the options of a step and calls add for each step they name:
// one for each query of a search, otherwise one.
func readStep(step Step, at, options strictyaml.Node, add addStep) {
	if step.Kind == Command {
		at.Mistake("command needs a program: write command: [./fetch.sh]")
		return
	}
	pages := strictyaml.Field{Key: "pages", Read: func(n strictyaml.Node) { step.Pages = int(n.Int(1, maxPages)) }}
	var queries []string
	var fields []strictyaml.Field
	switch step.Kind {
	case Trending:
		step.Pages, fields = DefaultPages, []strictyaml.Field{pages}
	case Channels:
		step.Pages, fields = defaultChannelPages, []strictyaml.Field{pages}
	case Categories:
		step.Pages = 1
	case Search:
		step.Pages = 1
		fields = []strictyaml.Field{pages, {Key: "queries", Missing: "queries: [music]", Read: func(n strictyaml.Node) {
			n.Items(func(n strictyaml.Node) { queries = append(queries, n.Text(maxQuery)) }) // "" has a mistake
			if n.IsEmpty() {
				n.Mistake("queries is empty: write queries: [music]")
			}
		}}}
	}
	if options != (strictyaml.Node{}) {
		options.Fields(fields...)
	} else if step.Kind == Search {
		at.Mistake("search needs queries: write search: {queries: [music]}")
	}
	if step.Kind != Search {
		add(at, step)
		return
	}
	for _, query := range queries {
		if step.Query = query; query != "" {
			add(at, step)
		}
	}
}

// checkCalls reports a step that must not call a method.
func (r *reader) checkCalls(at strictyaml.Node, step Step, method, region string) {
	switch err := r.check(method, quota.Caller{Lane: Lane, Job: step.Name(), Region: region}); {
	case errors.Is(err, costs.ErrNoCost) && step.Kind != Command:
		at.Mistake("%s calls %s of YouTube, which has no cost in costs.yaml: add it, as preset: youtube/2026-06 does",
			step.Kind, method)
	case errors.Is(err, costs.ErrManyUpstreams):
		at.Mistake("several upstreams of costs.yaml have a method %s: rename that of one there, or leave it out of "+
			"calls", method)
	case err != nil:
		at.Mistake("%v", err)
	}
}
