-- What version 2 adds: the newest pages as they came, for upstreams that say
-- that a page has not changed.
CREATE TABLE pages (
  region     TEXT    NOT NULL,
  step       TEXT    NOT NULL,
  number     INTEGER NOT NULL,
  token      TEXT    NOT NULL,             -- that led to it
  content    BLOB    NOT NULL,             -- JSON, its etag included
  fetched_at INTEGER NOT NULL,
  PRIMARY KEY (region, step, number)
) WITHOUT ROWID;
CREATE INDEX pages_by_fetch ON pages (fetched_at);
