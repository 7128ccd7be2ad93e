-- Reports what windows hold. Writes nothing.
-- KEYS: meta, cooldowns, the log, then the sources that are not the log.
-- ARGV: head, the time of a test, the log's horizon 7, the budgets (source 0: none yet) and behind
-- them their names, then the definition of each budget's coverage (empty: that of the log).
-- Answer: 1 other head; 2, now: other days; or 0, now, how far the log's newest stamp is ahead,
-- then for each budget: used, what an estimate leaves out, since, what the log has recorded before
-- (of all units; else 0), when the next units return (0: never), and a cooldown's end, budget and
-- reason.

local meta = KEYS[1]
if head_of(meta) ~= ARGV[1] then return {1} end
local now, many = clock(ARGV[2]), #ARGV - 4
local charges, where = read_charges(ARGV[4], 1, many, now)
if not charges then return {2, now} end
local names = accounts().read_names(ARGV[4], where, many)
local log = new_list(KEYS[3], (struct.unpack('>I7', ARGV[3])))
local cooled = accounts().cooldowns(KEYS[2], names, now) or {}

-- source returns the log, or a budget's list or counter, which may be filled for this answer alone.
local function source(c, def)
  if not c.counter and def == '' then return log end
  local key = c.list > 0 and KEYS[3 + c.list]
  local found = c.counter and counters().new(key, c.length) or new_list(key, math.max(log.horizon, c.length))
  if not found.stored then coverages().fill(found, log, def, now) end
  return found
end

local far = log.stamp - now > SLACK and log.stamp - now or 0
local answer = {0, now, far}
for n = 1, many do
  local c = charges[n]
  c.list = source(c, ARGV[4 + n])
  local used, over, since, before, free = 0, 0, 0, 0, 0
  if c.counter then
    used, over = counters().used(c.list, now)
    free = used > 0 and counters().fits_at(c.list, now, used - 1, 0) or 0
  else
    open(c)
    used, since = lists().holds(c), c.since
    before = c.list == log and c.before or 0
    free = frees(c, used)
  end
  local till, budget, reason = 0, '', ''
  for _, name in ipairs({names[n], ''}) do
    local cool = cooled[name]
    if cool and cool.till > till then till, budget, reason = cool.till, name, cool.reason end
  end
  for _, value in ipairs({used, over, since, before, lists().latest(free, c, far, now), till, budget, reason}) do
    answer[#answer + 1] = value
  end
end
return answer
