package jobs

// Kind is a kind of step, named as in regions.yaml.
type Kind string

// The kinds of step.
const (
	Trending   Kind = "trending"   // the region's chart, 50 videos a page
	Search     Kind = "search"     // the results of a query, 50 videos a page
	Channels   Kind = "channels"   // channels that the catalogue lacks, 50 a page
	Categories Kind = "categories" // the region's video categories, one page
)

var kinds = []string{string(Trending), string(Search), string(Channels), string(Categories)}

// Step is one part of a pass. It is fetched page by page.
type Step struct {
	Kind  Kind
	Pages int    // the most pages that a pass fetches
	Query string // the query of a Search
}

// Name returns the step's name in checkpoints and as a caller's job, such as
// trending or search:music.
func (s Step) Name() string {
	if s.Kind == Search {
		return string(s.Kind) + ":" + s.Query
	}
	return string(s.Kind)
}

// Method returns the method of the step's calls, such as videos.list.
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
