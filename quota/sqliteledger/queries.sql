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
SELECT g.log, g.horizon, e.stamp, e.total
FROM logs g LEFT JOIN entries e
  ON e.log = g.log AND e.stamp = (SELECT stamp FROM entries WHERE log = g.log ORDER BY stamp DESC LIMIT 1)
WHERE g.account = ?1 AND g.key = ?2
-- log-insert
INSERT INTO logs (account, key, horizon, due) VALUES (?1, ?2, ?3, ?4) RETURNING log
-- log-horizon
UPDATE logs SET horizon = ?2 WHERE log = ?1

-- lists
SELECT s.list, s.coverage, s.horizon, r.stamp, r.total
FROM lists s LEFT JOIN records r
  ON r.list = s.list AND r.stamp = (SELECT stamp FROM records WHERE list = s.list ORDER BY stamp DESC LIMIT 1)
WHERE s.log = ?1
-- list-insert
INSERT INTO lists (log, coverage, horizon) VALUES (?1, ?2, ?3)
ON CONFLICT (log, coverage) DO UPDATE SET horizon = excluded.horizon RETURNING list
-- list-clear
DELETE FROM records WHERE list = ?1
-- list-fill
INSERT INTO records (list, stamp, total)
SELECT ?1, stamp, SUM(IIF(?3, calls, units)) OVER (ORDER BY stamp)
FROM entries WHERE log = ?2 AND label IN (SELECT value FROM json_each(?4))
ORDER BY stamp
-- list-newest
SELECT stamp, total FROM records WHERE list = ?1 ORDER BY stamp DESC LIMIT 1
-- list-compute
SELECT stamp, IIF(?3, calls, units) FROM entries
WHERE log = ?1 AND stamp >= ?2 AND label IN (SELECT value FROM json_each(?4))
ORDER BY stamp

-- entry-insert
INSERT INTO entries (log, stamp, total, units, calls, label, client, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
-- record-insert
INSERT INTO records (list, stamp, total) VALUES (?, ?, ?)

-- entry-before
SELECT stamp, total FROM entries WHERE log = ?1 AND stamp < ?2 ORDER BY stamp DESC LIMIT 1
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
SELECT e.units, e.calls, e.client, e.seq, e.label, t.method, t.lane, t.job, t.region
FROM entries e LEFT JOIN labels t ON t.label = e.label WHERE e.log = ?1 AND e.stamp = ?2
-- entry-newer
SELECT COUNT(*) FROM (SELECT 1 FROM entries WHERE log = ?1 AND stamp > ?2 LIMIT ?3)
-- entry-settle
UPDATE entries SET units = ?3, calls = ?4 WHERE log = ?1 AND stamp = ?2
-- entry-shift
UPDATE entries SET total = total + ?3 WHERE log = ?1 AND stamp >= ?2
-- record-shift
UPDATE records SET total = total + ?3 WHERE list = ?1 AND stamp >= ?2
-- page
SELECT e.stamp, e.client, e.seq, e.units, e.calls, t.method, t.lane, t.job, t.region
FROM entries e LEFT JOIN labels t ON t.label = e.label
WHERE e.log = ?1 AND e.stamp >= ?2 AND e.stamp < ?3 ORDER BY e.stamp LIMIT ?4

-- label
SELECT label, used FROM labels WHERE method = ?1 AND lane = ?2 AND job = ?3 AND region = ?4
-- label-insert
INSERT INTO labels (method, lane, job, region, used) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING label
-- label-touch
UPDATE labels SET used = ?2 WHERE label = ?1
-- labels
SELECT label, method, lane, job, region FROM labels
-- label-sweep
DELETE FROM labels WHERE used < ?1 - 3 * (SELECT MAX(horizon) FROM logs)

-- cooldowns
SELECT budget, until, reason FROM cooldowns WHERE account = ?1
-- cooldown-set
INSERT INTO cooldowns (account, budget, until, reason) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (account, budget) DO UPDATE SET until = excluded.until, reason = excluded.reason WHERE excluded.until > until
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
DELETE FROM clients WHERE log = ?1 AND client IN (SELECT client FROM clients WHERE log = ?1 ORDER BY stamp DESC LIMIT -1 OFFSET ?2)

-- idle
SELECT g.log, g.horizon, (SELECT stamp FROM entries WHERE log = g.log ORDER BY stamp DESC LIMIT 1)
FROM logs g WHERE g.due < ?1 ORDER BY g.due LIMIT ?2
-- idle-later
UPDATE logs SET due = ?2 WHERE log = ?1
-- drop-records
DELETE FROM records WHERE list IN (SELECT list FROM lists WHERE log = ?1)
-- drop-lists
DELETE FROM lists WHERE log = ?1
-- drop-clients
DELETE FROM clients WHERE log = ?1
-- drop-entries
DELETE FROM entries WHERE log = ?1
-- drop-log
DELETE FROM logs WHERE log = ?1
