-- Upgrades the tables of version 4 to version 5.

ALTER TABLE account_logs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE account_logs ADD COLUMN heard TEXT NOT NULL DEFAULT '';
UPDATE account_logs SET epoch = 1 + (random() & 0x7fffffffffff);

PRAGMA user_version = 5;
