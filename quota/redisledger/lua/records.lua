-- Lists of records: reading, appending and storing them.

-- new_list returns the list at a key, or an empty one. Records in pending are not stored yet.
local function new_list(key, horizon)
  local last = key and redis.call('LINDEX', key, '-1')
  local stamp, total = 0, 0
  if last then stamp, total = struct.unpack('>I7I6', last) end
  return {key = key, horizon = horizon, stamp = stamp, total = total, was = stamp, last = last, stored = last and true, count = 0, pending = {false}}
end

-- push appends records of one amount, a microsecond apart.
local function push(list, stamp, amount, times)
  local pending, count, total = list.pending, list.count, list.total
  for n = 1, times do
    total = (total + amount) % 2^48
    pending[count + n] = struct.pack('>I7I6I4', stamp + n - 1, total, amount)
  end
  list.stamp, list.total, list.count = stamp + times - 1, total, count + times
end

-- store writes the pending records and trims those that no window can see. It reports whether a new
-- sixteenth of the horizon began: then expiry is renewed, and lists are trimmed that nothing asks.
local function store(list, now, real)
  if list.count == 0 then return false end
  local was, stamp, part = list.was, list.stamp, math.max(math.floor(list.horizon / 16), 1000000)
  local renew = not list.stored or was - was % part ~= stamp - stamp % part
  local cut = list.stored and (renew or list.first) and lists().expired(list, now) or 0
  for n = 1, list.count, 1000 do
    redis.call('RPUSH', list.key, unpack(list.pending, n, math.min(n + 999, list.count)))
  end
  if cut > 0 then redis.call('LTRIM', list.key, string.format('%.0f', cut), '-1') end
  if renew and real then lists().extend(list.key, list.horizon, string.sub(list.key, -4) ~= ':log') end
  return renew
end
