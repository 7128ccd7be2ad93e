-- What version 5 adds: the history, daily sums that outlive a ledger's log.

-- What was spent. The sums of the part of a day that the log still holds are kept
-- by slices, which are replaced by what the log says; those of the rest of the day
-- are in slice 0.
CREATE TABLE day_sums (
  account TEXT    NOT NULL,
  budget  TEXT    NOT NULL,                -- "" for the whole account
  day     INTEGER NOT NULL,                -- when it begins
  slice   INTEGER NOT NULL,                -- when it begins
  method  TEXT    NOT NULL,
  region  TEXT    NOT NULL,
  job     TEXT    NOT NULL,
  lane    TEXT    NOT NULL,
  units   INTEGER NOT NULL,
  calls   INTEGER NOT NULL,
  PRIMARY KEY (account, budget, day, slice, method, region, job, lane)
) WITHOUT ROWID;
CREATE INDEX day_sums_by_slice ON day_sums (account, budget, slice) WHERE slice <> 0;
CREATE INDEX day_sums_by_day ON day_sums (day);

CREATE TABLE day_refusals (
  account  TEXT    NOT NULL,
  budget   TEXT    NOT NULL,               -- "" for the whole account
  day      INTEGER NOT NULL,
  method   TEXT    NOT NULL,
  region   TEXT    NOT NULL,
  job      TEXT    NOT NULL,
  lane     TEXT    NOT NULL,
  refusals INTEGER NOT NULL,
  PRIMARY KEY (account, budget, day, method, region, job, lane)
) WITHOUT ROWID;
CREATE INDEX day_refusals_by_day ON day_refusals (day);

CREATE TABLE days (
  account TEXT    NOT NULL,
  budget  TEXT    NOT NULL,
  day     INTEGER NOT NULL,
  date    TEXT    NOT NULL,                -- of day in its zone: 2026-11-20
  peak    INTEGER NOT NULL,                -- the most that the window held
  PRIMARY KEY (account, budget, day)
) WITHOUT ROWID;

-- How far the log was read. Instants are microseconds here, as in a ledger.
CREATE TABLE day_fills (
  account TEXT    NOT NULL,
  budget  TEXT    NOT NULL,
  version INTEGER NOT NULL,                -- how often this row was written
  live    INTEGER NOT NULL,                -- slices hold what the log says since then
  until   INTEGER NOT NULL,                -- every entry before was read
  width   INTEGER NOT NULL,                -- of slices
  whole   INTEGER NOT NULL,                -- when all slices were read last
  PRIMARY KEY (account, budget)
) WITHOUT ROWID;

-- How much was read of each file of refusals.
CREATE TABLE day_files (
  file  TEXT    PRIMARY KEY,
  bytes INTEGER NOT NULL,
  seen  INTEGER NOT NULL
) WITHOUT ROWID;
