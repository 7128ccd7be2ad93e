-- Restamps a page of what a log has stamped ahead of now. With the last page its lists are
-- dropped, to be filled again from it, and its counters count it again.
-- KEYS: meta, the log, then all sources of its scope, as in items_of(meta.items).
-- ARGV: head, the time of a test, the scope and whether the log keeps entries (1 each), how many entries
-- at most (4).
-- Answer: 1 other head; 0, how many were changed, and how many are still ahead.

local meta = KEYS[1]
if head_of(meta) ~= ARGV[1] then return {1} end
local now = clock(ARGV[2])
local scope, keeps, most = struct.unpack('>BBI4', ARGV[3])
local log = new_list(KEYS[2], 0)
if not log.stored then return {0, 0, 0} end

local keys, counted = {}, {}
local n = 2
for _, item in ipairs(accounts().items_of(redis.call('HGET', meta, 'items') or '')) do
  if accounts().of_scope(item, scope) then
    n = n + 1
    if item.counter then
      local c = counters().new(KEYS[n], item.horizon / 2)
      c.def = item.def
      if c.stored then counted[#counted + 1] = c end
    else
      keys[#keys + 1] = KEYS[n]
    end
  end
end

-- shift lets a counter's period begin now, if it begins later. It reports whether it did.
local function shift(c)
  local start = now - now % c.length
  if c.start <= start then return false end
  c.start, c.changed = start, true
  return true
end

-- recount makes a counter say what the log says, unless it counts calls that came before the log
-- kept entries.
local function recount(c)
  local new = {counter = true, length = c.length, start = 0, present = 0, before = 0}
  coverages().fill(new, log, coverages().new_labels(meta), c.def, now)
  if new.present + new.before < c.present + c.before then
    shift(c)
  else
    c.start, c.present, c.before, c.changed = new.start, new.present, new.before, true
  end
end

local changed = 0
if keeps == 0 or log.stamp <= now then
  for _, c in ipairs(counted) do
    if shift(c) then changed = changed + 1 end
    counters().store(c, false)
  end
  if log.stamp > now then redis.call('LSET', log.key, '-1', struct.pack('>I7', now) .. string.sub(log.last, 8)) end
  return {0, changed, 0}
end

local _, place = lists().locate(log, now + 1)
local many = lists().size(log) - place
local stamp = math.max(now - many, place > 0 and lists().at(log, place - 1) or 0)
local records = redis.call('LRANGE', log.key, place, place + most - 1)
for i, record in ipairs(records) do
  stamp = stamp + 1
  redis.call('LSET', log.key, place + i - 1, struct.pack('>I7', stamp) .. string.sub(record, 8))
  if struct.unpack('>I2', record, 18) > 0 then changed = changed + 1 end
end
for _, key in ipairs(keys) do redis.call('DEL', key) end
if #records == many then
  log = new_list(KEYS[2], 0)
  for _, c in ipairs(counted) do
    recount(c)
    counters().store(c, false)
  end
end
if scope == 2 then accounts().turn(meta) end
return {0, changed, many - #records}
