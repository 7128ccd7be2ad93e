-- Module counters. A counter window is an estimate of the trailing length: what the present period
-- counts, and the part of the one before that still shows, rounded up.

-- product returns floor(a*b/c) and whether something was left over, for whole numbers below 2^48
-- with a quotient below 2^53: long division, four bits at a time.
local function product(a, b, c)
  if a * b < 2^53 then
    local rest = math.fmod(a * b, c)
    return (a * b - rest) / c, rest > 0
  end
  local quotient, rest, unit = 0, 0, 2^44
  while unit >= 1 do
    local digit = math.floor(a / unit) % 16
    local sum = rest * 16 + digit * b
    rest = math.fmod(sum, c)
    quotient = quotient * 16 + (sum - rest) / c
    unit = unit / 16
  end
  return quotient, rest > 0
end

local function new_counter(key, length)
  local counter = {counter = true, key = key, length = length, start = 0, present = 0, before = 0}
  local packed = key and redis.call('GET', key)
  if packed then
    counter.stored = true
    counter.start, counter.present, counter.before = struct.unpack('>I7I6I6', packed)
  end
  counter.was = counter.start
  return counter
end

-- periods returns the period at an instant: its start, its count and the one's before. After a
-- clock has stepped back it may lie ahead of the instant.
local function periods(counter, now)
  local start = now - now % counter.length
  if start <= counter.start then return counter.start, counter.present, counter.before end
  return start, 0, start == counter.start + counter.length and counter.present or 0
end

local function share(count, part, whole)
  local quotient, rest = product(count, part, whole)
  return rest and quotient + 1 or quotient
end

-- used returns the estimate.
local function used(counter, now)
  local start, present, before = periods(counter, now)
  return present + share(before, start + counter.length - math.max(now, start), counter.length)
end

-- hidden returns how much of the period before the estimate takes for gone.
local function hidden(counter, now)
  local start, _, before = periods(counter, now)
  return before - share(before, start + counter.length - math.max(now, start), counter.length)
end

-- fits_at returns when an amount fits that does not fit now.
local function fits_at(counter, now, limit, amount)
  local start, present, before = periods(counter, now)
  local ends, left, shown = start + counter.length, limit - amount - present, before
  if left < 0 then ends, left, shown = ends + counter.length, limit - amount, present end
  if left >= shown then return ends - counter.length end
  return ends - (product(left, counter.length, shown))
end

-- tick adds an amount. The counter is not stored yet.
local function tick(counter, stamp, amount)
  counter.start, counter.present, counter.before = periods(counter, stamp)
  counter.present, counter.changed = counter.present + amount, true
end

local function store(counter, real)
  if not counter.changed then return end
  redis.call('SET', counter.key, struct.pack('>I7I6I6', counter.start, counter.present, counter.before), 'KEEPTTL')
  if real and (not counter.stored or counter.start ~= counter.was) then lists().extend(counter.key, 2 * counter.length) end
end

return {product = product, new = new_counter, periods = periods, used = used, hidden = hidden, fits_at = fits_at, tick = tick, store = store}
