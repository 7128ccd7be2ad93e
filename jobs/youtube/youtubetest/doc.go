// Package youtubetest is a local YouTube Data API v3 that answers and meters
// like the real one. It is made for tests of jobs that fetch from YouTube:
// the job talks to it over HTTP, and afterwards the test asks the server
// itself what arrived and what it cost. It needs no network, no key of yours
// and no quota.
//
//	upstream := youtubetest.New(nil)
//	srv := httptest.NewServer(upstream)
//	defer srv.Close()
//	svc, err := youtube.NewService(ctx,
//		option.WithEndpoint(srv.URL+"/"), option.WithAPIKey("any"))
//
// Mount it at the root of a server: the paths are those of the real API
// (/youtube/v3/videos and so on). It imports the standard library only.
//
// New(nil) has the costs of [Legacy], while the command ration fake has those
// of [Since2026]. A test of a program whose costs.yaml has the preset
// youtube/2026-06 serves New(&Options{Model: Since2026}).
//
// A costs/client does not charge requests to the server unless its table guards
// it: pass client.New what Table.WithEndpoint of package costs returns.
//
// # What it answers
//
// videos.list (chart=mostPopular or id), search.list, channels.list (id),
// videoCategories.list and i18nRegions.list, as the Go client and others decode
// them: page tokens are the real ones (CDIQAA is 50), part and id may be
// repeated or joined by commas, only the parts asked for come back, numbers in
// statistics are strings, hidden likes and comments and missing tags are
// absent, titles are HTML-escaped by search.list and by nothing else, a search
// ends near 500 results though it claims up to 1,000,000, channels come in no
// order to count on, five unless maxResults says more. Every body has an etag
// that depends on nothing but its content; the same etag in If-None-Match is
// answered 304.
//
// Any other path is a 404 and costs nothing. Not served: OAuth and what needs
// it, writes and uploads, the fields and hl parameters (a fuller answer comes),
// compression, and per-minute limits, which a [Fault] can play.
//
// # What it meters
//
// Costs and limits follow one of two models; see [Model]. The rules, from
// Google's quota page (determine_quota_cost, read 2026-11-20) and public
// reports:
//
//   - Each page is a call of its own and costs again. A 304 costs what the full
//     answer would (what YouTube charges is not documented; see
//     [Options.NotModifiedFree]).
//   - An invalid request that names a project costs 1 unit of its bucket, an
//     invalid search too ("at least one point" is all that Google's page says).
//   - A call without a key (403) or with a wrong one (400, API_KEY_INVALID) costs
//     nothing: it names no project. All keys belong to one project.
//   - A call is checked first and charged afterwards: it is admitted while
//     anything is left, and may overshoot the limit. [Options.Exact] turns that off.
//   - A call refused for quota is on record and costs nothing. The default bucket
//     answers 403 quotaExceeded; a bucket of a method's own answers 429 with
//     ErrorInfo. Neither has a Retry-After.
//   - A day begins at midnight in Los Angeles and has 23, 24 or 25 hours.
//     [Options.Window] gives shorter windows.
//   - A client that goes away, or an answer that is lost, is charged all the same.
//
// Where no recorded answer is known (a part left out, a 51st id) the shape of
// the error body follows the documented ones and its words are ours.
//
// # What a test can rely on
//
// [Server.Arrivals] is the append-only record of every request that reached the
// server, refused and broken ones included, and is what a client's own count is
// compared with: [Server.Total], [Server.Sum] by region or by anything else,
// and [Server.Used] for what the upstream itself believes. [Server.Fail] breaks
// answers in many ways, [Server.SpendElsewhere] spends as another tool on the
// same project would, and [Options.Now] injects a clock.
//
// [DefaultData] is made by the package and is the same on every machine and
// every day; [LoadFile] reads recorded charts instead.
package youtubetest
