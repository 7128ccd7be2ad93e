-- Shortens the account's cooldowns that were set while the clock was ahead: one that was set
-- for a time ends no later than that long from now.
-- KEYS: cooldowns. ARGV: the time of a test.

local now, newest = clock(ARGV[1]), 0
local till, length = {}, {}
local all = redis.call('HGETALL', KEYS[1])
for n = 1, #all, 2 do
  local budget = all[n]
  if string.byte(budget) == LENGTH then
    length[string.sub(budget, 2)] = struct.unpack('>I7', all[n + 1])
  else
    till[budget] = all[n + 1]
  end
end
for budget, packed in pairs(till) do
  local ends = struct.unpack('>I7', packed)
  local latest = length[budget] and math.min(now + length[budget], 2^53 - 1)
  if latest and ends > latest then
    ends = latest
    redis.call('HSET', KEYS[1], budget, struct.pack('>I7', ends) .. string.sub(packed, 8))
  end
  newest = math.max(newest, ends)
end
if redis.call('PTTL', KEYS[1]) > 0 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(math.floor((newest - now) / 1000), 0) + 300000))
end
return 0
