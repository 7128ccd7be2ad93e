-- Shortens cooldowns that were set for a duration to end no later than their duration from now.
-- KEYS: cooldowns. ARGV: the time of a test.

local now, newest = clock(ARGV[1]), 0
local all, fields = redis.call('HGETALL', KEYS[1]), {}
for n = 1, #all, 2 do fields[all[n]] = all[n + 1] end
for budget, packed in pairs(fields) do
  local length, ends = fields[string.char(LENGTH) .. budget], struct.unpack('>I7', packed)
  local latest = length and math.min(now + struct.unpack('>I7', length), 2^53 - 1) or ends
  if ends > latest then
    ends = latest
    redis.call('HSET', KEYS[1], budget, struct.pack('>I7', ends) .. string.sub(packed, 8))
  end
  if string.byte(budget) ~= LENGTH then newest = math.max(newest, ends) end
end
if redis.call('PTTL', KEYS[1]) > 0 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(math.floor((newest - now) / 1000), 0) + 300000))
end
return 0
