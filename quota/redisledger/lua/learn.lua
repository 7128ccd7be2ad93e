-- Gives numbers to labels, takes up coverages and drops those that are no longer in use.
-- KEYS: meta, the account's log, its cooldowns.
-- ARGV: the time of a test, and, unless it is only to be read: twelve random bytes, the coverages
-- that are asked for (id 12, flags 1, horizon 7 and definition 4 + n of each, see items_of), and
-- labels, each with two random bytes before it.
-- Answer: head, coverages, the labels' numbers.
--
-- meta is one hash, so that it is lost as a whole or not at all:
--   head    eight random bytes that name this life of meta, three that are another version
--           whenever the coverages or the next change, which is 1 when there are cooldowns
--           or slots to look at; what clients know is good for one head
--   version counts the heads of this life, so that none comes again
--   guard   until when it is 1 at least, see guard in accounts.lua
--   items   the coverages, see items_of in accounts.lua
--   labels  how many labels have a number; n<words> the number, l<number> the words
--   logs    how often the account's log was begun
--   from    records of the log stamped before carry numbers of an earlier life
-- Numbers are random, not counted: after a failover that lost the newest, a client's
-- number is one that nobody knows, not somebody else's.
--
-- A label is method, lane, job and region, each with a byte of its length before it.
--
-- The first release understands items only as it wrote them itself. From the moment
-- that they begin with FORMAT it fails to read them, and stops with an error: it
-- would read records as whole that have a tail, and log calls where no log is kept.

local meta, log = KEYS[1], KEYS[2]
local items_of, of_scope, FORMAT, DAY = accounts().items_of, accounts().of_scope, accounts().FORMAT, accounts().DAY
local MOST, LABELS, OTHER = 128, 65000, 65535
local head, items = unpack(redis.call('HMGET', meta, 'head', 'items'))
if #ARGV == 1 then return {string.sub(head or '', 1, 12), items or ''} end
if #ARGV[2] ~= 12 then error('ration: bad argument: head') end
local now = clock(ARGV[1])

-- A meta that was lost knew how far back the log must reach; until all have asked again it goes
-- on to reach as far as it does.
local EVERYTHING = string.rep('\0', 17) -- defines the coverage of the log itself
if not head then
  local last, from = redis.call('LINDEX', log, '-1'), 0
  head, items = string.sub(ARGV[2], 1, 8) .. struct.pack('>I3B', 0, redis.call('EXISTS', KEYS[3])), FORMAT
  if last then
    local first, _, _, label = struct.unpack('>I7I6I4I2', redis.call('LINDEX', log, '0'))
    from = struct.unpack('>I7', last) + 1
    local reach = math.min(math.max(now - first, 0), 34560000000000)
    if label > 0 and reach > 0 then
      items = items .. struct.pack('>c12BI7I7I7I7I4', string.rep('0', 12), 2, reach, now, reach, 0, #EVERYTHING) .. EVERYTHING
    end
  end
  redis.call('HSET', meta, 'head', head, 'items', items, 'from', string.format('%.0f', from), 'logs', last and 1 or 0)
end
head = string.sub(head, 1, 12)
if string.sub(items, 1, 23) == string.sub(FORMAT, 1, 23) and string.sub(items, 1, 24) ~= FORMAT then
  return {head, items} -- of a later release
end

local function in_use(item) return math.max(item.asked, item.before) end

-- turn_use begins another generation of an item when the present one is over, and ask notes
-- that a horizon is asked, as decide.Use does.
local function turn_use(item)
  local length = math.max(2 * in_use(item), DAY)
  if in_use(item) == 0 or now < item.since + length then return end
  if now >= item.since + 2 * length then item.asked = 0 end
  item.since, item.before, item.asked = now, item.asked, 0
end

local function ask(item, horizon)
  turn_use(item)
  if horizon <= item.asked then return end
  if in_use(item) == 0 then item.since = now end
  item.asked = horizon
end

-- seen is what clients go by.
local function seen(list)
  local parts = {}
  for n, item in ipairs(list) do parts[n] = struct.pack('>c12BI7', item.id, item.flags, item.horizon) end
  return table.concat(parts)
end

local kept = items_of(items)
if string.sub(items, 1, 24) ~= FORMAT then
  for _, item in ipairs(kept) do item.since = now end
end
local before = seen(kept)

-- add takes up a coverage of a scope. There are no more than MOST in each; whoever still asks
-- for the one that goes fills it again, so the log must go on to reach as far.
local function add(want, scope)
  local many, longest, oldest = 0, 0, nil
  for n, item in ipairs(kept) do
    if of_scope(item, scope) then many, longest = many + 1, math.max(longest, item.horizon) end
  end
  if many >= MOST then
    for n, item in ipairs(kept) do
      if not oldest and of_scope(item, scope) and item.horizon < longest then oldest = n end
    end
    for n, item in ipairs(kept) do
      if not oldest and of_scope(item, scope) then oldest = n end
    end
    table.remove(kept, oldest)
  end
  kept[#kept + 1] = want
end

-- A list whose horizon grows begins anew under another id, filled from the log.
local wants, where = {}, 1
while where <= #ARGV[3] do
  local want = {before = 0, asked = 0, since = now}
  want.id, want.flags, want.horizon, want.def, where = struct.unpack('>c12BI7I4c0', ARGV[3], where)
  local scope, counter = want.flags >= 4 and 4 or 2, want.flags % 2 == 1
  if want.flags ~= scope + (counter and 1 or 0) or want.horizon < 1 then error('ration: bad argument: coverage') end
  want.counter = counter
  local known = false
  for n = #kept, 1, -1 do
    local have = kept[n]
    if of_scope(have, scope) and have.counter == counter and have.def == want.def and (not counter or have.horizon == want.horizon) then
      if have.horizon >= want.horizon then
        known = true
        ask(have, want.horizon)
      else
        want.since, want.asked, want.before = have.since, have.asked, have.before
        have.flags = have.flags - scope
        if have.flags < 2 then table.remove(kept, n) end
      end
    end
  end
  if not known then
    ask(want, want.horizon)
    add(want, scope)
  end
end

local longest, parts = 0, {FORMAT}
for n = #kept, 1, -1 do
  local item = kept[n]
  turn_use(item)
  if in_use(item) == 0 then
    table.remove(kept, n)
  elseif not item.counter then
    item.horizon = math.min(item.horizon, in_use(item))
  end
end
for n, item in ipairs(kept) do
  parts[n + 1] = struct.pack('>c12BI7I7I7I7I4', item.id, item.flags, item.horizon, item.since, item.asked, item.before, #item.def) .. item.def
  longest = math.max(longest, item.horizon)
end
local written = table.concat(parts)
if written ~= items then redis.call('HSET', meta, 'items', written) end
if seen(kept) ~= before or string.sub(items, 1, 24) ~= FORMAT then head = accounts().turn(meta) end

-- free returns a number that no label has, from a random one on, or the number of all others.
local function free(random)
  if tonumber(redis.call('HGET', meta, 'labels') or '0') >= LABELS then return OTHER end
  for try = 0, 63 do
    local number = (random + try) % (OTHER - 1) + 1
    if redis.call('HEXISTS', meta, 'l' .. number) == 0 then return number end
  end
  return OTHER
end

local answer = {head, written}
for n = 4, #ARGV do
  local random, label = struct.unpack('>I2', ARGV[n]), string.sub(ARGV[n], 3)
  local number = tonumber(redis.call('HGET', meta, 'n' .. label) or '0')
  if number == 0 then
    number = free(random)
    if number ~= OTHER then
      redis.call('HINCRBY', meta, 'labels', 1)
      redis.call('HSET', meta, 'n' .. label, number, 'l' .. number, label)
    end
  end
  answer[#answer + 1] = number
end
if ARGV[1] == '' then accounts().outlive(meta, longest) end
return answer
