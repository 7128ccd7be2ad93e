-- What version 3 adds: the channels that a region is asking for just now, so
-- that two regions never pay for the same ones.
CREATE TABLE claims (
  channel TEXT    PRIMARY KEY,
  region  TEXT    NOT NULL,
  until   INTEGER NOT NULL                 -- the claim lapses then
) WITHOUT ROWID;
CREATE INDEX claims_by_region ON claims (region);
