-- The ledger's tables, version 4; migrate.go makes them of those of older versions.
-- Instants and durations are microseconds, instants since the Unix epoch. Stamps
-- are unique and rising within a log. Totals are running totals and do not
-- fall as stamps rise, so that what a window holds is the difference of two.

-- A log of all calls of one account, or of one key of it.
CREATE TABLE account_logs (
  log     INTEGER PRIMARY KEY,
  account TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  horizon INTEGER NOT NULL, -- how far back its entries matter; 0: to no window
  due     INTEGER,          -- of a key's log: when to look whether it is idle
  newest  INTEGER NOT NULL DEFAULT 0, -- a stamp as late as any that neither an entry nor a counter has
  UNIQUE (account, key)
) STRICT;
CREATE INDEX logs_due ON account_logs (due) WHERE due IS NOT NULL;

-- What entries have in common.
CREATE TABLE labels (
  label  INTEGER PRIMARY KEY,
  method TEXT    NOT NULL,
  lane   TEXT    NOT NULL,
  job    TEXT    NOT NULL,
  region TEXT    NOT NULL,
  used   INTEGER NOT NULL, -- when it was last needed, within an hour
  UNIQUE (method, lane, job, region)
) STRICT;

-- The newest entry of a log, and the newest of those that no window can see, are
-- never trimmed: they hold the last stamp and the total to subtract.
CREATE TABLE entries (
  log    INTEGER NOT NULL,
  stamp  INTEGER NOT NULL,
  total  INTEGER NOT NULL, -- of units, this entry's included
  units  INTEGER NOT NULL,
  calls  INTEGER NOT NULL,
  label  INTEGER NOT NULL,
  client INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  kind   INTEGER NOT NULL DEFAULT 0, -- a quota.EntryKind
  PRIMARY KEY (log, stamp)
) STRICT, WITHOUT ROWID;

-- What the entries stamped at or after since and before until add up to: one
-- row for each label and kind among them. Those of one since are a block. A
-- block begins where the one before it ends and is never changed: each of its
-- entries has more than quota.MaxSettle newer ones. It goes when its first entry is trimmed.
CREATE TABLE sums (
  log     INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  until   INTEGER NOT NULL,
  label   INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  units   INTEGER NOT NULL,
  calls   INTEGER NOT NULL,
  first   INTEGER NOT NULL, -- stamp
  last    INTEGER NOT NULL, -- stamp
  PRIMARY KEY (log, since, label, kind)
) STRICT, WITHOUT ROWID;

-- One list for each coverage that a log was asked for, and how far back it was
-- asked lately: a decide.Use. The list of the empty coverage is the log itself,
-- and that of 'history' says for how long entries are to be listed; these two
-- have no records. A list that is no longer in use has zeros, and goes with
-- the last of its records.
CREATE TABLE lists (
  list     INTEGER PRIMARY KEY,
  log      INTEGER NOT NULL,
  coverage TEXT    NOT NULL, -- a quota.Coverage's key
  asked    INTEGER NOT NULL,
  since    INTEGER NOT NULL DEFAULT 0,
  before   INTEGER NOT NULL DEFAULT 0,
  UNIQUE (log, coverage)
) STRICT;

CREATE TABLE records (
  list  INTEGER NOT NULL,
  stamp INTEGER NOT NULL,
  total INTEGER NOT NULL,
  PRIMARY KEY (list, stamp)
) STRICT, WITHOUT ROWID;

-- The two counts of a counter window: a decide.Counter.
CREATE TABLE counters (
  counter  INTEGER PRIMARY KEY,
  log      INTEGER NOT NULL,
  coverage TEXT    NOT NULL,
  length   INTEGER NOT NULL,
  start    INTEGER NOT NULL, -- of the present period
  present  INTEGER NOT NULL,
  past     INTEGER NOT NULL,
  asked    INTEGER NOT NULL, -- when it was asked last, within an hour
  newest   INTEGER NOT NULL, -- the stamp at which it was written last
  UNIQUE (log, coverage, length)
) STRICT;

CREATE TABLE cooldowns (
  account TEXT    NOT NULL,
  budget  TEXT    NOT NULL, -- empty: the whole account
  until   INTEGER NOT NULL,
  reason  TEXT    NOT NULL,
  length  INTEGER NOT NULL DEFAULT 0, -- a quota.Cooldown's For
  PRIMARY KEY (account, budget)
) STRICT, WITHOUT ROWID;

-- The last batch of each client, and the stamps of its grants.
CREATE TABLE clients (
  log    INTEGER NOT NULL,
  client INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  stamp  INTEGER NOT NULL, -- of its newest grant
  grants BLOB    NOT NULL,
  PRIMARY KEY (log, client)
) STRICT, WITHOUT ROWID;

PRAGMA application_id = 0x7261746e; -- "ratn"
PRAGMA user_version = 4;
