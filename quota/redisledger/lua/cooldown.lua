-- Sets a cooldown if it ends later than the present one; without a duration and an end it lifts it.
-- KEYS: cooldowns, meta. ARGV: duration 7 and else end 7, budget, reason, the time of a test.

local cool, budget = KEYS[1], ARGV[2]
local length = string.char(LENGTH) .. budget
local long, till = struct.unpack('>I7I7', ARGV[1])
if long > 0 then till = math.min(clock(ARGV[4]) + long, 2^53 - 1) end
if till == 0 then
  redis.call('HDEL', cool, budget, length)
  return 0
end
local have, lasts = unpack(redis.call('HMGET', cool, budget, length))
have = have and struct.unpack('>I7', have) or 0
if lasts then have = math.min(have, clock(ARGV[4]) + struct.unpack('>I7', lasts)) end -- as recool.lua
if have >= till then return 0 end
redis.call('HSET', cool, budget, struct.pack('>I7', till) .. ARGV[3])
if long > 0 then redis.call('HSET', cool, length, struct.pack('>I7', long)) else redis.call('HDEL', cool, length) end
accounts().guard(KEYS[2], 0)
if ARGV[4] == '' then
  local life = redis.call('PTTL', cool)
  local left = math.floor((till - clock('')) / 1000) + 300000
  if life < 0 or life < left then redis.call('PEXPIRE', cool, string.format('%.0f', math.max(left, 1))) end
end
return 0
