-- The ledger's tables, version 6; migrate.go upgrades those of older versions.
-- Instants are microseconds since the Unix epoch, durations are microseconds.
-- Stamps are unique and increase within a log. Totals are running totals and never
-- fall as stamps increase, so that what a window holds is the difference of two.

-- A log of all calls of one account, or of one key of it.
CREATE TABLE account_logs (
  log     INTEGER PRIMARY KEY,
  account TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  horizon INTEGER NOT NULL, -- how far back its entries are kept; 0: none are
  due     INTEGER,          -- of a key's log: when to check whether it is idle
  newest  INTEGER NOT NULL DEFAULT 0, -- the newest stamp, if no entry and no counter has it
  epoch   INTEGER NOT NULL,
  heard   TEXT    NOT NULL DEFAULT '', -- statements of quota.Restoration.Heard, as JSON
  UNIQUE (account, key)
) STRICT;
CREATE INDEX logs_due ON account_logs (due) WHERE due IS NOT NULL;

-- The method and caller of entries.
CREATE TABLE labels (
  label  INTEGER PRIMARY KEY,
  method TEXT    NOT NULL,
  lane   TEXT    NOT NULL,
  job    TEXT    NOT NULL,
  region TEXT    NOT NULL,
  used   INTEGER NOT NULL, -- when it was last used, to the hour
  UNIQUE (method, lane, job, region)
) STRICT;

-- The newest entry of a log, and the newest that no window can see, are never
-- trimmed: they hold the last stamp and the total to subtract.
CREATE TABLE entries (
  log    INTEGER NOT NULL,
  stamp  INTEGER NOT NULL,
  total  INTEGER NOT NULL, -- of units, including this entry's
  units  INTEGER NOT NULL,
  calls  INTEGER NOT NULL,
  label  INTEGER NOT NULL,
  client INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  kind   INTEGER NOT NULL DEFAULT 0, -- a quota.EntryKind
  PRIMARY KEY (log, stamp)
) STRICT, WITHOUT ROWID;

-- Sums of the entries stamped at or after since and before until: one row for each
-- label and kind. The rows with the same since are a block. A block begins where the
-- one before it ends. It never changes, because each of its entries has more than
-- quota.MaxSettle newer ones, and is deleted when its first entry is trimmed.
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

-- One list for each coverage that a log was asked for, with its
-- decide.RecentHorizon. The list of the empty coverage is the log itself, and that
-- of 'history' has the horizon of quota.Batch.History; these two have no records.
-- The horizon of a list that is no longer in use is zero, and the list is deleted
-- with the last of its records.
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
  asked    INTEGER NOT NULL, -- when it was last used, to the hour
  newest   INTEGER NOT NULL, -- the log's newest stamp when it was last written
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

-- The limits that were asked of budgets lately: the decide.AskedLimit of each.
CREATE TABLE limits (
  account TEXT    NOT NULL,
  budget  TEXT    NOT NULL, -- a quota.Charge's Identity
  config  TEXT    NOT NULL, -- a quota.Config's ID
  changed INTEGER NOT NULL, -- when the configuration was changed
  units   INTEGER NOT NULL, -- the limit, or calls
  until   INTEGER NOT NULL, -- when it ends
  PRIMARY KEY (account, budget, config, changed, units)
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
PRAGMA user_version = 6;
