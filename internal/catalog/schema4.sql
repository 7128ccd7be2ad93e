-- What version 4 adds: how often in a row a page was paid for and not saved, for
-- each step of a region, and for each method over all regions.
CREATE TABLE failures (
  region   TEXT    NOT NULL,               -- "" for a method
  name     TEXT    NOT NULL,               -- of the step or the method
  failures INTEGER NOT NULL,
  until    INTEGER NOT NULL,               -- not tried again before
  reason   TEXT    NOT NULL,               -- of the last one
  PRIMARY KEY (region, name)
) WITHOUT ROWID;
