-- How the ledger lies in Redis, and how a batch travels. Every script begins with this page.
--
-- A batch is one EVALSHA of spend.lua, which works in four steps:
--     read    the head, the budgets (windows.lua), the newest record of each list that matters
--     decide  run by run, a run being consecutive equal requests; nothing is written yet
--     write   one RPUSH a list (records.lua), one SET a counter (counters.lua)
--     answer  one packed string
-- learn.lua comes first if the process does not know the account's labels and coverages.
--
-- This page, records.lua and windows.lua run in every script. The other files are either scripts or
-- modules, which run when their name is first called, as in lists().locate. Redis makes the functions of
-- a script anew in every run, a tenth of a microsecond each; a module makes its own only when they
-- are needed. The modules are accounts, counters, coverages, lists, and of spend.lua alone floors, refusals, resent
-- and sources.
--
-- Keys of an account. All carry its hash tag.
--     meta         hash: head, coverages, numbers of labels; see learn.lua
--     cool         hash: budget (empty: the account) -> until 7 bytes, reason; and if it was set for a time, LENGTH
--                  and budget -> that time 7 bytes
--     log          list: one record for each call
--     log:ID       list, or string of a counter, of one coverage
--     log:cCLIENT  string: a client's last batch; see resent.lua
-- The log of a key, such as an address, has the same keys under a name of its own.
--
-- A record, in a list, oldest first. Numbers are big-endian and unsigned.
--     stamp   7 bytes  microseconds since the Unix epoch, strictly increasing within a log
--     total   6 bytes  running total after this record, modulo 2^48
--     amount  4 bytes  what it counts; in the log the top bit says: not a plain call
-- and in the log, which is also the list of the units of all calls, after it
--     label   2 bytes  who and what, see learn.lua
--     client  6 bytes  the id of the request
--     seq     4 bytes  its low 32 bits
-- and of a note or correction
--     calls   4 bytes  how many it counts
--     kind    1 byte   a quota.EntryKind
-- A record that is not a plain call and has no such tail counts no call: it is refunded when it
-- counts no units, else an addition to an earlier call.
--
-- A window holds the total of the last record less the total before the first that it sees. Totals
-- wrap and are only ever subtracted; what one log holds at once stays below 2^48, twice the
-- highest limit. A list is never trimmed to nothing, so one that exists has been filled from the log and
-- fed since; one that covers nothing yet holds a record of stamp 0.
--
-- A log that is asked counters alone keeps no entries. It holds one record of label 0, which
-- counts nothing and says what the newest stamp is. When the log keeps entries again, that record
-- is the first until it is trimmed.
--
-- A counter is a string: start of the present period 7, its count 6, the count of the period before 6.
--
-- Lua counts in doubles, exact for whole numbers below 2^53, where stamps arrive in the year 2255. Numbers
-- are written out (2^48, 2^31) because the compiler folds them, while a name costs time in each function.

local SLACK = 120000000 -- quota.MaxStepBack
local LENGTH = 0 -- a byte
local SETTLED = 60000000 -- of records younger than this clients are told only the first of a list: others are settled without turning head

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
