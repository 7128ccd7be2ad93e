package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/jobs"
)

// YAML returns the suggestion as the keys schedule, fetch and regions of a
// regions.yaml. Comments give the old value of each change.
func (s *Suggestion) YAML() string {
	schedule := mostCommon(s.Regions, func(r *jobs.Region) string { return strconv.Quote(r.Schedule.String()) })
	fetch := mostCommon(s.Regions, func(r *jobs.Region) string { return flowSteps(r.Steps) })
	var out strings.Builder
	if schedule != "" {
		fmt.Fprintf(&out, "schedule: %s\n", schedule)
	}
	if fetch != "" {
		out.WriteString("fetch:\n")
		i := slices.IndexFunc(s.Regions, func(r jobs.Region) bool { return flowSteps(r.Steps) == fetch })
		for _, item := range fetchItems(s.Regions[i].Steps) {
			fmt.Fprintf(&out, "  - %s\n", item)
		}
	}
	out.WriteString("regions:\n")
	for i := range s.Regions {
		region := &s.Regions[i]
		var own []string
		if spec := strconv.Quote(region.Schedule.String()); spec != schedule {
			own = append(own, "schedule: "+spec)
		}
		if steps := flowSteps(region.Steps); steps != fetch {
			own = append(own, "fetch: "+steps)
		}
		fmt.Fprintf(&out, "  %s: {%s}%s\n", strictyaml.FlowText(region.Name), strings.Join(own, ", "),
			s.formatWas(region.Name))
	}
	return out.String()
}

// mostCommon returns the text that format returns for most regions, or "" if it
// differs for all.
func mostCommon(regions []jobs.Region, format func(*jobs.Region) string) string {
	count, most := map[string]int{}, ""
	for i := range regions {
		text := format(&regions[i])
		if count[text]++; count[text] > max(1, count[most]) {
			most = text
		}
	}
	return most
}

func (s *Suggestion) formatWas(region string) string {
	var parts []string
	for _, c := range s.Changes {
		switch {
		case c.Region != region:
		case c.What == "schedule":
			parts = append(parts, strconv.Quote(c.From))
		default:
			parts = append(parts, fmt.Sprintf("%s pages of %s", c.From, strconv.Quote(c.What)))
		}
	}
	if parts == nil {
		return ""
	}
	return "  # was " + strings.Join(parts, ", ")
}

// flowSteps formats steps as a YAML list in one line.
func flowSteps(steps []jobs.Step) string {
	var braced []string
	for _, item := range fetchItems(steps) {
		if strings.Contains(item, ":") && !strings.HasPrefix(item, "{") {
			item = "{" + item + "}"
		}
		braced = append(braced, item)
	}
	return "[" + strings.Join(braced, ", ") + "]"
}

// fetchItems formats steps as items of a fetch list. Successive searches with
// the same number of pages are one item.
func fetchItems(steps []jobs.Step) []string {
	var all []string
	for i := 0; i < len(steps); i++ {
		switch s := steps[i]; s.Kind {
		case jobs.Categories:
			all = append(all, string(s.Kind))
		case jobs.Command:
			all = append(all, programItem(s.Program))
		case jobs.Search:
			queries := []string{strconv.Quote(s.Query)}
			for i+1 < len(steps) && steps[i+1].Kind == jobs.Search && steps[i+1].Pages == s.Pages {
				i++
				queries = append(queries, strconv.Quote(steps[i].Query))
			}
			all = append(all, fmt.Sprintf("search: {queries: [%s], pages: %d}", strings.Join(queries, ", "), s.Pages))
		default:
			all = append(all, fmt.Sprintf("%s: {pages: %d}", s.Kind, s.Pages))
		}
	}
	return all
}

// programItem formats a program as an item in one line.
func programItem(p *command.Program) string {
	var args, calls []string
	for _, arg := range p.Args {
		args = append(args, strconv.Quote(arg))
	}
	for _, c := range p.Calls {
		calls = append(calls, fmt.Sprintf("%s: %d", strconv.Quote(c.Method), c.Most))
	}
	item := fmt.Sprintf("{command: [%s], job: %s", strings.Join(args, ", "), strconv.Quote(p.Job))
	if calls != nil {
		item += fmt.Sprintf(", calls: {%s}", strings.Join(calls, ", "))
	}
	return item + fmt.Sprintf(", timeout: %s}", human.Exactly(p.Timeout))
}
