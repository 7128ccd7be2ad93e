// Package jobs fetches data for regions on schedules, as far as the budgets
// allow. regions.yaml says what is fetched when; Load reads it.
//
// A pass is one region's fetch for one tick of its schedule. It consists of
// steps, and a step of pages. A Runner commits a checkpoint with every page, so
// the next run resumes where the last one stopped.
//
// A Fetcher makes Runners from a costs/client.Client, a regions.yaml, a key and
// a catalogue. The package does not charge calls itself: the youtube.Client of a
// Runner that is made by hand must use an http.Client whose transport is a
// quota.Transport.
package jobs
