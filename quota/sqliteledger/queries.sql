-- begin
BEGIN IMMEDIATE
-- read
BEGIN
-- commit
COMMIT
-- rollback
ROLLBACK
-- version
PRAGMA data_version

-- log
SELECT g.log, g.horizon, g.newest, e.stamp, e.total, g.epoch
FROM account_logs g LEFT JOIN entries e
  ON e.log = g.log AND e.stamp = (SELECT stamp FROM entries WHERE log = g.log ORDER BY stamp DESC LIMIT 1)
WHERE g.account = ?1 AND g.key = ?2
-- log-insert
INSERT INTO account_logs (account, key, horizon, due, epoch) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING log
-- log-save
UPDATE account_logs SET horizon = ?2, newest = ?3 WHERE log = ?1
-- heard
SELECT heard FROM account_logs WHERE log = ?1
-- heard-set
UPDATE account_logs SET heard = ?2, epoch = ?3 WHERE log = ?1
-- logs
SELECT account, key FROM account_logs
-- logs-touch
UPDATE account_logs SET newest = newest
-- accounts
SELECT DISTINCT account FROM account_logs
-- accounts-cooled
SELECT account FROM account_logs UNION SELECT account FROM cooldowns
-- keys
SELECT key FROM account_logs WHERE account = ?1 AND key > ?2 ORDER BY key LIMIT ?3

-- lists
SELECT s.list, s.coverage, s.since, s.asked, s.before, r.stamp, r.total
FROM lists s LEFT JOIN records r
  ON r.list = s.list AND r.stamp = (SELECT stamp FROM records WHERE list = s.list ORDER BY stamp DESC LIMIT 1)
WHERE s.log = ?1
-- list-insert
INSERT INTO lists (log, coverage, since, asked, before) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (log, coverage) DO UPDATE SET since = excluded.since, asked = excluded.asked, before = excluded.before RETURNING list
-- list-save
UPDATE lists SET since = ?2, asked = ?3, before = ?4 WHERE list = ?1
-- list-drop
DELETE FROM lists WHERE list = ?1
-- list-clear
DELETE FROM records WHERE list = ?1
-- list-fill
INSERT INTO records (list, stamp, total)
SELECT ?1, stamp, SUM(IIF(?3, calls, units)) OVER (ORDER BY stamp)
FROM entries WHERE log = ?2 AND label IN (SELECT value FROM json_each(?4))
ORDER BY stamp
-- list-check
SELECT COUNT(step), IFNULL(SUM(step), 0), IFNULL(SUM(step * (stamp & 1023)), 0)
FROM (SELECT stamp, total - LAG(total) OVER (ORDER BY stamp) AS step FROM records WHERE list = ?1)
-- list-want
SELECT COUNT(*), IFNULL(SUM(IIF(?3, calls, units)), 0), IFNULL(SUM(IIF(?3, calls, units) * (stamp & 1023)), 0) FROM entries
WHERE log = ?2 AND stamp > IFNULL((SELECT MIN(stamp) FROM records WHERE list = ?1), 0) AND label IN (SELECT value FROM json_each(?4))
-- list-newest
SELECT stamp, total FROM records WHERE list = ?1 ORDER BY stamp DESC LIMIT 1
-- list-compute
SELECT stamp, IIF(?3, calls, units) FROM entries
WHERE log = ?1 AND stamp >= ?2 AND label IN (SELECT value FROM json_each(?4))
ORDER BY stamp

-- counters
SELECT counter, coverage, length, start, present, past, asked, newest FROM counters WHERE log = ?1
-- counter-insert
INSERT INTO counters (log, coverage, length, start, present, past, asked, newest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING counter
-- counter-save
UPDATE counters SET start = ?2, present = ?3, past = ?4, asked = ?5, newest = ?6 WHERE counter = ?1
-- counter-drop
DELETE FROM counters WHERE counter = ?1

-- entry-insert
INSERT INTO entries (log, stamp, total, units, calls, label, client, seq, kind) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
-- record-insert
INSERT INTO records (list, stamp, total) VALUES (?, ?, ?)

-- entry-before
SELECT stamp, total FROM entries WHERE log = ?1 AND stamp < ?2 ORDER BY stamp DESC LIMIT 1
-- entry-dropped
SELECT total - units FROM entries WHERE log = ?1 ORDER BY stamp LIMIT 1
-- record-before
SELECT stamp, total FROM records WHERE list = ?1 AND stamp < ?2 ORDER BY stamp DESC LIMIT 1
-- entry-after
SELECT stamp, total FROM entries WHERE log = ?1 AND stamp > ?2 ORDER BY stamp LIMIT ?3
-- record-after
SELECT stamp, total FROM records WHERE list = ?1 AND stamp > ?2 ORDER BY stamp LIMIT ?3
-- entry-trim
DELETE FROM entries WHERE log = ?1 AND stamp IN (SELECT stamp FROM entries WHERE log = ?1 AND stamp < ?2 ORDER BY stamp LIMIT ?3)
-- record-trim
DELETE FROM records WHERE list = ?1 AND stamp IN (SELECT stamp FROM records WHERE list = ?1 AND stamp < ?2 ORDER BY stamp LIMIT ?3)

-- entry
SELECT e.units, e.calls, e.client, e.seq, e.kind, t.method, t.lane, t.job, t.region
FROM entries e CROSS JOIN labels t ON t.label = e.label WHERE e.log = ?1 AND e.stamp = ?2
-- entry-newest
SELECT stamp, client, seq FROM entries
WHERE log = ?1 AND kind <> ?2 AND stamp > (SELECT MAX(stamp) FROM entries WHERE log = ?1) - ?3 ORDER BY stamp DESC LIMIT 1
-- entry-newer
SELECT COUNT(*) FROM (SELECT 1 FROM entries WHERE log = ?1 AND stamp > ?2 LIMIT ?3)
-- entry-settle
UPDATE entries SET units = ?3, calls = ?4, kind = ?5 WHERE log = ?1 AND stamp = ?2
-- entry-shift
UPDATE entries SET total = total + ?3 WHERE log = ?1 AND stamp >= ?2
-- record-shift
UPDATE records SET total = total + ?3 WHERE list = ?1 AND stamp >= ?2
-- entries-ahead
SELECT COUNT(*) FROM entries WHERE log = ?1 AND stamp > ?2
-- entries-aside
UPDATE entries SET stamp = stamp - 0x4000000000000000 WHERE log = ?1 AND stamp > ?2
-- entries-restamp
UPDATE entries SET stamp = ?2 + r.place
FROM (SELECT stamp AS was, ROW_NUMBER() OVER (ORDER BY stamp) AS place FROM entries WHERE log = ?1 AND stamp < 0) r
WHERE log = ?1 AND stamp = r.was
-- entries-broken
SELECT 1 FROM (SELECT log, label, units, total - LAG(total) OVER (PARTITION BY log ORDER BY stamp) AS step FROM entries) e
LEFT JOIN account_logs g ON g.log = e.log
WHERE g.log IS NULL OR e.step <> e.units OR e.label > IFNULL((SELECT MAX(label) FROM labels), 0) LIMIT 1
-- page
SELECT e.stamp, e.client, e.seq, e.units, e.calls, e.kind, t.method, t.lane, t.job, t.region
FROM entries e CROSS JOIN labels t ON t.label = e.label
WHERE e.log = ?1 AND e.stamp >= ?2 AND e.stamp < ?3 ORDER BY e.stamp LIMIT ?4
-- page-newest
SELECT e.stamp, e.client, e.seq, e.units, e.calls, e.kind, t.method, t.lane, t.job, t.region
FROM entries e CROSS JOIN labels t ON t.label = e.label
WHERE e.log = ?1 AND e.stamp >= ?2 AND e.stamp < ?3 ORDER BY e.stamp DESC LIMIT ?4
-- sums-page
SELECT stamp, units, calls, label << 8 | kind FROM entries
WHERE log = ?1 AND stamp >= ?2 AND stamp < ?3 ORDER BY stamp LIMIT ?4
-- sums-next
SELECT since, until FROM sums WHERE log = ?1 AND since >= ?2 ORDER BY since LIMIT 1
-- sums-block
SELECT label, kind, entries, units, calls, first, last FROM sums WHERE log = ?1 AND since = ?2
-- sums-end
SELECT until FROM sums WHERE log = ?1 ORDER BY since DESC LIMIT 1
-- sums-insert
INSERT INTO sums (log, since, until, label, kind, entries, units, calls, first, last)
SELECT ?1, ?2, ?3, label, kind, COUNT(*), SUM(units), SUM(calls), MIN(stamp), MAX(stamp)
FROM entries WHERE log = ?1 AND stamp >= ?2 AND stamp < ?3 GROUP BY label, kind
-- sums-trim
DELETE FROM sums WHERE log = ?1 AND since < IFNULL((SELECT stamp FROM entries WHERE log = ?1 ORDER BY stamp LIMIT 1), 0x7fffffffffffffff)
-- sums-ahead
DELETE FROM sums WHERE log = ?1 AND until > ?2
-- entry-behind
SELECT stamp FROM entries WHERE log = ?1 ORDER BY stamp DESC LIMIT 1 OFFSET ?2
-- entry-beyond
SELECT stamp FROM entries WHERE log = ?1 AND stamp >= ?2 ORDER BY stamp LIMIT 1 OFFSET ?3

-- label
SELECT label, used FROM labels WHERE method = ?1 AND lane = ?2 AND job = ?3 AND region = ?4
-- label-insert
INSERT INTO labels (method, lane, job, region, used) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING label
-- label-touch
UPDATE labels SET used = ?2 WHERE label = ?1
-- label-words
SELECT method, lane, job, region FROM labels WHERE label = ?1
-- labels
SELECT label, method, lane, job, region FROM labels
-- label-sweep
DELETE FROM labels WHERE used < ?1 - 3 * (SELECT MAX(horizon) FROM account_logs)

-- limits
SELECT budget, config, changed, units, until FROM limits WHERE account = ?1 ORDER BY budget, units, until DESC, config
-- limit-set
INSERT INTO limits (account, budget, config, changed, units, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
-- limit-clear
DELETE FROM limits WHERE account = ?1 AND budget = ?2
-- limit-sweep
DELETE FROM limits WHERE account = ?1 AND until <= ?2
-- limits-clear
DELETE FROM limits WHERE account = ?1

-- cooldowns
SELECT budget, until, reason, length FROM cooldowns WHERE account = ?1
-- cooldown-set
INSERT INTO cooldowns (account, budget, until, reason, length) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (account, budget) DO UPDATE SET until = excluded.until, reason = excluded.reason, length = excluded.length
  WHERE excluded.until > iif(length > 0, min(until, ?6 + length), until)
-- cooldown-shorten
UPDATE cooldowns SET until = ?3 WHERE account = ?1 AND budget = ?2
-- cooldown-sweep
DELETE FROM cooldowns WHERE account = ?1 AND until < ?2
-- cooldown-clear
DELETE FROM cooldowns WHERE account = ?1 AND budget = ?2

-- client
SELECT seq, grants FROM clients WHERE log = ?1 AND client = ?2
-- client-set
INSERT INTO clients (log, client, seq, stamp, grants) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (log, client) DO UPDATE SET seq = excluded.seq, stamp = excluded.stamp, grants = excluded.grants
-- client-sweep
DELETE FROM clients WHERE log = ?1 AND stamp < ?2

-- idle
SELECT g.log, g.horizon,
  MAX(g.newest, IFNULL((SELECT stamp FROM entries WHERE log = g.log ORDER BY stamp DESC LIMIT 1), 0), IFNULL((SELECT MAX(newest) FROM counters WHERE log = g.log), 0)),
  IFNULL((SELECT MAX(length) FROM counters WHERE log = g.log), 0), EXISTS (SELECT 1 FROM clients WHERE log = g.log)
FROM account_logs g WHERE g.due < ?1 ORDER BY g.due LIMIT ?2
-- idle-later
UPDATE account_logs SET due = ?2 WHERE log = ?1
-- drop-records
DELETE FROM records WHERE list IN (SELECT list FROM lists WHERE log = ?1)
-- drop-lists
DELETE FROM lists WHERE log = ?1
-- drop-counters
DELETE FROM counters WHERE log = ?1
-- drop-clients
DELETE FROM clients WHERE log = ?1
-- drop-sums
DELETE FROM sums WHERE log = ?1
-- drop-entries
DELETE FROM entries WHERE log = ?1
-- drop-log
DELETE FROM account_logs WHERE log = ?1
