-- Sets a cooldown if it ends later than the present one; without a duration and an end it lifts it.
-- That of a move, which ends at MOVE or later, sets that of the whole account aside, and each that
-- is set meanwhile, see quota.Ledger.SetCooldown.
-- KEYS: cooldowns, meta. ARGV: duration 7 and else end 7, budget, reason, the time of a test.

local MOVE, DISPLACED = 7258118400000000, 'ration: account'

local cool, budget = KEYS[1], ARGV[2]
local length = string.char(LENGTH) .. budget
local long, till = struct.unpack('>I7I7', ARGV[1])
if long > 0 then till = math.min(clock(ARGV[4]) + long, 2^53 - 1) end
if till == 0 then
  redis.call('HDEL', cool, budget, length)
  return 0
end

-- present returns the cooldown of a budget, when it ends, and its duration.
local function present(name)
  local have, lasts = unpack(redis.call('HMGET', cool, name, string.char(LENGTH) .. name))
  local ends = have and struct.unpack('>I7', have) or 0
  if lasts then ends = math.min(ends, clock(ARGV[4]) + struct.unpack('>I7', lasts)) end -- as recool.lua
  return have, ends, lasts
end

local have, ends, lasts = present(budget)
if budget == '' and ends > clock(ARGV[4]) and (ends >= MOVE) ~= (till >= MOVE) then
  local _, aside = present(DISPLACED)
  if ends >= MOVE then
    budget, length, ends = DISPLACED, string.char(LENGTH) .. DISPLACED, aside
  elseif ends > aside then
    redis.call('HSET', cool, DISPLACED, have)
    if lasts then
      redis.call('HSET', cool, string.char(LENGTH) .. DISPLACED, lasts)
    else
      redis.call('HDEL', cool, string.char(LENGTH) .. DISPLACED)
    end
  end
end
if ends >= till then return 0 end
redis.call('HSET', cool, budget, struct.pack('>I7', till) .. ARGV[3])
if long > 0 then redis.call('HSET', cool, length, struct.pack('>I7', long)) else redis.call('HDEL', cool, length) end
accounts().guard(KEYS[2], 0)
if ARGV[4] == '' then
  local ttl = redis.call('PTTL', cool)
  local left = math.floor((till - clock('')) / 1000) + 300000
  if ttl < 0 or ttl < left then redis.call('PEXPIRE', cool, string.format('%.0f', math.max(left, 1))) end
end
return 0
