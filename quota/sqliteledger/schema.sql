-- The ledger's tables, version 1. Instants are microseconds since the Unix
-- epoch; stamps are unique and rising within a log. Totals are running totals
-- and do not fall as stamps rise, so that what a window holds is the
-- difference of two of them.

-- A log of all calls of one account, or of one key of it.
CREATE TABLE logs (
  log     INTEGER PRIMARY KEY,
  account TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  horizon INTEGER NOT NULL, -- the longest that an entry can matter
  due     INTEGER,          -- of a key's log: when to look whether it is idle
  UNIQUE (account, key)
) STRICT;
CREATE INDEX logs_due ON logs (due) WHERE due IS NOT NULL;

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
  PRIMARY KEY (log, stamp)
) STRICT, WITHOUT ROWID;

-- One list for each coverage that a log was asked for, but for the units of
-- all calls: that is the log itself.
CREATE TABLE lists (
  list     INTEGER PRIMARY KEY,
  log      INTEGER NOT NULL,
  coverage TEXT    NOT NULL, -- a quota.Coverage's key
  horizon  INTEGER NOT NULL,
  UNIQUE (log, coverage)
) STRICT;

CREATE TABLE records (
  list  INTEGER NOT NULL,
  stamp INTEGER NOT NULL,
  total INTEGER NOT NULL,
  PRIMARY KEY (list, stamp)
) STRICT, WITHOUT ROWID;

CREATE TABLE cooldowns (
  account TEXT    NOT NULL,
  budget  TEXT    NOT NULL, -- empty: the whole account
  until   INTEGER NOT NULL,
  reason  TEXT    NOT NULL,
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
PRAGMA user_version = 1;
