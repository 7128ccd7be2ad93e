-- Counts a request in all limits of its client if it fits each, or in none.
--
-- KEYS: of each exact limit, a list of the requests that it holds: the time of
--   each, its cost, and the sum of costs up to it. Of each estimate, its period
--   and the counts of the period before and of this one.
-- ARGV: the time, or 0 for that of Redis; the cost; then of each limit whether
--   it is an estimate (1), its calls and its length.
-- Returns whether the request was counted, and the time; then of each limit
--   what it holds, when that falls, and when the request fits, or 0.
-- Times are in microseconds. Package inbound decides in the same way in Go.
local now, request, clock = tonumber(ARGV[1]), tonumber(ARGV[2]), redis.call('TIME')
if now == 0 then now = clock[1] * 1000000 + clock[2] end
local reply = {1, now}
local wrap = 2 ^ 52 -- where sums start again, so that they stay exact
local grace = 60000 -- ms for which a key outlives its content

local function parse(text)
  local a, b, c = string.match(text or '', '^(%d+) (%d+) (%d+)$')
  return tonumber(a or 0), tonumber(b or 0), tonumber(c or 0)
end

local function format(a, b, c) return string.format('%.0f %.0f %.0f', a, b, c) end

-- newest returns the time at which a list counts a request, and its sum.
local function newest(key, per)
  local at, _, sum = parse(redis.call('LINDEX', key, -1))
  if at <= now + per then return math.max(at, now), sum end
  redis.call('DEL', key)
  return now, 0
end

local function sliding(key, calls, per, cost)
  local at, sum = newest(key, per)
  local oldest, first, upto = parse(redis.call('LINDEX', key, 0))
  while oldest > 0 and oldest <= at - per do
    redis.call('LPOP', key)
    oldest, first, upto = parse(redis.call('LINDEX', key, 0))
  end
  if oldest == 0 then return 0, 0, 0 end
  local used = (sum - upto + first) % wrap
  local over = used + cost - calls
  for _, text in ipairs(over > 0 and redis.call('LRANGE', key, 0, over - 1) or {}) do
    local at_then, _, total = parse(text)
    if (total - upto + first) % wrap >= over then return used, oldest + per, at_then + per end
  end
  return used, oldest + per, 0
end

local function counts(key, per)
  local period, previous, current = parse(redis.call('GET', key))
  local present = math.floor(now / per)
  if present - period == 1 then return present, current, 0 end
  if present > period or present < period - 1 then return present, 0, 0 end
  return period, previous, current
end

local function estimate(key, calls, per, cost)
  local period, previous, current = counts(key, per)
  local length = per / 1000
  local at = math.max(math.floor(now / 1000), period * length)
  local used = current + math.ceil(previous * ((period + 1) * length - at) / length)
  local function falls_to(most)
    local start, falling = period * length, previous
    if most < current then start, falling = start + length, current else most = most - current end
    return falling == 0 and start or start + length - math.floor(most * length / falling)
  end
  local fits = falls_to(calls - cost)
  return used, used > 0 and falls_to(used - 1) * 1000 or 0, fits > at and fits * 1000 or 0
end

local function read(i, cost)
  local calls, per = tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  local standing = ARGV[3 * i] == '1' and estimate or sliding
  reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = standing(KEYS[i], calls, per, cost)
  if reply[3 * i + 2] > 0 then reply[1] = 0 end
end

local function add(i)
  local key, per = KEYS[i], tonumber(ARGV[3 * i + 2])
  if ARGV[3 * i] == '1' then
    local period, previous, current = counts(key, per)
    redis.call('SET', key, format(period, previous, current + request), 'PX', per / 500 + grace)
  else
    local at, sum = newest(key, per)
    redis.call('RPUSH', key, format(at, request, (sum + request) % wrap))
    redis.call('PEXPIRE', key, math.ceil(per / 1000) + grace)
  end
end

for i = 1, #KEYS do read(i, request) end
for i = 1, reply[1] * #KEYS do
  add(i)
  read(i, 0)
end
return reply
