-- Upgrades the tables of version 5 to version 6.

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

PRAGMA user_version = 6;
