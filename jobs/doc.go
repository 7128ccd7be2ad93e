// Package jobs says what is fetched, when, and for whom. A pass is one
// region's fetch for one tick of its schedule; it is made of steps, and a step
// of pages. A Runner takes each region as far as the budgets allow and leaves
// a checkpoint behind every page, so that the next run goes on where it stopped.
//
// Calls are charged outside this package: the http.Client that the fetcher
// uses has a quota.Transport in it.
package jobs
