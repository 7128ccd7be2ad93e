-- What all scripts begin with. Data comes only through KEYS and ARGV; numbers
-- in ARGV are packed big-endian, so they are whole and not negative by nature.
--
-- Lua counts in doubles, exact for whole numbers below 2^53. Stamps are
-- microseconds since the Unix epoch (below 2^53 until the year 2255). Running totals
-- wrap at 2^48 and are only ever subtracted, so a total may grow for ever;
-- what one log holds at once stays below 2^48, twice the highest limit (see full).
--
-- A LIST of records, oldest first, answers for one coverage. A record is
--     stamp  7 bytes  strictly increasing within a log
--     total  6 bytes  running total after this record, modulo 2^48
--     amount 4 bytes  what it counts; in the log the top bit says: not a call
-- and in the log, which is also the list of the units of all calls, after it
--     label  2 bytes  who and what, see learn.lua
--     client 6 bytes, seq 4 bytes (its low 32 bits): the id of the request
-- So what a window holds is the total of the last record less the total before
-- the first that it sees: two reads at the ends of the list, and to admit is one write.
-- A list is never trimmed to nothing, so one that is there has been filled from
-- the log and been fed since; one that covers nothing yet holds a record of stamp 0.
--
-- An estimate keeps two counters in a STRING: 7 bytes start of the present
-- period, 6 bytes its count, 6 bytes the count of the period before.
--
-- What costs time in a script is calling the server (half a microsecond to one, more
-- when a number must become text: hence '0' and '-1'), struct (a third), each KEY and
-- ARGV, each number answered, and making functions (a tenth each, in every run). So
-- single.lua decides what is most common with no function and no table, plain.lua what
-- is common with hardly any, it calls core only when it must search, and only what it
-- leaves undecided meets common.lua.

local call, pack, unpacked = redis.call, struct.pack, struct.unpack

local WRAP = 281474976710656 -- 2^48
local NOCALL = 2147483648 -- 2^31
local BLOCK = 1099511627776 -- 2^40
local SEQ = 4294967296 -- 2^32
local SLACK = 120000000 -- entries stay two minutes longer: a clock may step back by that
local SLIDING, DAILY, COUNTER, FLOORED = 1, 2, 3, 16
local FRESH, NAMED, RESENT, WATCHED, SINGLE, AGAIN, KEYED = 0, 1, 2, 3, 4, 5, 8 -- see spend.lua
-- core makes what searches lists.
local function core()
  local floor, max, min = math.floor, math.max, math.min

  -- new_list returns the list of a key. Records in pending are not stored yet.
  local function new_list(key, horizon)
    local last = call('LINDEX', key, '-1')
    if not last then return {key = key, horizon = horizon, stamp = 0, total = 0, was = 0, count = 0, pending = {}} end
    local stamp, total = unpacked('>I7I6', last)
    return {key = key, horizon = horizon, stamp = stamp, total = total, was = stamp, count = 0, pending = {}, stored = true}
  end

  local function size(list)
    if not list.length then
      list.length = list.stored and call('LLEN', list.key) or 0
    end
    return list.length + list.count
  end

  -- at returns the stamp, total and amount of the record of a place, counted from 0.
  local function at(list, place)
    local packed
    if place == 0 and list.stored then
      packed = list.first
      if not packed then
        packed = call('LINDEX', list.key, '0')
        list.first = packed
      end
    else
      size(list)
      local seen = list.seen
      if place < list.length then
        packed = seen and seen[place] or call('LINDEX', list.key, place)
        if seen then seen[place] = packed end
      else
        packed = list.pending[place - list.length + 1]
      end
    end
    local stamp, total, amount = unpacked('>I7I6I4', packed)
    if amount >= NOCALL then amount = amount - NOCALL end
    return stamp, total, amount
  end

  -- seek returns the first place above low whose record reaches a bound: with its
  -- stamp, or given a base with its total above that. The one at high does. It
  -- gallops from a guess and then halves.
  local function seek(list, low, high, guess, bound, base)
    local step, up = 1, nil
    while high - low > 1 do
      guess = max(low + 1, min(high - 1, guess))
      local short, total = at(list, guess)
      if base then short = (total - base) % WRAP end
      short = short < bound
      if short then low = guess else high = guess end
      if up == nil then up = short end
      if short == up and step then -- still on the way
        guess, step = short and low + step or high - step, step * 2
      else
        guess, step = floor((low + high) / 2), nil
      end
    end
    return high
  end

  -- locate returns the total before an instant and the place of the first record
  -- at or after it. It begins where that would be if calls came evenly.
  local function locate(list, instant)
    if list.stamp < instant then return list.total, size(list) end
    local stamp, total, amount = at(list, 0)
    if stamp >= instant then return (total - amount) % WRAP, 0 end
    local low, high = 0, size(list) - 1
    if stamp == 0 then -- the list began with nothing
      low = 1
      stamp, total, amount = at(list, 1)
      if stamp >= instant then return (total - amount) % WRAP, 1 end
    end
    local guess = low + floor((instant - stamp) / (list.stamp - stamp) * (high - low))
    high = seek(list, low, high, guess, instant)
    stamp, total, amount = at(list, high)
    return (total - amount) % WRAP, high
  end

  -- reach returns the stamp of the first record from place on at which the total
  -- is so much above base. There is one. It begins where that would be if all
  -- counted as much as the first; records may count 0, so that is no more than a guess.
  local function reach(list, place, base, amount)
    local stamp, total, first = at(list, place)
    local more = amount - (total - base) % WRAP
    if more <= 0 then return stamp end
    local guess = place + floor((more - 1) / max(first, 1)) + 1
    return (at(list, seek(list, place, size(list) - 1, guess, amount, base)))
  end

  -- fits_at returns when an amount fits that does not fit a sliding or daily window now.
  -- Many in one batch ask the same.
  local function fits_at(charge, short, amount)
    local list = charge.list
    if charge.asked == amount and charge.told_at == list.total then return charge.told end
    local told
    if charge.kind == SLIDING then
      told = reach(list, charge.place, charge.before, short) + charge.length
    else
      local before = locate(list, charge.next)
      told = (list.total - before) % WRAP + amount <= charge.limit and charge.opens or charge.reopens
    end
    charge.asked, charge.told_at, charge.told = amount, list.total, told
    return told
  end

  return locate, fits_at, new_list, size, at, reach, seek
end
-- What the scripts share beyond core.lua.

local locate, fits_at, new_list, size, at, reach, seek = core()
local floor, max, min, fmod = math.floor, math.max, math.min, math.fmod
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

-- head_of returns meta's head, which clients know, and what stands behind it.
local function head_of(meta)
  local stored = call('HGET', meta, 'head') or ''
  return string.sub(stored, 1, 12), string.sub(stored, 13)
end

-- turn gives meta a head that it has never had, so that nothing sent before can
-- be decided any more. Its last byte says whether there are cooldowns or slots to look at.
local function turn(meta, look)
  local head, oldest = head_of(meta)
  local version = call('HINCRBY', meta, 'version', 1)
  head = string.sub(head, 1, 8) .. pack('>I3B', version % 16777216, look)
  call('HSET', meta, 'head', head .. oldest)
  return head
end

-- note tells meta of the oldest record of the account's own log. A meta that was lost is
-- left to learn.lua: half of one would be taken for whole.
local function note(meta, key)
  local head = head_of(meta)
  if head == '' then return end
  local stamp, total, amount = unpacked('>I7I6I4', call('LINDEX', key, '0'))
  amount = amount % NOCALL
  call('HSET', meta, 'head', head .. pack('>I7I6I4', stamp, (total - amount) % WRAP, amount))
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
  if a * b < 9007199254740992 then
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

-- new_charges reads so many charges from a place on: kind (16 more with floors), source,
-- length, limit, of a daily window its five instants, and of floors how many 1, how long
-- before a day's end they end 7, and of each its source 1 and units 6. It returns nil when a day is no longer, or not
-- yet, its window's: the client must send other instants.
local function new_charges(packed, where, many, now)
  local charges = {}
  for n = 1, many do
    local c = {}
    c.kind, c.source, c.length, c.limit, where = unpacked('>BBI7I6', packed, where)
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

-- items_of reads what meta says of coverages: an id (the end of the key), the kind
-- (0 a list, 1 a counter), the horizon and the definition of each.
local function items_of(packed)
  local items, where = {}, 1
  while where <= #packed do
    local item = {from = where}
    item.id, item.kind, item.horizon, item.def, where = unpacked('>c12BI7I4c0', packed, where)
    item.upto = where - 1
    items[#items + 1] = item
  end
  return items
end

-- gather feeds what a coverage counts in the log since an instant to add(stamp, amount),
-- what is pending too.
local function gather(log, labels, def, since, add)
  local c = coverage(def)
  local function count(packed)
    local stamp, _, raw, label = unpacked('>I7I6I4I2', packed)
    if covers(c, labels(label, stamp)) then
      local units = raw % NOCALL
      add(stamp, amount_of(c.calls, units, raw < NOCALL and 1 or 0))
    end
  end
  local _, place = locate(log, max(since, 1))
  local stored = size(log) - log.count
  while place < stored do
    for _, packed in ipairs(call('LRANGE', log.key, place, place + 499)) do count(packed) end
    place = min(place + 500, stored)
  end
  for n = place - stored + 1, log.count do count(log.pending[n]) end
end

-- push adds a record to a list, pending.
local function push(list, stamp, amount)
  list.stamp, list.total, list.count = stamp, (list.total + amount) % WRAP, list.count + 1
  list.pending[list.count] = pack('>I7I6I4', stamp, list.total, amount)
end

-- tick adds an amount to a counter, pending.
local function tick(counter, stamp, amount)
  counter.start, counter.present, counter.before = periods(counter, stamp)
  counter.present, counter.changed = counter.present + amount, true
end

-- fill makes a list or counter that is not there say what the log says, pending.
local function fill(source, log, labels, def, now)
  if source.counter then
    source.changed = true
    local since = now - 2 * source.length - SLACK
    gather(log, labels, def, since, function(stamp, amount) tick(source, stamp, amount) end)
    return
  end
  gather(log, labels, def, now - source.horizon - SLACK, function(stamp, amount) push(source, stamp, amount) end)
  if source.count == 0 then push(source, 0, 0) end
end

-- full reports whether one more amount would make the log hold more than its
-- totals can tell apart. It looks only when the total enters another block of 2^40.
local function full(log, amount)
  if floor((log.total + amount) / BLOCK) == floor(log.total / BLOCK) or size(log) == 0 then return false end
  local _, total, counted = at(log, 0)
  return (log.total - total + counted) % WRAP + amount > WRAP - 2 * BLOCK
end

-- lives renews a key's life: two horizons and some minutes, on real time.
local function lives(key, horizon)
  call('PEXPIRE', key, string.format('%.0f', floor(2 * horizon / 1000) + 300000))
end

-- store writes what is pending and drops what no window can see any more. It
-- reports whether a new sixteenth of the horizon has begun: often enough to
-- renew a key's life, and to trim what nobody asks for; and whether another record is
-- the first now.
local function store(list, now, real)
  if list.count == 0 then return false end
  local part = max(floor(list.horizon / 16), 1000000)
  local begins = not list.stored or floor(list.was / part) ~= floor(list.stamp / part)
  local edge, cut = now - list.horizon - SLACK, 0
  if list.stored and (begins or list.first) and at(list, 0) <= edge and list.stamp > edge then
    if list.was <= edge then cut = size(list) - list.count else cut = select(2, locate(list, edge + 1)) end
  end
  for n = 1, list.count, 1000 do
    call('RPUSH', list.key, unpack(list.pending, n, min(n + 999, list.count)))
  end
  if cut > 0 then call('LTRIM', list.key, string.format('%.0f', cut), '-1') end
  if begins and real then lives(list.key, list.horizon) end
  return begins, cut > 0 or not list.stored
end

local function store_counter(counter, real)
  if not counter.changed then return end
  call('SET', counter.key, pack('>I7I6I6', counter.start, counter.present, counter.before), 'KEEPTTL')
  if real and (not counter.stored or counter.start ~= counter.was) then lives(counter.key, 2 * counter.length) end
end
-- Gives numbers to labels and takes up coverages. Without any it only reads.
-- KEYS: meta, the account's log, its cooldowns.
-- ARGV: the time of a test, twelve random bytes, the coverages (see items_of), and labels,
-- each with two random bytes before it.
-- Answer: head, coverages, the labels' numbers.
--
-- meta is one hash, so that it is lost as a whole or not at all:
--   head    eight random bytes that name this life of meta, three that are another version
--           whenever the coverages or the next change, which is 1 when there are cooldowns
--           or slots to look at; what clients know is good for one head. Behind it, when
--           the account's own log is there, what is known of its first record: stamp 7, the
--           total before it 6, what it counts 4
--   version counts the heads of this life, so that none comes again
--   guard   until when it is 1 at least, see guard in common.lua
--   items   the coverages
--   labels  how many labels have a number; n<words> the number, l<number> the words
--   from    records of the log stamped before carry numbers of an earlier life
-- Numbers are random, not counted: after a failover that lost the newest, a client's
-- number is one that nobody knows, not somebody else's.
--
-- A label is method, lane, job and region, each with a byte of its length before it.

local meta, log = KEYS[1], KEYS[2]
local MOST, LABELS = 128, 65000
if #ARGV[2] ~= 12 then bad('head') end
local head, items = unpack(call('HMGET', meta, 'head', 'items'))
if #ARGV == 3 and ARGV[3] == '' then return {string.sub(head or '', 1, 12), items or ''} end

if not head then
  local last, from = call('LINDEX', log, '-1'), 0
  if last then from = unpacked('>I7', last) + 1 end
  head, items = string.sub(ARGV[2], 1, 8) .. pack('>I3B', 0, call('EXISTS', KEYS[3])), ''
  call('HSET', meta, 'head', head, 'items', items, 'from', string.format('%.0f', from))
  if last then note(meta, log) end
end
head = string.sub(head, 1, 12)

-- A list whose horizon grows begins anew under another id, filled from the log.
local kept, changed, parts = items_of(items), false, {}
for _, want in ipairs(items_of(ARGV[3])) do
  if want.kind > 1 or want.horizon < 1000 then bad('coverage') end
  local known = false
  for n = #kept, 1, -1 do
    local have = kept[n]
    if have.kind == want.kind and have.def == want.def and (have.kind == 0 or have.horizon == want.horizon) then
      if have.horizon >= want.horizon then known = true else table.remove(kept, n) end
    end
  end
  if not known then
    if #kept >= MOST then -- whoever still asks for it fills it again, so the log must go on to reach as far
      local longest = 0
      for _, item in ipairs(kept) do longest = max(longest, item.horizon) end
      local oldest = 1
      while oldest < #kept and kept[oldest].horizon == longest do oldest = oldest + 1 end
      table.remove(kept, oldest)
    end
    kept[#kept + 1] = want
    changed = true
  end
end
local longest = 0
for n, item in ipairs(kept) do
  parts[n] = pack('>c12BI7I4', item.id, item.kind, item.horizon, #item.def) .. item.def
  longest = max(longest, item.horizon)
end
if changed then
  items = table.concat(parts)
  call('HSET', meta, 'items', items)
  head = turn(meta, string.byte(head, 12))
end

-- free returns a number that no label has, from a random one on, or the number of all others.
local function free(random)
  if tonumber(call('HGET', meta, 'labels') or '0') >= LABELS then return OTHER end
  for try = 0, 63 do
    local number = (random + try) % (OTHER - 1) + 1
    if call('HEXISTS', meta, 'l' .. number) == 0 then return number end
  end
  return OTHER
end

local answer = {head, items}
for n = 4, #ARGV do
  local random, label = unpacked('>I2', ARGV[n]), string.sub(ARGV[n], 3)
  local number = tonumber(call('HGET', meta, 'n' .. label) or '0')
  if number == 0 then
    number = free(random)
    if number ~= OTHER then
      call('HINCRBY', meta, 'labels', 1)
      call('HSET', meta, 'n' .. label, number, 'l' .. number, label)
    end
  end
  answer[#answer + 1] = number
end
if ARGV[1] == '' then lives(meta, max(longest, 93600000000)) end
return answer
