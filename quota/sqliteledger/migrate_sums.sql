-- Upgrades the tables of version 3 to version 4.

CREATE TABLE sums (
  log     INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  until   INTEGER NOT NULL,
  label   INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  units   INTEGER NOT NULL,
  calls   INTEGER NOT NULL,
  first   INTEGER NOT NULL,
  last    INTEGER NOT NULL,
  PRIMARY KEY (log, since, label, kind)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 4;
