-- catalog.go prepares every query under its name.

-- A search snippet (complete = 0) has a truncated description and no tags or
-- statistics. Of a complete row it updates only the fields that it has in full,
-- and it does not count as a refresh.
-- name: put_video
INSERT INTO videos (id, title, description, channel_id, channel_title, category_id, published_at, tags, views, likes, comments, complete, fetched_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (id) DO UPDATE SET
  title         = excluded.title,
  channel_id    = excluded.channel_id,
  channel_title = excluded.channel_title,
  published_at  = coalesce(excluded.published_at, published_at),
  description   = iif(excluded.complete >= complete, excluded.description, description),
  category_id   = iif(excluded.complete >= complete, excluded.category_id, category_id),
  tags          = iif(excluded.complete >= complete, excluded.tags, tags),
  views         = iif(excluded.complete >= complete, excluded.views, views),
  likes         = iif(excluded.complete >= complete, excluded.likes, likes),
  comments      = iif(excluded.complete >= complete, excluded.comments, comments),
  fetched_at    = iif(excluded.complete >= complete, excluded.fetched_at, fetched_at),
  complete      = max(excluded.complete, complete)
RETURNING n;

-- name: put_sighting
INSERT INTO sightings (video, region, seen_at) VALUES (?1, ?2, ?3)
ON CONFLICT (video, region) DO UPDATE SET seen_at = excluded.seen_at;

-- name: put_position
INSERT INTO positions (region, chart, tick, rank, video, fetched_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (region, chart, tick, rank) DO UPDATE SET video = excluded.video, fetched_at = excluded.fetched_at;

-- A chart fetched again may be shorter than it was.
-- name: cut_chart
DELETE FROM positions WHERE region = ?1 AND chart = ?2 AND tick = ?3 AND rank > ?4;

-- name: put_channel
INSERT INTO channels (id, title, subscribers, views, videos, missing, fetched_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE SET title = excluded.title, subscribers = excluded.subscribers, views = excluded.views,
  videos = excluded.videos, missing = excluded.missing, fetched_at = excluded.fetched_at;

-- name: put_category
INSERT INTO categories (region, id, title, fetched_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (region, id) DO UPDATE SET title = excluded.title, fetched_at = excluded.fetched_at;

-- name: put_pass
INSERT INTO passes (region, tick, started_at, fetched_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (region, tick) DO UPDATE SET fetched_at = excluded.fetched_at;

-- name: drop_older_checkpoints
DELETE FROM checkpoints WHERE region = ?1 AND tick < ?2;

-- name: drop_checkpoints
DELETE FROM checkpoints WHERE region = ?1 AND tick = ?2;

-- name: checkpoint_pages
SELECT pages FROM checkpoints WHERE region = ?1 AND tick = ?2 AND step = ?3;

-- name: put_checkpoint
INSERT INTO checkpoints (region, tick, step, next, pages, videos, done, fetched_at) VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7)
ON CONFLICT (region, tick, step) DO UPDATE SET next = excluded.next, pages = pages + 1,
  videos = videos + excluded.videos, done = excluded.done, fetched_at = excluded.fetched_at;

-- name: advance_checkpoint
INSERT INTO checkpoints (region, tick, step, next, pages, videos, done, fetched_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (region, tick, step) DO UPDATE SET next = excluded.next, pages = excluded.pages,
  videos = excluded.videos, done = excluded.done, fetched_at = excluded.fetched_at
WHERE excluded.pages > pages OR excluded.pages = pages AND excluded.done > done;

-- name: put_page
INSERT INTO pages (region, step, number, token, content, fetched_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (region, step, number) DO UPDATE SET token = excluded.token, content = excluded.content, fetched_at = excluded.fetched_at;

-- name: known_page
SELECT content FROM pages WHERE region = ?1 AND step = ?2 AND token = ?3 ORDER BY fetched_at DESC LIMIT 1;

-- name: failures
SELECT failures, until, reason FROM failures WHERE region = ?1 AND name = ?2;

-- name: all_failures
SELECT region, name, failures, until, reason FROM failures ORDER BY region, name;

-- name: put_failures
INSERT INTO failures (region, name, failures, until, reason) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (region, name) DO UPDATE SET failures = excluded.failures, until = excluded.until, reason = excluded.reason;

-- name: drop_failures
DELETE FROM failures WHERE region = ?1 AND name = ?2;

-- name: finish_pass
INSERT INTO passes (region, tick, started_at, fetched_at, finished_at) VALUES (?1, ?2, ?3, ?3, ?3)
ON CONFLICT (region, tick) DO UPDATE SET finished_at = excluded.finished_at;

-- name: reopen_pass
UPDATE passes SET finished_at = NULL WHERE region = ?1 AND tick = ?2;

-- name: pass
SELECT finished_at FROM passes WHERE region = ?1 AND tick = ?2;

-- name: checkpoints
SELECT step, next, pages, videos, done FROM checkpoints WHERE region = ?1 AND tick = ?2;

-- name: regions
SELECT region, max(tick), max(fetched_at), max(finished_at) FROM passes GROUP BY region;

-- Newest videos first: those that this pass has just met.
-- name: free_channels
SELECT v.channel_id FROM videos v
WHERE v.channel_id <> ''
  AND NOT EXISTS (SELECT 1 FROM channels c WHERE c.id = v.channel_id AND c.fetched_at >= ?2)
  AND NOT EXISTS (SELECT 1 FROM claims k WHERE k.channel = v.channel_id AND k.region <> ?1)
  AND EXISTS (SELECT 1 FROM sightings s WHERE s.video = v.n AND s.region = ?1)
GROUP BY v.channel_id ORDER BY max(v.n) DESC LIMIT ?3;

-- name: put_claim
INSERT INTO claims (channel, region, until) VALUES (?1, ?2, ?3)
ON CONFLICT (channel) DO UPDATE SET until = excluded.until;

-- name: renew_claims
UPDATE claims SET until = ?2 WHERE region = ?1;

-- name: release_claim
DELETE FROM claims WHERE channel = ?1;

-- name: release_claims
DELETE FROM claims WHERE region = ?1;

-- name: drop_lapsed_claims
DELETE FROM claims WHERE until <= ?1 OR until > ?2;

-- FTS5 returns its matches from the newest row down without sorting, so the inner
-- LIMIT bounds how many bm25 ranks. CROSS JOIN keeps FTS5 in the outer loop.
-- Descriptions are read for the best matches only.
-- name: search
WITH found AS MATERIALIZED (
  SELECT v.n AS n, v.id AS id, v.published_at AS published_at, bm25(videos_fts, 10.0, 1.0, 4.0, 3.0) AS score
  FROM videos_fts CROSS JOIN videos v ON v.n = videos_fts.rowid
  WHERE videos_fts MATCH ?1
    AND (?2 = '' OR EXISTS (SELECT 1 FROM sightings s WHERE s.video = v.n AND s.region = ?2))
    AND (?3 IS NULL OR v.published_at >= ?3)
  ORDER BY videos_fts.rowid DESC LIMIT ?4
), best AS MATERIALIZED (
  SELECT n, score FROM found ORDER BY score, published_at DESC, id LIMIT ?5
)
SELECT v.n, v.id, v.title, v.description, v.channel_id, v.channel_title, v.category_id, v.published_at, v.tags,
  v.views, v.likes, v.comments, v.fetched_at,
  coalesce((SELECT c.title FROM categories c WHERE c.id = v.category_id ORDER BY c.region <> ?2, c.region LIMIT 1), '')
FROM best CROSS JOIN videos v ON v.n = best.n
ORDER BY best.score, v.published_at DESC, v.id;

-- A video that moved while its chart was being fetched has two ranks at one tick;
-- the last row of a region is the better one.
-- name: charts
SELECT region, rank, fetched_at FROM positions WHERE video = ?1 ORDER BY region, tick, rank DESC;

-- name: prune_positions
DELETE FROM positions WHERE (region, chart, tick, rank) IN
  (SELECT region, chart, tick, rank FROM positions WHERE fetched_at < ?1 LIMIT ?2);

-- name: prune_sightings
DELETE FROM sightings WHERE (video, region) IN (SELECT video, region FROM sightings WHERE seen_at < ?1 LIMIT ?2);

-- name: prune_videos
DELETE FROM videos WHERE n IN (SELECT n FROM videos WHERE fetched_at < ?1 LIMIT ?2);

-- name: prune_channels
DELETE FROM channels WHERE id IN (SELECT id FROM channels WHERE fetched_at < ?1 LIMIT ?2);

-- name: prune_categories
DELETE FROM categories WHERE (region, id) IN (SELECT region, id FROM categories WHERE fetched_at < ?1 LIMIT ?2);

-- name: prune_pages
DELETE FROM pages WHERE (region, step, number) IN (SELECT region, step, number FROM pages WHERE fetched_at < ?1 LIMIT ?2);

-- name: prune_failures
DELETE FROM failures WHERE (region, name) IN (SELECT region, name FROM failures WHERE until < ?1 LIMIT ?2);

-- The newest pass of a region stays, however old: it may be finished, and the
-- next tick distant. Checkpoints are deleted when a newer tick begins.
-- name: recent_passes
SELECT region, tick, started_at, fetched_at, finished_at FROM passes ORDER BY started_at DESC, region LIMIT ?1;

-- name: prune_passes
DELETE FROM passes WHERE (region, tick) IN
  (SELECT p.region, p.tick FROM passes p WHERE p.fetched_at < ?1
     AND EXISTS (SELECT 1 FROM passes newer WHERE newer.region = p.region AND newer.tick > p.tick) LIMIT ?2);

-- One row for each day and name; ?7 says what the name is.
-- name: history
WITH spent AS (
  SELECT account, budget, day, method, region, job, lane, units, calls, 0 AS refusals FROM day_sums
  UNION ALL
  SELECT account, budget, day, method, region, job, lane, 0, 0, refusals FROM day_refusals
)
SELECT s.account, s.budget, s.day, d.date,
  CASE ?7 WHEN 'method' THEN s.method WHEN 'region' THEN s.region WHEN 'job' THEN s.job WHEN 'lane' THEN s.lane ELSE '' END AS name,
  sum(s.units), sum(s.calls), sum(s.refusals), d.peak
FROM spent s JOIN days d ON d.account = s.account AND d.budget = s.budget AND d.day = s.day
WHERE (?1 = '' OR s.account = ?1) AND (?2 IS NULL OR s.budget = ?2) AND s.day >= ?3 AND s.day < ?4
  AND (?5 = '' OR s.method = ?5) AND (?6 = '' OR s.region = ?6) AND (?8 = '' OR s.job = ?8) AND (?9 = '' OR s.lane = ?9)
GROUP BY s.account, s.budget, s.day, name
HAVING sum(s.units) <> 0 OR sum(s.calls) <> 0 OR sum(s.refusals) <> 0
ORDER BY s.day, s.account, s.budget, name;

-- name: fill
SELECT version, live, until, width, whole,
  coalesce((SELECT min(slice) FROM day_sums WHERE account = ?1 AND budget = ?2 AND slice <> 0), 0)
FROM day_fills WHERE account = ?1 AND budget = ?2;

-- name: fill_version
SELECT version FROM day_fills WHERE account = ?1 AND budget = ?2;

-- name: put_fill
INSERT INTO day_fills (account, budget, version, live, until, width, whole) VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6)
ON CONFLICT (account, budget) DO UPDATE SET version = version + 1, live = excluded.live,
  until = excluded.until, width = excluded.width, whole = excluded.whole;

-- The primary key is read from the day of the first slice on: by the index of
-- slices, each row would be looked up in it. A day has less than 48 hours.
-- name: live_sums
SELECT day, slice, method, region, job, lane, units, calls FROM day_sums
WHERE account = ?1 AND budget = ?2 AND +slice >= ?3 AND slice <> 0
  AND day > max(?3, (SELECT coalesce(min(slice), 0) FROM day_sums WHERE account = ?1 AND budget = ?2 AND slice <> 0)) - 172800000;

-- name: drop_sum
DELETE FROM day_sums WHERE account = ?1 AND budget = ?2 AND day = ?3 AND slice = ?4 AND method = ?5 AND region = ?6 AND job = ?7 AND lane = ?8;

-- name: fold_sums
INSERT INTO day_sums (account, budget, day, slice, method, region, job, lane, units, calls)
SELECT account, budget, day, 0, method, region, job, lane, sum(units), sum(calls) FROM day_sums
WHERE account = ?1 AND budget = ?2 AND slice <> 0 AND slice < ?3 GROUP BY day, method, region, job, lane
ON CONFLICT DO UPDATE SET units = units + excluded.units, calls = calls + excluded.calls;

-- name: drop_folded_sums
DELETE FROM day_sums WHERE account = ?1 AND budget = ?2 AND slice <> 0 AND slice < ?3;

-- name: put_day
INSERT INTO days (account, budget, day, date, peak) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET date = excluded.date, peak = max(peak, excluded.peak);

-- name: add_refusals
INSERT INTO day_refusals (account, budget, day, method, region, job, lane, refusals) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO UPDATE SET refusals = refusals + excluded.refusals;

-- name: file_read
SELECT bytes FROM day_files WHERE file = ?1;

-- name: put_file_read
INSERT INTO day_files (file, bytes, seen) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET bytes = excluded.bytes, seen = excluded.seen;

-- name: prune_day_sums
DELETE FROM day_sums WHERE day < ?1;

-- name: prune_day_refusals
DELETE FROM day_refusals WHERE day < ?1;

-- name: prune_days
DELETE FROM days WHERE day < ?1;

-- name: prune_day_files
DELETE FROM day_files WHERE seen < ?1;
