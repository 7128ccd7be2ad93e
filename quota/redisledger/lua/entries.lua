-- Reads one page of a log, oldest first.
-- KEYS: meta, the log. ARGV: head, the log's horizon (7), from stamp 7, before stamp 7, how many 4,
-- 1 for the newest of these or 0 for the oldest 1.
-- Answer: 1 other head; 0, then records, each followed by its label's words, empty when not known.

if head_of(KEYS[1]) ~= ARGV[1] then return {1} end
local log = new_list(KEYS[2], (unpacked('>I7', ARGV[2])))
local from, before, most, newest = unpacked('>I7I7I4B', ARGV[3])
from = max(from, log.stamp - keep(log.horizon) + 1, 1) -- what waits to be dropped is not shown
if log.stamp < from then return {0} end
local first, last
if newest == 1 then
  last = select(2, locate(log, before)) - 1
  first = max(last - most + 1, 0)
else
  first = select(2, locate(log, from))
  if unpacked('>I2', call('LINDEX', log.key, first), 18) == 0 then first = first + 1 end
  last = first + most - 1
end
local labels, answer = new_labels(KEYS[1]), {0}
if last < first then return answer end
for _, record in ipairs(call('LRANGE', log.key, first, last)) do
  local stamp, _, _, label = unpacked('>I7I6I4I2', record)
  if stamp >= from and stamp < before and label ~= 0 then
    answer[#answer + 1] = record
    answer[#answer + 1] = labels(label, stamp) or ''
  end
end
return answer
