-- Reads one page of a log.
-- KEYS: meta, the log. ARGV: head, the log's horizon (7), from stamp 7, before stamp 7, how many 4.
-- Answer: 1 other head; 0, then records, each followed by its label's words, empty when not known.

if head_of(KEYS[1]) ~= ARGV[1] then return {1} end
local log = new_list(KEYS[2], (unpacked('>I7', ARGV[2])))
local from, before, most = unpacked('>I7I7I4', ARGV[3])
from = max(from, log.stamp - keep(log.horizon) + 1, 1) -- what waits to be dropped is not shown
if log.stamp < from then return {0} end
local _, place = locate(log, from)
if unpacked('>I2', call('LINDEX', log.key, place), 18) == 0 then place = place + 1 end
local labels, answer = new_labels(KEYS[1]), {0}
for _, record in ipairs(call('LRANGE', log.key, place, place + most - 1)) do
  local stamp, _, _, label = unpacked('>I7I6I4I2', record)
  if stamp >= before then break end
  answer[#answer + 1] = record
  answer[#answer + 1] = labels(label, stamp) or ''
end
return answer
