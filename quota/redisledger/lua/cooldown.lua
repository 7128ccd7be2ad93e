-- Sets a cooldown that is later than the one that holds, or with neither for nor until lifts it.
-- KEYS: cooldowns, meta. ARGV: for (7), until (7; not read with for) and whether real time
-- counts (1), budget, reason, the time of a test.

local cool, budget = KEYS[1], ARGV[2]
local length = string.char(LENGTH) .. budget
local long, till, real = struct.unpack('>I7I7B', ARGV[1])
if long > 0 then till = math.min(clock(ARGV[4]) + long, 2^53 - 1) end
if till == 0 then
  redis.call('HDEL', cool, budget, length)
  return 0
end
local have = redis.call('HGET', cool, budget)
if have and struct.unpack('>I7', have) >= till then return 0 end
redis.call('HSET', cool, budget, struct.pack('>I7', till) .. ARGV[3])
if long > 0 then redis.call('HSET', cool, length, struct.pack('>I7', long)) else redis.call('HDEL', cool, length) end
accounts().guard(KEYS[2], 0)
if real == 1 then
  local life = redis.call('PTTL', cool)
  local ends = math.floor(till / 1000) + 300000
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if life < 0 or now + life < ends then redis.call('PEXPIRE', cool, string.format('%.0f', math.max(ends - now, 1))) end
end
return 0
