package jobs

import "github.com/ration-dev/ration/internal/command"

// StepKind is a kind of step, named as in regions.yaml.
type StepKind string

// The kinds of step.
const (
	Trending   StepKind = "trending"   // the region's chart, 50 videos a page
	Search     StepKind = "search"     // the results of a query, 50 videos a page
	Channels   StepKind = "channels"   // channels that the catalogue lacks, 50 a page
	Categories StepKind = "categories" // the region's video categories, one page
	Command    StepKind = "command"    // a run of the user's own program, as one page
)

var kinds = []string{string(Trending), string(Search), string(Channels), string(Categories), string(Command)}

// Step is one part of a pass. It is fetched page by page.
type Step struct {
	Kind  StepKind
	Pages int    // the most pages that a pass fetches
	Query string // the query of a Search

	Program *command.Program // of a Command
}

// Name returns the step's name in checkpoints and as a caller's job, such as
// trending, search:music or the job of a program.
func (s Step) Name() string {
	switch s.Kind {
	case Search:
		return string(s.Kind) + ":" + s.Query
	case Command:
		return s.Program.Job
	}
	return string(s.Kind)
}

// Calls returns the most calls that one page makes of each method, those of its
// first call first. They are none for a program without calls in regions.yaml.
func (s Step) Calls() []command.Calls {
	if s.Kind == Command {
		return s.Program.Calls
	}
	return []command.Calls{{Method: s.Method(), Most: 1}}
}

// Method returns the method of a YouTube step's calls, such as videos.list.
func (s Step) Method() string {
	switch s.Kind {
	case Trending:
		return "videos.list"
	case Search:
		return "search.list"
	case Channels:
		return "channels.list"
	}
	return "videoCategories.list"
}

// family names the steps that probably fail together: those that call the same
// method, or run the same job.
func (s Step) family() string {
	if s.Kind == Command {
		return s.Program.Job
	}
	return s.Method()
}
