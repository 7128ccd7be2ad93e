-- Upgrades the tables of version 1 to version 2.

ALTER TABLE logs RENAME TO account_logs;
ALTER TABLE account_logs ADD COLUMN newest INTEGER NOT NULL DEFAULT 0;

-- The first release stored only this much of an entry's kind.
ALTER TABLE entries ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;
UPDATE entries SET kind = IIF(units = 0, 1, 2) WHERE calls = 0;

-- The horizons that it asked stay in use for one more generation.
ALTER TABLE lists RENAME COLUMN horizon TO asked;
ALTER TABLE lists ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lists ADD COLUMN before INTEGER NOT NULL DEFAULT 0;
INSERT INTO lists (log, coverage, asked) SELECT log, '', horizon FROM account_logs;

CREATE TABLE counters (
  counter  INTEGER PRIMARY KEY,
  log      INTEGER NOT NULL,
  coverage TEXT    NOT NULL,
  length   INTEGER NOT NULL,
  start    INTEGER NOT NULL,
  present  INTEGER NOT NULL,
  past     INTEGER NOT NULL,
  asked    INTEGER NOT NULL,
  newest   INTEGER NOT NULL,
  UNIQUE (log, coverage, length)
) STRICT;

-- A process of the first release may have the file open. All its operations on a log
-- begin by reading logs, which now fails with an error that contains this name.
-- A later migration must drop this view before it renames anything.
CREATE VIEW logs AS SELECT * FROM "a newer version of this program has upgraded the file: restart this one";

PRAGMA user_version = 2;
