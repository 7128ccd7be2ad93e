-- Reads a page of a log, oldest first, or finds where reading begins.
-- KEYS: meta, the log. ARGV: head, the log's horizon (7), from stamp 7, before stamp 7, how many 4,
-- and what 1: the oldest of these (0), the newest of these (1), or their place (2).
-- Answer: 1 other head; 0 and records, each before its label's words (empty: unknown); or 0 and, if
-- there are any, their place, the place behind them, the first stamp shown, the first whose label is
-- known, and the first that can be settled without a new head.

if head_of(KEYS[1]) ~= ARGV[1] then return {1} end
local OLDEST, NEWEST, PLACE = 0, 1, 2
local log = new_list(KEYS[2], (struct.unpack('>I7', ARGV[2])))
local from, before, most, what = struct.unpack('>I7I7I4B', ARGV[3])
from = math.max(from, log.stamp - lists().retention(log.horizon) + 1, 1) -- hides what is due to be trimmed
if log.stamp < from then return {0} end
local first, last
if what == NEWEST then
  last = select(2, lists().locate(log, before)) - 1
  first = math.max(last - most + 1, 0)
else
  first = select(2, lists().locate(log, from))
  if struct.unpack('>I2', redis.call('LINDEX', log.key, first), 18) == 0 then first = first + 1 end
  last = first + most - 1
end
if what == PLACE then
  local _, behind = lists().locate(log, before)
  return {0, first, behind, from, tonumber(redis.call('HGET', KEYS[1], 'from') or '0'), log.stamp - SETTLED}
end
if last < first then return {0} end
local labels = coverages().new_labels(KEYS[1])

-- read returns the answer with the entries among the records from first to last. A record that only
-- keeps the log's newest stamp is none; a restoration leaves one, at most, which others may follow.
local function read(first, last)
  local answer, others = {0}, 0
  for _, record in ipairs(redis.call('LRANGE', log.key, first, last)) do
    local stamp, _, _, label = struct.unpack('>I7I6I4I2', record)
    if label == 0 then
      others = others + 1
    elseif stamp >= from and stamp < before then
      answer[#answer + 1] = record
      answer[#answer + 1] = labels(label, stamp) or ''
    end
  end
  return answer, others
end

local answer, others = read(first, last)
if others == 0 then return answer end
if what == NEWEST then first = math.max(first - others, 0) else last = last + others end
return (read(first, last)) -- a page that is not full would be the last
