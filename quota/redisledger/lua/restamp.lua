-- Restamps a page of what a log has stamped ahead of now. Its lists and counters are
-- dropped, and filled again from it; those of a log without entries begin now.
-- KEYS: meta, the log, then all sources of its scope, as in items_of(meta.items).
-- ARGV: head, the time of a test, the scope and whether the log keeps entries (1 each), how many entries
-- at most (4).
-- Answer: 1 other head; 0, how many were changed, and how many are still ahead.

local meta = KEYS[1]
if head_of(meta) ~= ARGV[1] then return {1} end
local now = clock(ARGV[2])
local scope, keeps, most = unpacked('>BBI4', ARGV[3])
local log = new_list(KEYS[2], 0)
if not log.stored or log.stamp <= now and keeps == 1 then return {0, 0, 0} end

local sources = {}
for _, item in ipairs(items_of(call('HGET', meta, 'items') or '')) do
  if of_scope(item, scope) then sources[#sources + 1] = item end
end
if keeps == 0 then
  local changed = 0
  for n, item in ipairs(sources) do
    local counter = item.counter and new_counter(KEYS[n + 2], item.horizon / 2)
    local start = counter and now - now % counter.length
    if counter and counter.stored and counter.start > start then
      call('SET', counter.key, pack('>I7I6I6', start, counter.present, counter.before), 'KEEPTTL')
      changed = changed + 1
    end
  end
  if log.stamp > now then call('LSET', log.key, '-1', pack('>I7', now) .. string.sub(log.last, 8)) end
  return {0, changed, 0}
end

local _, place = locate(log, now + 1)
local many, changed = size(log) - place, 0
local stamp = max(now - many, place > 0 and at(log, place - 1) or 0)
local records = call('LRANGE', log.key, place, place + most - 1)
for n, record in ipairs(records) do
  stamp = stamp + 1
  call('LSET', log.key, place + n - 1, pack('>I7', stamp) .. string.sub(record, 8))
  if unpacked('>I2', record, 18) > 0 then changed = changed + 1 end
end
for n in ipairs(sources) do call('DEL', KEYS[n + 2]) end
return {0, changed, many - #records}
