-- Restamps a page of the records that are stamped after now. The log's lists are deleted, to be
-- filled again, and after the last page its counters are computed again.
-- KEYS: meta, the log, what is settled meanwhile (snapshot.lua), then all sources of its scope.
-- ARGV: head, the time of a test, and scope 1, whether the log keeps entries 1, the page's size 4.
-- Answer: 1 other head; or 0, how many were changed, and how many are still ahead.

local meta, settled = KEYS[1], table.remove(KEYS, 3)
if head_of(meta) ~= ARGV[1] then return {1} end
local now = clock(ARGV[2])
local scope, keeps, most = struct.unpack('>BBI4', ARGV[3])
local log = new_list(KEYS[2], 0)
if not log.stored then return {0, 0, 0} end

local sources = coverages().stored_sources(scope)

-- shift moves a counter's period back to now if it begins later, and reports whether it did.
local function shift(c)
  local start = now - now % c.length
  if c.start <= start then return false end
  c.start, c.changed = start, true
  return true
end

-- recount fills a counter from the log, unless it counts calls from before the log kept entries.
local function recount(c)
  local new = counters().new(nil, c.length)
  coverages().fill(new, log, c.def, now)
  if new.present + new.before < c.present + c.before then return shift(c) end
  c.start, c.present, c.before, c.changed = new.start, new.present, new.before, true
end

local changed = 0
if keeps == 0 or log.stamp <= now then
  for _, source in ipairs(sources) do
    if source.counter and shift(source) then
      changed = changed + 1
      counters().store(source, false)
    end
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
redis.call('DEL', settled) -- so that what is being restored is read again
log = new_list(KEYS[2], 0)
for _, source in ipairs(sources) do
  if not source.counter then
    redis.call('DEL', source.key)
  elseif #records == many then
    recount(source)
    counters().store(source, false)
  end
end
if scope == 2 then accounts().turn(meta) end
return {0, changed, many - #records}
