-- Says what windows hold. Writes nothing.
-- KEYS: meta, cooldowns, the log, then one source a budget that has one of its own.
-- ARGV: head, the time of a test, the log's horizon 7, the budgets, whose source is a number in KEYS or 0, and
-- behind them their names, then one definition a budget (empty: the source is the log).
-- Answer: 1 other head; 2, now: other days; 0, now, how far the log's newest stamp is ahead, then of each
-- budget used, how much more an estimate may hide, since and when the next units return (0: never),
-- until when a cooldown holds, of which budget and why.

local meta = KEYS[1]
if head_of(meta) ~= ARGV[1] then return {1} end
local now, many = clock(ARGV[2]), #ARGV - 4
local charges, where = read_charges(ARGV[4], 1, many, now)
if not charges then return {2, now} end
local names = accounts().read_names(ARGV[4], where, many)
local log = new_list(KEYS[3], (struct.unpack('>I7', ARGV[3])))
local cooled = accounts().cooldowns(KEYS[2], names, now) or {}

-- source returns what answers a budget: its own list or counter, the log, or one made of the log
-- for this answer alone.
local function source(c, def)
  if not c.counter and def == '' then return log end
  local key, made = c.list > 0 and KEYS[3 + c.list], nil
  if c.counter then
    made = counters().new(key, c.length)
  else
    made = new_list(key, math.max(log.horizon, c.length))
  end
  if not made.stored then coverages().fill(made, log, coverages().new_labels(meta), def, now) end
  return made
end

local far = log.stamp - now > SLACK and log.stamp - now or 0
local answer = {0, now, far}
for n = 1, many do
  local c = charges[n]
  c.list = source(c, ARGV[4 + n])
  local used, over, since, free = 0, 0, 0, 0
  if c.counter then
    used, over = counters().used(c.list, now), counters().hidden(c.list, now)
    free = used > 0 and counters().fits_at(c.list, now, used - 1, 0) or 0
  else
    open(c)
    used, since = lists().holds(c), c.since
    free = frees(c, used)
  end
  local till, budget, reason = 0, '', ''
  for _, name in ipairs({names[n], ''}) do
    local cool = cooled[name]
    if cool and cool.till > till then till, budget, reason = cool.till, name, cool.reason end
  end
  for _, value in ipairs({used, over, since, lists().latest(free, c, far, now), till, budget, reason}) do
    answer[#answer + 1] = value
  end
end
return answer
