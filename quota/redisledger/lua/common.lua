-- What the scripts share beyond core.lua.

local locate, fits_at, new_list, size, at, reach, seek = core()
local floor, max, min, fmod = math.floor, math.max, math.min, math.fmod
local FORMAT = 'ration ledger, version 2' -- what meta's items begin with, see items_of
local DAY = 86400000000
local PAGE = 250 -- records that one script reads at most, in a tenth of a millisecond or two
local OTHER = 65535 -- the label of all calls that found no number left

local function bad(what)
  error('ration: bad argument: ' .. what)
end

-- clock returns the test's time in microseconds, or else the server's.
local function clock(given)
  if given == '' then
    local time = call('TIME')
    return time[1] * 1000000 + time[2]
  end
  if #given ~= 7 then bad('time') end
  return (unpacked('>I7', given))
end

-- head_of returns meta's head, which clients know.
local function head_of(meta)
  return string.sub(call('HGET', meta, 'head') or '', 1, 12)
end

-- turn gives meta a head that it has never had, so that nothing sent before can
-- be decided any more. Its last byte says whether there are cooldowns or slots to look at.
local function turn(meta, look)
  local version = call('HINCRBY', meta, 'version', 1)
  local head = string.sub(head_of(meta), 1, 8) .. pack('>I3B', version % 16777216, look)
  call('HSET', meta, 'head', head)
  return head
end

-- guard makes all clients know that there are cooldowns or slots to look at,
-- until an instant at least.
local function guard(meta, till)
  local head, have = unpack(call('HMGET', meta, 'head', 'guard'))
  if not head then return end
  if tonumber(have or '0') < till then call('HSET', meta, 'guard', string.format('%.0f', till)) end
  if string.byte(head, 12) == 0 then turn(meta, 1) end
end

-- unguard is the reverse, when nothing is left to look at.
local function unguard(meta, cool, now)
  local till = call('HGET', meta, 'guard')
  if now <= tonumber(till or '0') or call('EXISTS', cool) == 1 then return end
  turn(meta, 0)
end

-- product returns floor(a*b/c) and whether something was left over, for whole
-- numbers below 2^48 with a quotient below 2^53: long division, four bits at a time.
local function product(a, b, c)
  if a * b < EXACT then
    local rest = fmod(a * b, c)
    return (a * b - rest) / c, rest > 0
  end
  local quotient, rest, unit = 0, 0, 17592186044416 -- 2^44
  while unit >= 1 do
    local digit = floor(a / unit) % 16
    local sum = rest * 16 + digit * b
    rest = fmod(sum, c)
    quotient = quotient * 16 + (sum - rest) / c
    unit = unit / 16
  end
  return quotient, rest > 0
end

-- periods returns a counter's period at an instant: its start, its count and the
-- one's before. After a clock has stepped back it may lie ahead of the instant.
local function periods(counter, now)
  local start = now - now % counter.length
  if start <= counter.start then return counter.start, counter.present, counter.before end
  return start, 0, start == counter.start + counter.length and counter.present or 0
end

local function new_counter(key, length)
  local counter = {counter = true, key = key, length = length, start = 0, present = 0, before = 0}
  local packed = call('GET', key)
  if packed then
    counter.stored = true
    counter.start, counter.present, counter.before = unpacked('>I7I6I6', packed)
  end
  counter.was = counter.start
  return counter
end

local function share(count, part, whole)
  local quotient, rest = product(count, part, whole)
  if rest then quotient = quotient + 1 end
  return quotient
end

local function showing(left, count, whole)
  if left >= count then return whole end
  return (product(left, whole, count))
end

-- estimate returns what a counter window holds, and when amount fits: 0 for now.
local function estimate(counter, now, limit, amount)
  local start, present, before = periods(counter, now)
  local length, ends = counter.length, start + counter.length
  local used = present + share(before, ends - max(now, start), length)
  if used + amount <= limit then return used, 0 end
  local left = limit - amount - present
  if left >= 0 then return used, ends - showing(left, before, length) end
  return used, ends + length - showing(limit - amount, present, length)
end

-- hidden returns how much of the period before an estimate takes for gone.
local function hidden(counter, now)
  local start, _, before = periods(counter, now)
  return before - share(before, start + counter.length - max(now, start), counter.length)
end

-- new_charges reads so many charges from a place on: kind (16 more with floors), source,
-- length (the horizon of a daily window), limit, the place of the first record that the window
-- sees if the process knows it (4), of a daily window its five instants, and of floors how many 1, how long
-- before a day's end they end 7, and of each its source 1 and units 6. It returns nil when a day is no longer, or not
-- yet, its window's: the client must send other instants.
local function new_charges(packed, where, many, now)
  local charges = {}
  for n = 1, many do
    local c = {}
    c.kind, c.source, c.length, c.limit, c.hint, where = unpacked('>BBI7I6I4', packed, where)
    if c.limit < 1 or c.limit >= WRAP / 2 then bad('limit') end
    local floored = c.kind >= FLOORED
    if floored then c.kind = c.kind - FLOORED end
    if c.kind == DAILY then
      c.start, c.since, c.opens, c.next, c.reopens, where = unpacked('>I7I7I7I7I7', packed, where)
      if now < c.start or now >= c.opens then return nil end
    elseif c.kind == SLIDING or c.kind == COUNTER then
      if c.length < 1000 then bad('window') end
      c.since = max(now - c.length + 1, 1)
    else
      bad('kind of window')
    end
    if floored then
      local many
      c.floors, c.all, many, c.ends, where = {}, 0, unpacked('>BI7', packed, where)
      for i = 1, many do
        local f = {}
        f.source, f.units, where = unpacked('>BI6', packed, where)
        c.floors[i], c.all = f, c.all + f.units
        if f.units < 1 or f.units > c.limit then bad('floor') end
      end
      if c.kind == COUNTER or c.ends > 0 and c.kind ~= DAILY then bad('floors') end
    end
    charges[n] = c
  end
  return charges, where
end

-- name gives the charges the names of their budgets, which stand together.
local function name(charges, packed, where)
  for _, c in ipairs(charges) do c.budget, where = unpacked('>I2c0', packed, where) end
end

-- holds returns what a sliding or daily window holds.
local function holds(charge)
  local list = charge.list
  if not charge.place then charge.before, charge.place = locate(list, charge.since) end
  return (list.total - charge.before) % WRAP
end

-- ask returns what a window holds, and when amount fits: 0 for now.
local function ask(charge, now, amount)
  if charge.kind == COUNTER then return estimate(charge.list, now, charge.limit, amount) end
  local used = holds(charge)
  local short = used + amount - charge.limit
  if short <= 0 then return used, 0 end
  return used, fits_at(charge, short, amount)
end

-- frees returns when the next units of a window return that holds some, and 0 for
-- one that holds none.
local function frees(charge, now, used)
  local list = charge.list
  if used <= 0 then return 0 end
  if charge.kind == COUNTER then return select(2, estimate(list, now, used - 1, 0)) end
  if charge.kind == SLIDING then
    charge.frees = charge.frees or reach(list, charge.place, charge.before, 1) + charge.length
    return charge.frees
  end
  -- What was spent around the boundary counts into the next day too.
  local next = list.stamp < charge.next and 0 or (list.total - locate(list, charge.next)) % WRAP
  return next < used and charge.opens or charge.reopens
end

-- ahead returns how far a log's newest stamp is ahead of now, and 0 when it is no
-- further than a clock that stepped back explains.
local function ahead(log, now)
  return log.stamp - now > SLACK and log.stamp - now or 0
end

-- latest returns an instant, or the last that an answer may name when the log's
-- newest stamp is far ahead.
local function latest(instant, charge, far, now)
  if far == 0 or instant == 0 then return instant end
  return min(instant, now + (charge.kind == COUNTER and 2 or 1) * charge.length)
end

-- cooldowns returns those that hold now, by budget: until when, and why. The
-- empty budget is the account.
local function cooldowns(key, charges, now)
  local found = {}
  if call('EXISTS', key) == 0 then return found end
  local names = {''}
  for _, c in ipairs(charges) do names[#names + 1] = c.budget end
  for from = 1, #names, 1000 do
    local last = min(from + 999, #names)
    for n, packed in ipairs(call('HMGET', key, unpack(names, from, last))) do
      local till = packed and unpacked('>I7', packed)
      if till and till > now then
        found[names[from + n - 1]] = {till = till, reason = string.sub(packed, 8)}
      end
    end
  end
  return found
end

-- coverage reads a definition: the measure, then the words of methods, except,
-- lanes and regions.
local function coverage(def)
  local c, where = {calls = string.byte(def) == 1}, 2
  for n = 1, 4 do
    local count
    count, where = unpacked('>I4', def, where)
    if count > 0 then c[n] = {} end
    for _ = 1, count do
      local word
      word, where = unpacked('>I4c0', def, where)
      c[n][word] = true
    end
  end
  return c
end

-- covers reports whether a call of a label is counted. One whose label is not
-- known counts everywhere: rather too much than too little.
local function covers(c, label)
  if not label then return true end
  local method, lane, _, region = unpacked('>Bc0Bc0Bc0Bc0', label)
  return (not c[1] or c[1][method]) and not (c[2] and c[2][method])
    and (not c[3] or c[3][lane]) and (not c[4] or c[4][region]) and true or false
end

local function amount_of(calls, units, times)
  if calls then return times end
  return units
end

-- new_labels returns a function from a record's label and stamp to its words,
-- or false. Labels of records older than meta itself are not known.
local function new_labels(meta)
  local known, from = {}, tonumber(call('HGET', meta, 'from') or '0')
  return function(label, stamp)
    if label == OTHER or stamp < from then return false end
    if known[label] == nil then known[label] = call('HGET', meta, 'l' .. label) end
    return known[label]
  end
end

-- items_of reads what meta says of coverages. Of each: an id, which is the end of its
-- key; flags: 1 a counter, else a list, 2 of the account's own log, 4 of those with keys; the
-- horizon; the generation in which it is used (see decide.Use in Go): when it began,
-- and the longest horizons asked in it and in the one before; and the definition. The
-- first release wrote no FORMAT, of flags only the first, and no generation.
local function items_of(packed)
  local items, where, first = {}, 25, string.sub(packed, 1, 24) ~= FORMAT
  if first then where = 1 end
  while where <= #packed do
    local item = {}
    if first then
      item.id, item.flags, item.horizon, item.def, where = unpacked('>c12BI7I4c0', packed, where)
      item.flags, item.since, item.asked, item.before = item.flags + 6, 0, item.horizon, 0
    else
      item.id, item.flags, item.horizon, item.since, item.asked, item.before, item.def, where = unpacked('>c12BI7I7I7I7I4c0', packed, where)
    end
    item.counter = item.flags % 2 == 1
    items[#items + 1] = item
  end
  return items
end

-- of_scope reports whether an item is of a scope: 2 the account's own log, 4 those with keys.
local function of_scope(item, scope) return item.flags % (2 * scope) >= scope end

-- calls_of returns how many calls a record of the log counts, and of what kind it
-- is, which is 0 for a call.
local function calls_of(record, raw)
  if raw < NOCALL then return 1, 0 end
  if #record < 34 then return 0, 1 end
  return unpacked('>I4B', record, 30)
end

-- keep returns how long what matters for a horizon stays: quota.Retention.
local function keep(horizon) return horizon + max(floor(horizon / 8), SLACK) end

-- gather feeds what a coverage counts in the log since an instant to add(stamp, amount),
-- what is pending too.
local function gather(log, labels, def, since, add)
  local c = coverage(def)
  local function count(packed)
    local stamp, _, raw, label = unpacked('>I7I6I4I2', packed)
    if label ~= 0 and covers(c, labels(label, stamp)) then add(stamp, amount_of(c.calls, raw % NOCALL, (calls_of(packed, raw)))) end
  end
  local _, place = locate(log, max(since, 1))
  local stored = size(log) - log.count
  while place < stored do
    for _, packed in ipairs(call('LRANGE', log.key, place, place + 499)) do count(packed) end
    place = min(place + 500, stored)
  end
  for n = place - stored + 1, log.count do count(log.pending[n]) end
end
