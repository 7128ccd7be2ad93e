-- Says what a log is and, with a mark, begins its restoration: the stamps of what is settled are
-- listed behind the mark. The list is deleted when the log is restored or restamped, when it gets
-- long, and at last by its expiry; then what began with the mark begins again.
-- KEYS: meta, the log, what is settled meanwhile.
-- ARGV: perhaps the mark, which is no stamp, and for how many milliseconds the list is kept.
-- Answer: the length of that list, how many records the log has, the first and the last of them,
-- what clients have heard, and since when labels have numbers of this life.

local listed = 0
if ARGV[1] then
  listed = redis.call('RPUSH', KEYS[3], ARGV[1])
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
end
local known = redis.call('HMGET', KEYS[1], 'heard' .. KEYS[2], 'from')
local first, last = redis.call('LINDEX', KEYS[2], '0'), redis.call('LINDEX', KEYS[2], '-1')
return {listed, redis.call('LLEN', KEYS[2]), first or '', last or '', known[1] or '', known[2] or ''}
