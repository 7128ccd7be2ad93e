-- The tables and functions of a ledger. {schema} is replaced by the name of a
-- schema. All of it is one transaction, and one process at a time runs it.
SELECT pg_advisory_xact_lock(7021792315);

DO $create$ BEGIN
  IF to_regnamespace('{schema}') IS NULL THEN
    CREATE SCHEMA {schema};
  END IF;
END $create$;

CREATE TABLE IF NOT EXISTS {schema}.heads (
  log      bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account  bytea    NOT NULL UNIQUE,
  epoch    bigint   NOT NULL,
  position bigint   NOT NULL, -- the newest
  trimmed  bigint   NOT NULL, -- the newest position that was dropped
  newest   bigint   NOT NULL, -- the newest timestamp, in microseconds since 1970
  gen      bigint   NOT NULL,
  totals   bigint[] NOT NULL, -- up to the last one that an append has added to
  tag      bytea    NOT NULL  -- of the newest batch
) WITH (fillfactor = 50); -- an update finds room on its page

CREATE TABLE IF NOT EXISTS {schema}.batches (
  log      bigint NOT NULL,
  position bigint NOT NULL,
  at       bigint NOT NULL, -- the timestamp of its first record
  data     bytea  NOT NULL,
  PRIMARY KEY (log, position)
);

-- page_1 returns the batches after a position: at least one, then as many as
-- fit into p_bytes.
CREATE OR REPLACE FUNCTION {schema}.page_1(
  p_log bigint, p_after bigint, p_bytes bigint,
  OUT positions bigint[], OUT ats bigint[], OUT datas bytea[], OUT more boolean
) LANGUAGE plpgsql STABLE AS $body$
DECLARE
  b    record;
  size bigint := 0;
BEGIN
  positions := '{}'; ats := '{}'; datas := '{}'; more := false;
  FOR b IN SELECT t.position, t.at, t.data FROM {schema}.batches t
           WHERE t.log = p_log AND t.position > p_after ORDER BY t.position LOOP
    size := size + length(b.data);
    IF size > p_bytes AND size > length(b.data) THEN
      more := true;
      EXIT;
    END IF;
    positions := array_append(positions, b.position);
    ats := array_append(ats, b.at);
    datas := array_append(datas, b.data);
  END LOOP;
END $body$;

-- tail_1 reports whether a log has diverged from what a caller knows, and else
-- returns a page of the batches that the caller has not received.
CREATE OR REPLACE FUNCTION {schema}.tail_1(
  h {schema}.heads, p_epoch bigint, p_after bigint, p_tag bytea, p_bytes bigint,
  OUT diverged boolean, OUT positions bigint[], OUT ats bigint[], OUT datas bytea[], OUT more boolean
) LANGUAGE plpgsql STABLE AS $body$
DECLARE
  after bigint := CASE WHEN p_epoch = 0 THEN 0 ELSE p_after END;
BEGIN
  positions := '{}'; ats := '{}'; datas := '{}'; more := false;
  diverged := p_epoch <> 0 AND (p_epoch <> h.epoch OR p_after > h.position);
  IF p_epoch <> 0 AND NOT diverged AND after > h.trimmed THEN
    diverged := p_tag IS DISTINCT FROM (SELECT substring(t.data FOR 10) FROM {schema}.batches t
                                        WHERE t.log = h.log AND t.position = after);
  END IF;
  IF NOT diverged AND after < h.position THEN
    SELECT p.positions, p.ats, p.datas, p.more INTO positions, ats, datas, more
    FROM {schema}.page_1(h.log, greatest(after, h.trimmed), p_bytes) p;
  END IF;
END $body$;

-- read_1 is Read. It is stable, so that all of it sees one snapshot. The answer
-- is whether it was appended, and at; whether it has diverged; epoch, position,
-- trimmed, newest, generation; the clock; whether there is more; then totals.
CREATE OR REPLACE FUNCTION {schema}.read_1(
  p_account bytea, p_epoch bigint, p_after bigint, p_tag bytea, p_bytes bigint, p_now bigint,
  OUT answer bigint[], OUT positions bigint[], OUT ats bigint[], OUT datas bytea[]
) LANGUAGE plpgsql STABLE AS $body$
DECLARE
  h        {schema}.heads%ROWTYPE;
  clock    bigint := coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  diverged boolean;
  more     boolean;
BEGIN
  SELECT * INTO h FROM {schema}.heads t WHERE t.account = p_account;
  IF NOT FOUND THEN
    h := (0, p_account, 0, 0, 0, 0, 0, '{}', '');
  END IF;
  SELECT t.diverged, t.positions, t.ats, t.datas, t.more INTO diverged, positions, ats, datas, more
  FROM {schema}.tail_1(h, p_epoch, p_after, p_tag, p_bytes) t;
  answer := ARRAY[0, 0, diverged::int, h.epoch, h.position, h.trimmed, h.newest, h.gen, clock, more::int] || h.totals;
END $body$;

-- holds_1 reports whether all conditions hold. Each is the number of its totals,
-- these, the number of its steps, and from and most of each.
CREATE OR REPLACE FUNCTION {schema}.holds_1(c bigint[], totals bigint[], clock bigint)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $body$
DECLARE
  i    int := 1;
  n    int;
  sum  bigint;
  most bigint;
BEGIN
  WHILE i <= cardinality(c) LOOP
    n := c[i];
    sum := 0;
    FOR j IN i + 1 .. i + n LOOP
      sum := sum + coalesce(totals[c[j] + 1], 0);
    END LOOP;
    i := i + n + 1;
    n := c[i];
    most := c[i + 2];
    FOR j IN 1 .. n - 1 LOOP
      EXIT WHEN c[i + 2 * j + 1] > clock;
      most := c[i + 2 * j + 2];
    END LOOP;
    IF sum > most THEN
      RETURN false;
    END IF;
    i := i + 2 * n + 1;
  END LOOP;
  RETURN true;
END $body$;

-- append_1 is Append. The answer is as that of read_1.
CREATE OR REPLACE FUNCTION {schema}.append_1(
  p_account bytea, p_epoch bigint, p_after bigint, p_tag bytea, p_bytes bigint, p_now bigint,
  p_new_epoch bigint, p_any boolean, p_gen bigint, p_conditions bigint[], p_not_before bigint, p_not_after bigint,
  p_data bytea, p_count bigint, p_indexes bigint[], p_amounts bigint[], p_bump boolean, p_trim bigint,
  OUT answer bigint[], OUT positions bigint[], OUT ats bigint[], OUT datas bytea[]
) LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
  h        {schema}.heads%ROWTYPE;
  clock    bigint;
  stamp    bigint := 0;
  diverged boolean := false;
  more     boolean := false;
  n        int;
  upto     bigint;
BEGIN
  -- The answer is not sent before the commit is on the disk, whatever the server's default is.
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  SELECT * INTO h FROM {schema}.heads t WHERE t.account = p_account FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    PERFORM set_config('lock_timeout', '5s', true);
    SELECT * INTO h FROM {schema}.heads t WHERE t.account = p_account FOR UPDATE;
    IF NOT FOUND THEN
      h := (0, p_account, 0, 0, 0, 0, 0, '{}', '');
    END IF;
  END IF;
  clock := coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  IF p_epoch = h.epoch AND p_after = h.position AND p_tag = h.tag THEN
    positions := '{}'; ats := '{}'; datas := '{}'; -- the caller has received all
  ELSE
    SELECT t.diverged, t.positions, t.ats, t.datas, t.more INTO diverged, positions, ats, datas, more
    FROM {schema}.tail_1(h, p_epoch, p_after, p_tag, p_bytes) t;
  END IF;
  IF diverged OR p_epoch <> h.epoch
    OR p_not_before <> 0 AND clock < p_not_before OR p_not_after <> 0 AND clock > p_not_after
    OR NOT p_any AND (p_gen <> h.gen OR NOT {schema}.holds_1(p_conditions, h.totals, clock)) THEN
    answer := ARRAY[0, 0, diverged::int, h.epoch, h.position, h.trimmed, h.newest, h.gen, clock, more::int] || h.totals;
    RETURN;
  END IF;
  IF h.epoch = 0 THEN
    INSERT INTO {schema}.heads AS t (account, epoch, position, trimmed, newest, gen, totals, tag)
    VALUES (p_account, p_new_epoch, 0, 0, 0, 0, '{}', '') ON CONFLICT DO NOTHING RETURNING t.log INTO h.log;
    IF h.log IS NULL THEN -- another process has just created it
      SELECT r.answer, r.positions, r.ats, r.datas INTO answer, positions, ats, datas
      FROM {schema}.read_1(p_account, p_epoch, p_after, p_tag, p_bytes, p_now) r;
      RETURN;
    END IF;
    h.epoch := p_new_epoch;
  END IF;
  stamp := greatest(clock, h.newest + 1);
  FOR i IN 1 .. cardinality(p_indexes) LOOP
    n := p_indexes[i] + 1;
    IF cardinality(h.totals) < n THEN
      h.totals := h.totals || array_fill(0::bigint, ARRAY[n - cardinality(h.totals)]);
    END IF;
    h.totals[n] := h.totals[n] + p_amounts[i];
  END LOOP;
  h.position := h.position + 1;
  h.newest := stamp + p_count - 1;
  h.gen := h.gen + p_bump::int;
  upto := greatest(h.trimmed, least(p_trim, h.position));
  UPDATE {schema}.heads t SET position = h.position, trimmed = upto, newest = h.newest, gen = h.gen, totals = h.totals,
    tag = substring(p_data FOR 10) WHERE t.log = h.log;
  INSERT INTO {schema}.batches (log, position, at, data) VALUES (h.log, h.position, stamp, p_data);
  IF upto > h.trimmed THEN
    DELETE FROM {schema}.batches t WHERE t.log = h.log AND t.position > h.trimmed AND t.position <= upto;
    h.trimmed := upto;
  END IF;
  answer := ARRAY[1, stamp, 0, h.epoch, h.position, h.trimmed, h.newest, h.gen, clock, more::int] || h.totals;
END $body$;
