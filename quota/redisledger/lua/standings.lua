-- Says what windows hold. Writes nothing.
-- KEYS: meta, cooldowns, the log, then one source a charge that has one of its own.
-- ARGV: head, the time of a test, the log's horizon (7), the charges, whose source is a
-- number in KEYS or 0, and their names, then one definition a charge (empty: the source is the log).
-- Answer: 1 other head; 2, now: other days; 0, now, how far the log's newest stamp is ahead, then of
-- each charge used, how much more an estimate may hide, since and when the next units return (0: never), until when a cooldown holds, of which budget and why.

local meta = KEYS[1]
if head_of(meta) ~= ARGV[1] then return {1} end
local now = clock(ARGV[2])
local charges, names = new_charges(ARGV[4], 1, #ARGV - 4, now)
if not charges then return {2, now} end
name(charges, ARGV[4], names)
local log = new_list(KEYS[3], (unpacked('>I7', ARGV[3])))
local cooled = cooldowns(KEYS[2], charges, now)

-- source returns what answers a charge: its own list or counter, the log, or
-- one made of the log for this answer alone.
local function source(c, def)
  if c.kind ~= COUNTER and def == '' then return log end
  local key = c.source > 0 and KEYS[3 + c.source] or ''
  local made
  if c.kind == COUNTER then
    made = key ~= '' and new_counter(key, c.length) or {counter = true, length = c.length, start = 0, present = 0, before = 0}
  else
    made = key ~= '' and new_list(key, c.length) or {stamp = 0, total = 0, pending = {}, count = 0}
    made.horizon = max(log.horizon, c.length)
  end
  if not made.stored then
    fill(made, log, new_labels(meta), def, now)
  end
  return made
end

local answer, far = {0, now, ahead(log, now)}, ahead(log, now)
for i, c in ipairs(charges) do
  c.list = source(c, ARGV[4 + i])
  local used = c.kind == COUNTER and estimate(c.list, now, WRAP, 0) or holds(c)
  local till, budget, reason = 0, '', ''
  for _, name in ipairs({c.budget, ''}) do
    local cool = cooled[name]
    if cool and cool.till > till then till, budget, reason = cool.till, name, cool.reason end
  end
  local since = c.kind == COUNTER and 0 or c.since
  local over = c.kind == COUNTER and hidden(c.list, now) or 0
  local free = latest(frees(c, now, used), c, far, now)
  for _, value in ipairs({used, over, since, free, till, budget, reason}) do
    answer[#answer + 1] = value
  end
end
return answer
