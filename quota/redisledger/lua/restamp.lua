-- Restamps a page of what a log has stamped ahead of now. With the last page its lists are
-- dropped, to be filled again from it, and its counters count it again.
-- KEYS: meta, the log, then all sources of its scope, as in items_of(meta.items).
-- ARGV: head, the time of a test, the scope and whether the log keeps entries (1 each), how many entries
-- at most (4).
-- Answer: 1 other head; 0, how many were changed, and how many are still ahead.

local meta = KEYS[1]
if head_of(meta) ~= ARGV[1] then return {1} end
local now = clock(ARGV[2])
local scope, keeps, most = unpacked('>BBI4', ARGV[3])
local log = new_list(KEYS[2], 0)
if not log.stored then return {0, 0, 0} end

local lists, counters = {}, {}
local n = 2
for _, item in ipairs(items_of(call('HGET', meta, 'items') or '')) do
  if of_scope(item, scope) then
    n = n + 1
    if item.counter then
      local counter = new_counter(KEYS[n], item.horizon / 2)
      counter.def = item.def
      if counter.stored then counters[#counters + 1] = counter end
    else
      lists[#lists + 1] = KEYS[n]
    end
  end
end

-- shift lets a counter's period begin now, if it begins later. It reports whether it did.
local function shift(counter)
  local start = now - now % counter.length
  if counter.start <= start then return false end
  counter.start, counter.changed = start, true
  return true
end

-- recount makes a counter say what the log says, unless it counts calls that came before
-- the log kept entries.
local function recount(counter)
  local fresh = {counter = true, key = counter.key, length = counter.length, start = 0, present = 0, before = 0, stored = true}
  fill(fresh, log, new_labels(meta), counter.def, now)
  if fresh.present + fresh.before < counter.present + counter.before then
    shift(counter)
  else
    counter.start, counter.present, counter.before, counter.changed = fresh.start, fresh.present, fresh.before, true
  end
end

local changed = 0
if keeps == 0 or log.stamp <= now then
  for _, counter in ipairs(counters) do
    if shift(counter) then changed = changed + 1 end
    store_counter(counter, false)
  end
  if log.stamp > now then call('LSET', log.key, '-1', pack('>I7', now) .. string.sub(log.last, 8)) end
  return {0, changed, 0}
end

local _, place = locate(log, now + 1)
local many = size(log) - place
local stamp = max(now - many, place > 0 and at(log, place - 1) or 0)
local records = call('LRANGE', log.key, place, place + most - 1)
for i, record in ipairs(records) do
  stamp = stamp + 1
  call('LSET', log.key, place + i - 1, pack('>I7', stamp) .. string.sub(record, 8))
  if unpacked('>I2', record, 18) > 0 then changed = changed + 1 end
end
for _, key in ipairs(lists) do call('DEL', key) end
if #records == many then
  log = new_list(KEYS[2], 0)
  for _, counter in ipairs(counters) do
    recount(counter)
    store_counter(counter, false)
  end
end
return {0, changed, many - #records}
