-- Reads one page of a log.
-- KEYS: meta, the log. ARGV: from stamp (7), before stamp (7), how many (4).
-- Answer: records, each followed by its label's words, empty when not known.

local log = new_list(KEYS[2], 0)
local from, before, most = unpacked('>I7I7I4', ARGV[1])
if log.stamp < from then return {} end
local _, place = locate(log, max(from, 1))
local labels, answer = new_labels(KEYS[1]), {}
for _, record in ipairs(call('LRANGE', log.key, place, place + most - 1)) do
  local stamp, _, _, label = unpacked('>I7I6I4I2', record)
  if stamp >= before then break end
  answer[#answer + 1] = record
  answer[#answer + 1] = labels(label, stamp) or ''
end
return answer
