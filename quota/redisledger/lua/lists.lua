-- Module lists: searching lists of records.

local function size(list)
  if not list.length then list.length = list.stored and redis.call('LLEN', list.key) or 0 end
  return list.length + list.count
end

-- at returns the stamp, total and amount of the record at a place, counted from 0.
local function at(list, place)
  local packed = list.seen and list.seen[place]
  if place == 0 and list.stored then
    list.first = list.first or redis.call('LINDEX', list.key, '0')
    packed = list.first
  elseif not packed then
    local all = size(list)
    packed = place < all - list.count and redis.call('LINDEX', list.key, place) or list.pending[place - list.length + 1]
    if list.seen then list.seen[place] = packed end
  end
  local stamp, total, amount = struct.unpack('>I7I6I4', packed)
  return stamp, total, amount % 2^31
end

-- seek returns the first place above low whose record reaches a bound, and that record. What
-- reaches it is the stamp, or given a base, the total above the base; the record at high does. The
-- search gallops from a guess and then bisects.
local function seek(list, low, high, guess, bound, base)
  local step, up, stamp, total, amount = 1, nil, nil, nil, nil
  while high - low > 1 do
    guess = math.max(low + 1, math.min(high - 1, guess))
    local this, sum, counts = at(list, guess)
    local short = (base and (sum - base) % 2^48 or this) < bound
    if short then
      low = guess
    else
      high, stamp, total, amount = guess, this, sum, counts
    end
    if up == nil then up = short end
    if short == up and step then -- still galloping
      guess, step = short and low + step or high - step, step * 2
    else
      guess, step = math.floor((low + high) / 2), nil
    end
  end
  if not stamp then stamp, total, amount = at(list, high) end
  return high, stamp, total, amount
end

-- near is locate for a record at a guess or next to it, or nil if it is elsewhere.
local function near(list, instant, guess)
  local records = redis.call('LRANGE', list.key, guess - 1, guess + 1)
  for n, packed in ipairs(records) do
    local stamp, total, amount = struct.unpack('>I7I6I4', packed)
    if stamp >= instant then
      if n == 1 then return nil end
      amount = amount % 2^31
      return (total - amount) % 2^48, guess + n - 2, stamp, amount
    end
  end
end

-- locate returns the total before an instant, and the place, stamp and amount of the first record
-- at or after it, or just the place behind the last. It starts at the guess, or interpolates.
local function locate(list, instant, guess)
  if list.stamp < instant then return list.total, size(list) end
  if guess and guess > 0 then
    local before, place, stamp, amount = near(list, instant, guess)
    if place then return before, place, stamp, amount end
  end
  local low, high = 0, nil
  local stamp, total, amount = at(list, 0)
  if stamp == 0 and stamp < instant then -- the list began empty
    low = 1
    stamp, total, amount = at(list, 1)
  end
  if stamp >= instant then return (total - amount) % 2^48, low, stamp, amount end
  high = size(list) - 1
  guess = guess and guess > 0 and guess or low + math.floor((instant - stamp) / (list.stamp - stamp) * (high - low))
  high, stamp, total, amount = seek(list, low, high, guess, instant)
  return (total - amount) % 2^48, high, stamp, amount
end

-- reach returns the stamp of the first record from place on whose total is an amount above base,
-- which must exist. Its guess is that all records count as much as the first.
local function reach(list, place, base, amount)
  local stamp, total, first = at(list, place)
  local more = amount - (total - base) % 2^48
  if more <= 0 then return stamp end
  local guess = place + math.floor((more - 1) / math.max(first, 1)) + 1
  return (select(2, seek(list, place, size(list) - 1, guess, amount, base)))
end

-- full reports whether an amount would make totals ambiguous. It looks once in a block of 2^40.
local function full(list, amount)
  if math.floor((list.total + amount) / 2^40) == math.floor(list.total / 2^40) or size(list) == 0 then return false end
  local _, total, counted = at(list, 0)
  return (list.total - total + counted) % 2^48 + amount > 2^48 - 2 * 2^40
end

-- retention returns how long records are kept for a horizon, as quota.Retention does.
local function retention(horizon) return horizon + math.max(math.floor(horizon / 8), SLACK) end

-- expired returns how many stored records are out of sight of every window.
local function expired(list, now)
  local edge = now - retention(list.horizon)
  if at(list, 0) > edge or list.stamp <= edge then return 0 end
  if list.was <= edge then return size(list) - list.count end
  return (select(2, locate(list, edge + 1)))
end

-- replace replaces all records from a place on. One record replaces the one there alone.
local function replace(key, from, records)
  redis.call('LSET', key, from, records[1])
  if #records == 1 then return end
  redis.call('LTRIM', key, '0', from) -- faster than setting each
  for n = 2, #records, 1000 do redis.call('RPUSH', key, unpack(records, n, math.min(n + 999, #records))) end
end

-- extend makes a key expire after two horizons and five minutes of real time. What cannot be filled
-- from an account's log lives longer, so that no clock that is ahead for a moment deletes it.
local function extend(key, horizon, fillable)
  local ttl = math.floor(2 * horizon / 1000) + 300000
  if not fillable and string.find(key, '}:log', 1, true) then ttl = ttl + SPARE end
  redis.call('PEXPIRE', key, string.format('%.0f', ttl))
end

-- holds returns what a sliding or calendar window holds.
local function holds(c) return (c.list.total - c.before) % 2^48 end

-- latest limits an instant to what an answer may name when the log's newest stamp is far ahead.
local function latest(instant, c, far, now)
  if far == 0 or instant == 0 then return instant end
  return math.min(instant, now + (c.counter and 2 or 1) * c.length)
end

-- search finds where a window begins: the total before it, and its first record.
local function search(c)
  c.guess, c.searched = c.place, true
  c.before, c.place, c.first, c.counts = locate(c.list, c.since, c.place)
end

return {size = size, at = at, seek = seek, locate = locate, reach = reach, full = full, retention = retention,
  expired = expired, replace = replace, extend = extend, holds = holds, latest = latest, search = search}
