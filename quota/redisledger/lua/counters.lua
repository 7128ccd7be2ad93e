-- Module counters. A counter window estimates the use of the trailing length as the count of the
-- present period and a share of the previous period's, rounded up.

-- product returns floor(a*b/c) and whether there is a remainder, for whole numbers below 2^48 with
-- a quotient below 2^53, by long division with four bits at a time.
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
  local packed = key and redis.call('GET', key)
  local start, present, before = 0, 0, 0
  if packed then start, present, before = struct.unpack('>I7I6I6', packed) end
  return {counter = true, key = key, length = length, stored = packed and true, start = start, was = start, present = present, before = before}
end

-- periods returns the start and count of the period at an instant, and the previous count. After
-- the clock stepped back, the period may begin after the instant.
local function periods(counter, now)
  local start = now - now % counter.length
  if start <= counter.start then return counter.start, counter.present, counter.before end
  return start, 0, start == counter.start + counter.length and counter.present or 0
end

-- used returns the estimate, and how much of the previous period it leaves out.
local function used(counter, now)
  local start, present, before = periods(counter, now)
  local shown, rest = product(before, start + counter.length - math.max(now, start), counter.length)
  if rest then shown = shown + 1 end
  return present + shown, before - shown
end

-- fits_at returns when an amount will fit that does not fit now.
local function fits_at(counter, now, limit, amount)
  local start, present, before = periods(counter, now)
  local ends, left, shown = start + counter.length, limit - amount - present, before
  if left < 0 then ends, left, shown = ends + counter.length, limit - amount, present end
  if left >= shown then return ends - counter.length end
  return ends - (product(left, counter.length, shown))
end

-- tick adds an amount without storing the counter.
local function tick(counter, stamp, amount)
  counter.start, counter.present, counter.before = periods(counter, stamp)
  counter.present, counter.changed = counter.present + amount, true
end

local function store(counter, real)
  if not counter.changed then return end
  redis.call('SET', counter.key, struct.pack('>I7I6I6', counter.start, counter.present, counter.before), 'KEEPTTL')
  if real and (not counter.stored or counter.start ~= counter.was) then lists().extend(counter.key, 2 * counter.length) end
end

return {product = product, new = new_counter, periods = periods, used = used, fits_at = fits_at, tick = tick, store = store}
