// Package jobs fetches data for regions on schedules, as far as the budgets
// allow. regions.yaml says what is fetched when; Load reads it.
//
// A pass is one region's fetch for one tick of its schedule. It consists of
// steps, and a step of pages. A Runner commits a checkpoint with every page, so
// the next run resumes where the last one stopped.
//
// # For programs
//
// [Load] or [Parse] returns a [Config] with its [Region] values; [Choose]
// selects among them. A [Fetcher] makes a [Runner] from a costs/client.Client,
// a Config, a key and a catalogue. [Runner.Run] returns a [Report], and
// [RetryAt] says when stopped work may go on.
//
// The package does not charge calls itself: the youtube.Client of a Runner that
// is made by hand must use an http.Client whose transport is a quota.Transport.
//
// # For commands
//
// [CheckPrograms], [CheckRegionCode], [FetchesYouTube], [PassClaims] and
// [RegionAdvice] serve command ration: its checks, its advice and its status.
// A program that only fetches can skip them.
package jobs
