-- The catalogue, version 2. Instants are UTC milliseconds since 1970; NULL is unknown.

-- n is spelled out because FTS5 and the other tables point at it, and VACUUM
-- may renumber a rowid that has no name. It grows with first sight: a larger n
-- was found later.
CREATE TABLE videos (
  n             INTEGER PRIMARY KEY,
  id            TEXT    NOT NULL UNIQUE,
  title         TEXT    NOT NULL,
  description   TEXT    NOT NULL,
  channel_id    TEXT    NOT NULL,
  channel_title TEXT    NOT NULL,
  category_id   TEXT    NOT NULL,
  published_at  INTEGER,
  tags          TEXT    NOT NULL,          -- one a line
  views         INTEGER,
  likes         INTEGER,
  comments      INTEGER,
  complete      INTEGER NOT NULL,          -- 0: known only from a search snippet
  fetched_at    INTEGER NOT NULL
);
CREATE INDEX videos_by_channel ON videos (channel_id);
CREATE INDEX videos_by_fetch ON videos (fetched_at);

-- Marks (M) belong to words, or Hindi falls apart at every vowel sign. The
-- variation selectors of emoji are marks too, but separate: U+FE0E and U+FE0F,
-- which do not show, stand between the last quotes.
CREATE VIRTUAL TABLE videos_fts USING fts5 (
  title, description, channel_title, tags,
  content = 'videos', content_rowid = 'n',
  tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc' separators '︎️'"
);
CREATE TRIGGER videos_inserted AFTER INSERT ON videos BEGIN
  INSERT INTO videos_fts (rowid, title, description, channel_title, tags)
  VALUES (new.n, new.title, new.description, new.channel_title, new.tags);
END;
CREATE TRIGGER videos_deleted AFTER DELETE ON videos BEGIN
  INSERT INTO videos_fts (videos_fts, rowid, title, description, channel_title, tags)
  VALUES ('delete', old.n, old.title, old.description, old.channel_title, old.tags);
  DELETE FROM positions WHERE video = old.n;
  DELETE FROM sightings WHERE video = old.n;
END;
-- Most refreshes change numbers only; the words are then left alone.
CREATE TRIGGER videos_updated AFTER UPDATE OF title, description, channel_title, tags ON videos
WHEN (old.title, old.description, old.channel_title, old.tags)
  IS NOT (new.title, new.description, new.channel_title, new.tags) BEGIN
  INSERT INTO videos_fts (videos_fts, rowid, title, description, channel_title, tags)
  VALUES ('delete', old.n, old.title, old.description, old.channel_title, old.tags);
  INSERT INTO videos_fts (rowid, title, description, channel_title, tags)
  VALUES (new.n, new.title, new.description, new.channel_title, new.tags);
END;

-- One row a chart position. The key has the tick, not fetched_at: a page that
-- is committed twice is the same rows.
CREATE TABLE positions (
  region     TEXT    NOT NULL,
  chart      TEXT    NOT NULL,             -- the step that fetched it
  tick       INTEGER NOT NULL,
  rank       INTEGER NOT NULL,             -- 1 is the top
  video      INTEGER NOT NULL,
  fetched_at INTEGER NOT NULL,
  PRIMARY KEY (region, chart, tick, rank)
) WITHOUT ROWID;
CREATE INDEX positions_by_video ON positions (video);
CREATE INDEX positions_by_fetch ON positions (fetched_at);

-- Which region's passes have met a video, on a chart or in a search.
CREATE TABLE sightings (
  video   INTEGER NOT NULL,
  region  TEXT    NOT NULL,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (video, region)
) WITHOUT ROWID;
CREATE INDEX sightings_by_time ON sightings (seen_at);

CREATE TABLE channels (
  id          TEXT    PRIMARY KEY,
  title       TEXT    NOT NULL,
  subscribers INTEGER,
  views       INTEGER,
  videos      INTEGER,
  missing     INTEGER NOT NULL,            -- 1: asked for, and not there
  fetched_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX channels_by_fetch ON channels (fetched_at);

CREATE TABLE categories (
  region     TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  title      TEXT    NOT NULL,
  fetched_at INTEGER NOT NULL,
  PRIMARY KEY (region, id)
) WITHOUT ROWID;

CREATE TABLE passes (
  region      TEXT    NOT NULL,
  tick        INTEGER NOT NULL,
  started_at  INTEGER NOT NULL,
  fetched_at  INTEGER NOT NULL,            -- when its last page was committed
  finished_at INTEGER,
  PRIMARY KEY (region, tick)
) WITHOUT ROWID;

CREATE TABLE checkpoints (
  region     TEXT    NOT NULL,
  tick       INTEGER NOT NULL,
  step       TEXT    NOT NULL,
  next       TEXT    NOT NULL,             -- token of the page to fetch next
  pages      INTEGER NOT NULL,
  videos     INTEGER NOT NULL,
  done       INTEGER NOT NULL,
  fetched_at INTEGER NOT NULL,
  PRIMARY KEY (region, tick, step)
) WITHOUT ROWID;
