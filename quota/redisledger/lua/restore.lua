-- Puts a restored log in the place of the present one, with what came since that was read. The
-- lists of coverages are deleted, to be filled again; counters are computed again and never fall.
-- KEYS: meta, the log, the restored log, what is settled meanwhile (snapshot.lua), then all sources
-- of the scope; and for a long key, where its name is stored.
-- ARGV: head, the time of a test, scope 1, horizon 7, how many records the log had 4, the restored
-- one has 4 and the list of what is settled had 4, the last record that the log had, what clients
-- have heard, the 8 bytes of a new life, or none, what counters have not counted, oldest first
-- (stamp 7, units 4, calls 4, label 2), the mark in the list, and perhaps a long key.
-- Answer: 1 other head; 0 1 restored; 0 0 the log has changed otherwise, or was evicted.

local meta, restored = KEYS[1], table.remove(KEYS, 3)
local settled = table.remove(KEYS, 3)
local function stop()
  redis.call('DEL', restored)
  return {0, 0}
end

-- call_of returns what identifies a record's call: stamp, client and seq.
local function call_of(record) return string.sub(record, 1, 7) .. string.sub(record, 20, 29) end

if head_of(meta) ~= ARGV[1] then return {1} end
local now = clock(ARGV[2])
local scope, horizon, many, written, listed = struct.unpack('>BI7I4I4I4', ARGV[3])
local last = many > 0 and redis.call('LINDEX', KEYS[2], many - 1) or ''
local isAsRead = last and call_of(last) == call_of(ARGV[4]) and redis.call('LINDEX', settled, listed - 1) == ARGV[8]
if not isAsRead or redis.call('LLEN', restored) ~= written then return stop() end -- or it was evicted
local total, newest = 0, 0
if last ~= '' then newest, total = struct.unpack('>I7I6', last) end

-- settle_again gives the restored records what their calls were settled to since the log was read.
-- It reports false if they lack one of these calls, or if it would take long.
local MOST = 2000 -- calls that were settled, and records from the first of them on
local again = {} -- stamp -> the present record of a call that was settled
local function settle_again()
  local items = redis.call('LRANGE', settled, listed, listed + MOST)
  if #items > MOST then return false end
  local unfound, oldest = 0, newest
  for _, item in ipairs(items) do
    local stamp = #item == 7 and struct.unpack('>I7', item) -- or it is the mark of another restoration
    if stamp and stamp <= newest and not again[stamp] then
      again[stamp], unfound, oldest = '', unfound + 1, math.min(oldest, stamp)
    end
  end
  if unfound == 0 then return true end
  local function page(list)
    local _, place = lists().locate(list, oldest)
    return redis.call('LRANGE', list.key, place, place + MOST), place
  end
  for _, record in ipairs((page(new_list(KEYS[2], horizon)))) do
    local stamp = struct.unpack('>I7', record)
    if again[stamp] then again[stamp] = record end
  end
  local records, from = page(new_list(restored, horizon))
  if #records > MOST then return false end
  local more = 0
  for n, record in ipairs(records) do
    local stamp, sum, amount = struct.unpack('>I7I6I4', record)
    local rest, present = string.sub(record, 14), again[stamp]
    if present and call_of(present) == call_of(record) then
      rest, unfound = string.sub(present, 14, 17) .. string.sub(record, 18, 29), unfound - 1
      more = more + struct.unpack('>I4', present, 14) % 2^31 - amount % 2^31
    end
    records[n] = struct.pack('>I7I6', stamp, (sum + more) % 2^48) .. rest
  end
  if unfound > 0 then return false end
  lists().replace(restored, from, records)
  return true
end

if not settle_again() then return stop() end
local log = new_list(restored, horizon)
for _, record in ipairs(log.stored and redis.call('LRANGE', KEYS[2], many, '-1') or {}) do
  local later, sum = struct.unpack('>I7I6', record)
  if later <= log.stamp then return stop() end
  redis.call('RPUSH', restored, struct.pack('>I7I6', later, (log.total + sum - total) % 2^48) .. string.sub(record, 14))
end
if log.stored then
  redis.call('RENAME', restored, KEYS[2])
  if scope == 2 then redis.call('HSET', meta, 'from', '0') end -- all labels have numbers of this life
end
redis.call('DEL', settled) -- so that other restorations read the log again
if ARGV[5] ~= '' then
  redis.call('HSET', meta, 'heard' .. KEYS[2], ARGV[5])
else
  redis.call('HDEL', meta, 'heard' .. KEYS[2])
end
if ARGV[9] then redis.call('SET', KEYS[#KEYS], ARGV[9]) end
log = new_list(KEYS[2], horizon)

-- add_uncounted adds what a counter has not counted. It may be older than what it has. A call
-- that was settled meanwhile is counted already: settle.lua has changed the counters as the log.
local function add_uncounted(source)
  local labels, c = coverages().new_labels(meta), coverages().read(source.def)
  for where = 1, #ARGV[7], 17 do
    local stamp, units, calls, label = struct.unpack('>I7I4I4I2', ARGV[7], where)
    local amount, start = c.calls and calls or units, stamp - stamp % source.length
    local covered = not again[stamp] and coverages().covers(c, labels(label, stamp))
    if covered and start >= source.start then
      counters().tick(source, stamp, amount)
    elseif covered and start == source.start - source.length then
      source.before = source.before + amount
    end
  end
end

for _, source in ipairs(coverages().stored_sources(scope)) do
  if source.counter then
    add_uncounted(source)
    local new = counters().new(nil, source.length)
    coverages().fill(new, log, source.def, now)
    local start = math.max(new.start, source.start)
    counters().tick(new, start, 0)
    counters().tick(source, start, 0)
    source.present, source.before = math.max(source.present, new.present), math.max(source.before, new.before)
    source.changed = true
    counters().store(source, false)
  else
    redis.call('DEL', source.key)
  end
end
if ARGV[2] == '' then
  lists().extend(log.key, horizon)
  if ARGV[9] then lists().extend(KEYS[#KEYS], horizon) end
  accounts().outlive(meta, horizon)
end
if ARGV[6] ~= '' then redis.call('HSET', meta, 'head', ARGV[6] .. string.sub(redis.call('HGET', meta, 'head'), 9)) end
accounts().turn(meta)
return {0, 1}
