-- Numbers labels, adds coverages and drops unused ones.
-- KEYS: meta, the account's log, its cooldowns.
-- ARGV: the time of a test, and to write: twelve random bytes, the coverages in use (id 12, flags
-- 1, horizon 7 and definition 4 + n each, see items_of), the limits that are asked (limits.lua), and
-- labels, each after two random bytes.
-- Answer: head, coverages, limits, now, the labels' numbers.
--
-- meta is one hash, so that it is lost as a whole or not at all:
--   head    8 random bytes that name this life of the account, see restore.lua, 3 of a version, and
--           1 that is 1 if there may be cooldowns or slots; clients cache what belongs to a head
--   version counts the heads of this life, so that none recurs
--   guard   until when head's last byte must stay, see guard in accounts.lua
--   items   the coverages, see items_of in accounts.lua
--   limits  the limits that were asked, see limits.lua
--   labels  how many labels have a number; n<words> is the number, l<number> the words
--   logs    how often the account's log was created
--   from    log records stamped earlier have numbers of an earlier life
--   heard<key of a log>  what clients have heard of it, see restore.lua
-- A label is method, lane, job and region, each after a byte with its length. Its number is random:
-- a number that a failover lost is then unknown, rather than another label's.
--
-- The first release stops with an error when items begin with FORMAT. It must not go on: it would
-- misread records of notes, and log calls where no log is kept.

local meta, log = KEYS[1], KEYS[2]
local items_of, of_scope, FORMAT, DAY = accounts().items_of, accounts().of_scope, accounts().FORMAT, accounts().DAY
local MOST, LABELS, OTHER = 128, 65000, 65535 -- mostItems, labels that have numbers, otherLabel
local HISTORY = 34560000000000 -- quota.MaxHistory
local head, items, asked = unpack(redis.call('HMGET', meta, 'head', 'items', 'limits'))
local now = clock(ARGV[1])
if #ARGV == 1 then return {string.sub(head or '', 1, 12), items or '', asked or '', now} end
if #ARGV[2] ~= 12 then error('ration: bad argument: head') end

local EVERYTHING = string.rep('\0', 17) -- defines the coverage of the log itself

-- begin_life writes meta anew. With it, the log's horizon was lost: until all clients have asked
-- again, the log stays as long.
local function begin_life()
  local last, from = redis.call('LINDEX', log, '-1'), 0
  head, items = string.sub(ARGV[2], 1, 8) .. struct.pack('>I3B', 0, redis.call('EXISTS', KEYS[3])), FORMAT
  if last then
    local first, _, _, label = struct.unpack('>I7I6I4I2', redis.call('LINDEX', log, '0'))
    from = struct.unpack('>I7', last) + 1
    local reach = math.min(math.max(now - first, 0), HISTORY)
    if label > 0 and reach > 0 then
      items = items .. struct.pack('>c12BI7I7I7I7I4', string.rep('0', 12), 2, reach, now, reach, 0, #EVERYTHING) .. EVERYTHING
    end
  end
  redis.call('HSET', meta, 'head', head, 'items', items, 'from', string.format('%.0f', from), 'logs', last and 1 or 0)
end

if not head then begin_life() end
head = string.sub(head, 1, 12)
local version = string.match(items, '^ration ledger, version (.)')
if version and version ~= '2' then return {head, items, '', now} end -- of a later release

local function in_use(item) return math.max(item.asked, item.before) end

-- turn_use begins an item's next generation when it is time; raise_horizon
-- makes its horizon at least as long. See decide.RecentHorizon.
local function turn_use(item)
  local length = math.max(2 * in_use(item), DAY)
  item.since = math.min(item.since, now) -- the clock was ahead
  if in_use(item) == 0 or now < item.since + length then return end
  if now >= item.since + 2 * length then item.asked = 0 end
  item.since, item.before, item.asked = now, item.asked, 0
end

local function raise_horizon(item, horizon)
  turn_use(item)
  if horizon <= item.asked then return end
  if in_use(item) == 0 then item.since = now end
  item.asked = horizon
end

local kept, changed = items_of(items, now), not version -- changed: clients must read them again

-- add adds a coverage to a scope, in the place of the oldest if there are MOST. A process that
-- still uses that one fills it again from the log, so one with the longest horizon goes last.
local function add(want, scope)
  local places, longest = {}, 0
  for n, item in ipairs(kept) do
    if of_scope(item, scope) then places[#places + 1], longest = n, math.max(longest, item.horizon) end
  end
  local oldest = places[1]
  for n = #places, 1, -1 do
    if kept[places[n]].horizon < longest then oldest = places[n] end
  end
  if #places >= MOST then table.remove(kept, oldest) end
  kept[#kept + 1], changed = want, true
end

-- add_coverages adds the coverages that are asked. A list whose horizon grows is replaced under
-- another id and filled from the log.
local function add_coverages(wanted)
  local where = 1
  while where <= #wanted do
    local want = {before = 0, asked = 0, since = now}
    want.id, want.flags, want.horizon, want.def, where = struct.unpack('>c12BI7I4c0', wanted, where)
    local scope, counter = want.flags >= 4 and 4 or 2, want.flags % 2 == 1
    if want.flags ~= scope + (counter and 1 or 0) or want.horizon < 1 then error('ration: bad argument: coverage') end
    want.counter = counter
    local known = false
    for n = #kept, 1, -1 do
      local have = kept[n]
      if of_scope(have, scope) and have.counter == counter and have.def == want.def and (not counter or have.horizon == want.horizon) then
        if have.horizon >= want.horizon then
          known = true
          raise_horizon(have, want.horizon)
        else
          want.since, want.asked, want.before = have.since, have.asked, have.before
          have.flags, changed = have.flags - scope, true
          if have.flags < 2 then table.remove(kept, n) end
        end
      end
    end
    if not known then
      raise_horizon(want, want.horizon)
      add(want, scope)
    end
  end
end

-- drop_unused removes what no client has asked for long, and shortens horizons to what they ask.
local function drop_unused()
  for n = #kept, 1, -1 do
    local item = kept[n]
    turn_use(item)
    if in_use(item) == 0 then
      table.remove(kept, n)
      changed = true
    elseif not item.counter and item.horizon > in_use(item) then
      item.horizon, changed = in_use(item), true
    end
  end
end

add_coverages(ARGV[3])
drop_unused()
local longest, parts = 0, {FORMAT}
for n, item in ipairs(kept) do
  parts[n + 1] = struct.pack('>c12BI7I7I7I7I4', item.id, item.flags, item.horizon, item.since, item.asked, item.before, #item.def) .. item.def
  longest = math.max(longest, item.horizon)
end
local written = table.concat(parts)
if written ~= items then redis.call('HSET', meta, 'items', written) end
local renewed, lifted = limits().renew(asked or '', ARGV[4], now)
if renewed ~= (asked or '') then redis.call('HSET', meta, 'limits', renewed) end
if changed or lifted then head = accounts().turn(meta) end

-- free returns an unused number, or OTHER if all labels are numbered. Steps of different lengths
-- keep used numbers from growing into runs: the last label tries 125 numbers on average. PRIME is
-- the largest below OTHER, so that each length of step leads to all numbers.
local PRIME = 65521
local function free(random)
  if tonumber(redis.call('HGET', meta, 'labels') or '0') >= LABELS then return OTHER end
  local step = math.floor(random / 2) + 1
  for try = 0, PRIME - 1 do
    local number = (random + try * step) % PRIME + 1
    if redis.call('HEXISTS', meta, 'l' .. number) == 0 then return number end
  end
  return OTHER
end

local answer = {head, written, renewed, now}
for n = 5, #ARGV do
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
