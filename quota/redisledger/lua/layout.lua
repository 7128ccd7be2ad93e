-- What all scripts begin with. Data comes only through KEYS and ARGV; numbers
-- in ARGV are packed big-endian, so they are whole and not negative by nature.
--
-- Lua counts in doubles, exact for whole numbers below 2^53. Stamps are
-- microseconds since the Unix epoch (below 2^53 until the year 2255). Running totals
-- wrap at 2^48 and are only ever subtracted, so a total may grow for ever;
-- what one log holds at once stays below 2^48, twice the highest limit (see store.lua).
--
-- A LIST of records, oldest first, answers for one coverage. A record is
--     stamp  7 bytes  strictly increasing within a log
--     total  6 bytes  running total after this record, modulo 2^48
--     amount 4 bytes  what it counts; in the log the top bit says: not a plain call
-- and in the log, which is also the list of the units of all calls, after it
--     label  2 bytes  who and what, see learn.lua
--     client 6 bytes, seq 4 bytes (its low 32 bits): the id of the request
-- and of a note or correction
--     calls  4 bytes  how many it counts
--     kind   1 byte   a quota.EntryKind
-- What is not a plain call and has no such tail counts no call: it is refunded
-- when it counts no units, else an addition.
--
-- What a window holds is the total of the last record less the total before
-- the first that it sees: two reads at the ends of the list, and to admit is one write.
-- A list is never trimmed to nothing, so one that is there has been filled from
-- the log and been fed since; one that covers nothing yet holds a record of stamp 0.
--
-- A log that is asked counters alone keeps no entries. It holds one record of
-- label 0, which counts nothing and says what the newest stamp is. When the log
-- keeps entries again, that record is the first until it is trimmed.
--
-- An estimate keeps two counters in a STRING: 7 bytes start of the present
-- period, 6 bytes its count, 6 bytes the count of the period before.
--
-- Cooldowns are a HASH: under a budget's name, or an empty one for the account, 7 bytes
-- until when and then the reason; and if it was set for a time, 7 bytes of that time under
-- the name behind a byte LENGTH.
--
-- What costs time in a script is calling the server (half a microsecond to one, more
-- when a number must become text: hence '0' and '-1'), struct (a third), each KEY and
-- ARGV, each number answered, and making functions (a tenth each, in every run). So
-- plain.lua decides what is common in one straight line, calls core only when it must
-- search, and only what it leaves undecided meets common.lua.

local call, pack, unpacked = redis.call, struct.pack, struct.unpack

local WRAP = 281474976710656 -- 2^48
local NOCALL = 2147483648 -- 2^31
local BLOCK = 1099511627776 -- 2^40
local SEQ = 4294967296 -- 2^32
local EXACT = 9007199254740992 -- 2^53
local SLACK = 120000000 -- quota.MaxStepBack
local LENGTH = 0
local SLIDING, DAILY, COUNTER, FLOORED = 1, 2, 3, 16
local FRESH, NAMED, RESENT, WATCHED, AGAIN, COUNTING, LONG = 0, 1, 2, 3, 5, 8, 16 -- see spend.lua
