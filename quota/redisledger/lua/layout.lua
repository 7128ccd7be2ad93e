-- The ledger's layout in Redis. Every script begins with this file.
--
-- A batch is one EVALSHA of spend.lua, which has four steps:
--     read    the head, the budgets (windows.lua), and the newest record of each list involved
--     decide  run by run, where a run is consecutive equal requests; nothing is written yet
--     write   one RPUSH a list (records.lua), one SET a counter (counters.lua)
--     answer  one packed string
-- learn.lua comes first if the process does not know the account's labels and coverages.
--
-- This file, records.lua and windows.lua run in every script. The other files are scripts, or
-- modules that run when first called by name, as in lists().locate: Redis creates all functions of
-- a script on every run, at a tenth of a microsecond each, and a module creates its own on demand.
--
-- The keys of an account share its hash tag:
--     meta         hash: head, coverages and label numbers; see learn.lua
--     cool         hash: budget (empty: the account) -> until 7 bytes, reason;
--                  LENGTH and budget -> duration 7 bytes, of a cooldown that was set for a duration
--     log          list: one record for each call
--     log:ID       list, or string of a counter, of one coverage
--     log:cCLIENT  string: a client's last batch; see resent.lua
--     log:s        list: the stamps of what is settled while the log is restored; see snapshot.lua
-- The log of a key, such as an IP address, has the same keys under its own name.
--
-- A list holds records, oldest first. Numbers are unsigned and big-endian.
--     stamp   7 bytes  microseconds since the Unix epoch, strictly increasing within a log
--     total   6 bytes  running total after this record, modulo 2^48
--     amount  4 bytes  what it counts; in the log, the top bit marks what is not a plain call
-- The log, which is also the list of the units of all calls, adds
--     label   2 bytes  method and caller, see learn.lua
--     client  6 bytes  the id of the request
--     seq     4 bytes  its low 32 bits
-- and for a note or correction
--     calls   4 bytes  the number of calls it counts
--     kind    1 byte   a quota.EntryKind
-- A record with the top bit but without calls and kind counts no call: it is a refunded call if it
-- has no units, else an addition to an earlier call.
--
-- A window holds the total of the last record less the total before the first one it sees. Totals
-- wrap, so they are only subtracted; what a log holds at once stays below 2^48, twice the highest
-- limit. A list is never trimmed to nothing, so a list that exists has been filled from the log and
-- fed since; one that covers nothing yet holds a record of stamp 0.
--
-- A log that only counters ask keeps no entries: it holds one record, of label 0, with the newest
-- stamp. When the log keeps entries again, that record stays first until it is trimmed.
-- A restoration drops it, or moves it to the end if no entry is as new.
--
-- A counter is a string: start of the present period 7, its count 6, the previous period's count 6.
--
-- Lua numbers are doubles: exact below 2^53, which stamps reach in the year 2255. Constants are
-- written out (2^48, 2^31): the compiler folds them, while a name costs time in each function.

local SLACK = 120000000 -- quota.MaxStepBack
local LEAD = 300000000 -- quota.MaxClockLead
local LENGTH = 0 -- a byte
local REMEMBERED = 600000 -- milliseconds for which a client's last batch is kept: decide.ClientMemory
local SPARE = 3024000000 -- milliseconds that an account's keys outlive their use: the clock may be wrong by as much
local SETTLED = 60000000 -- a younger record can be settled without a new head, see known in spend.lua

-- clock returns the test's time in microseconds, or else the server's.
local function clock(given)
  if given == '' then
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
  end
  if #given ~= 7 then error('ration: bad argument: time') end
  return (struct.unpack('>I7', given))
end

-- head_of returns meta's head, which clients know.
local function head_of(meta)
  return string.sub(redis.call('HGET', meta, 'head') or '', 1, 12)
end
