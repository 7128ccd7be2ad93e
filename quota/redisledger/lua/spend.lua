-- Decides one batch. Nothing is written before all is decided.
-- KEYS: meta, the log, sources, then, unless the batch is fresh, cooldowns and the
-- client's slot.
-- ARGV: the batch, the time of a test if it has one. Source 0 is the log. A batch is
--   head 12, mode 1, client 6, seq 7, the log's horizon 7, how many charges 2 and groups 2,
--   the charges, see new_charges in common.lua
--   the sources: kind 1, calls 1, horizon 7 (a counter's is its length)
--   groups of requests that differ in nothing: label 2, units 4 (top bit: forced), place of the
--     first in the batch 4 (top bit: no calls), how many 2, how many sources count it 1 and charges it has 2 (all
--     bits: every one that is there), those sources 1 each, those charges 2 each
--   the names of the charges' budgets 2 + n each
--   when it is sent again how many requests the batch had 4, since 7, and which try it is 2
-- Answer, packed: 1: other head, ask again; 2, now 7: other days; 3: a batch that came too
-- late; 4: ask again; 5, a later try 2: that one was decided; 0, now 7, then of as many requests as it says (4) each
--   0, the first's stamp 7, the others' a microsecond apart
--   1, charge 2, used 7, retry at 7
--   2, the same and the reason 2 + n, for a cooldown
--   3: the log is full
--   4, charge 2, used 7, kept for others 7, retry at 7, whether it is a cooldown 1 and its reason
--     2 + n, and how many charges have floors that end 2: of each its number 2, and what it
--     holds and keeps today and of the next day 7 each; for a request that has charges with floors
--
-- Exactly once. A batch whose answer was lost is sent again, and the first copy may
-- still be on its way. The modes:
--   fresh  the ledger sends this batch for the first time. It leaves no trace but its
--          records, each of which carries its id.
--   watched  the same, while head says that there may be cooldowns and slots to look at.
--   resent it is sent again. First of all head changes and the slot is written: they hold
--          off the first copy, should that come later. Then the log is searched for the
--          batch's records, from the newest back to since, a stamp that the batch's must be
--          above and no older than an hour; a page at a time, and what was found stands in the
--          slot. Then it is decided as a named one.
--   named  the id is the caller's, who alone knows whether it came before. What is granted
--          stands in the slot.
--   again  named, and its answer was lost. It stands in the slot, refused too.
-- A try may come late that another was sent after: the slot tells the number of the last
-- that was decided, and those before it are not decided any more.
-- Of a log with a key the mode is 8 more.
-- A slot is seq 7, the stamp before which is still to be searched 7 (0: nothing is), the try 2, and
-- of each grant its place 4 and stamp 7.

local meta = KEYS[1]
local real, now = not time, clock(time or '')
local client, seq, horizon, ncharges, ngroups, where = unpacked('>I6I7I7I2I2', batch, 14)
local charges
charges, where = new_charges(batch, where, ncharges, now)
if not charges then return pack('>BI7', 2, now) end
if mode > WATCHED and mode ~= AGAIN then bad('mode') end

local guarded = string.byte(head, 12) == 1
local nsources, cool, slot = #KEYS - 2, nil, nil
if guarded or mode ~= FRESH then
  nsources, cool, slot = #KEYS - 4, KEYS[#KEYS - 1], KEYS[#KEYS]
end
if mode == WATCHED then mode = FRESH end

-- Sources are read now, groups later: what they have in common comes first.
local packed_sources, groups = where, {}
where = where + 9 * nsources
local function numbers(format, many, all)
  local list = {}
  if many == all[1] then
    for n = 1, all[2] do list[n] = n end
    return list
  end
  for n = 1, many do list[n], where = unpacked(format, batch, where) end
  return list
end
for n = 1, ngroups do
  local g = {}
  local nfeeds, nmine
  g.label, g.units, g.place, g.times, nfeeds, nmine, where = unpacked('>I2I4I4I2BI2', batch, where)
  g.calls = g.place < NOCALL and 1 or 0
  g.place = g.place % NOCALL
  if g.calls == 0 and g.units < NOCALL then bad('no call') end
  if g.units < 1 or g.label < 1 or g.times < 1 then bad('group') end
  g.feeds = numbers('>B', nfeeds, {255, nsources})
  g.charges = numbers('>I2', nmine, {65535, ncharges})
  groups[n] = g
end
for _, c in ipairs(charges) do c.budget, where = unpacked('>I2c0', batch, where) end
local many, since, try = 0, 0, 0
if mode == RESENT or mode == AGAIN then
  many, since, try = unpacked('>I4I7I2', batch, where)
  since = max(since, now - 3600000000) -- no copy takes so long
end
if mode == AGAIN then mode = NAMED end

local log = new_list(KEYS[2], horizon)
local before, previous = {}, slot and call('GET', slot) or false

-- search reads the page of the log before an instant, and reports whether it was
-- the last. The records of one batch stand together, so it need not go on before them.
local function search(upto)
  local _, stop = locate(log, upto)
  local from, searched = max(0, stop - PAGE), 0
  local found, begins = {}, false
  if stop > 0 then
    for n, record in ipairs(call('LRANGE', log.key, from, stop - 1)) do
      local stamp, _, _, _, by, number = unpacked('>I7I6I4I2I6I4', record)
      local place = (number - seq) % SEQ
      local ours = by == client and place < many
      if ours then found[#found + 1] = pack('>I4I7', place, stamp) end
      if n == 1 and from > 0 and stamp > since then searched = stamp end
      if n == 1 then begins = not ours end
    end
    if begins and (#found > 0 or #previous > 16) then searched = 0 end
  end
  previous = pack('>I7I7I2', seq, searched, try) .. string.sub(previous, 17) .. table.concat(found)
  if real then call('SET', slot, previous, 'PX', '600000') else call('SET', slot, previous) end
  return searched == 0
end

if mode == RESENT then guard(meta, now + 600000000) end
if previous or mode == RESENT then
  local last, upto, tries = -1, nil, 0
  if previous then last, upto, tries = unpacked('>I7I7I2', previous) end
  if last > seq or last == seq and mode == FRESH then return '\3' end
  if last == seq and tries > try then return pack('>BI2', 5, tries) end
  if last < seq and mode == RESENT then
    previous, last, upto = '', seq, log.stamp + 1
  end
  if last == seq then
    if upto > 0 and not search(upto) then return '\4' end
    for where = 17, #previous, 11 do
      local place, stamp = unpacked('>I4I7', previous, where)
      before[place] = stamp
    end
  else
    previous = false
  end
end

-- A source is read when it is first asked for: floors are often not.
local sources = setmetatable({[0] = log}, {__index = function(all, n)
  if n > nsources then return nil end
  local kind, calls, kept = unpacked('>BBI7', batch, packed_sources + 9 * (n - 1))
  local source = kind == 0 and new_list(KEYS[n + 2], kept) or new_counter(KEYS[n + 2], kept)
  source.calls = calls == 1
  all[n] = source
  return source
end})

-- found fills a source that is charged and not there.
local function found(source)
  if source == log or source.stored or source.filled then return true end
  for _, item in ipairs(items_of(call('HGET', meta, 'items'))) do
    if item.id == string.sub(source.key, -12) then
      fill(source, log, new_labels(meta), item.def, now)
      source.filled = true
      return true
    end
  end
  return false
end
for _, c in ipairs(charges) do
  c.list = sources[c.source]
  if not c.list or (c.kind == COUNTER) ~= (c.list.counter or false) then bad('source') end
  if not found(c.list) then return '\1' end
end
local cooled = cool and cooldowns(cool, charges, now) or {}

local beside -- made when it is needed

-- judge returns why a request is refused, or nil. Of several reasons it is
-- the one that ends last, the first of those.
local function judge(units, mine)
  local latest, why = 0, nil
  for _, n in ipairs(mine) do
    if charges[n].floors then
      beside = beside or floors(function(source)
        local list = sources[source]
        if not list or list.counter or not found(list) then bad('floor') end
        return list
      end)
      return beside(units, charges, mine, cooled, now)
    end
  end
  for _, n in ipairs(mine) do
    local c = charges[n]
    local amount = amount_of(c.list.calls, units, 1)
    if amount > c.limit then bad('units') end
    local used, again = ask(c, now, amount)
    if again > latest then latest, why = again, pack('>BI4I2I7I7', 1, 1, n, used, again) end
    local cool = cooled[c.budget]
    if cool and c.budget ~= '' and cool.till > latest then
      latest, why = cool.till, pack('>BI4I2I7I7I2', 2, 1, n, used, cool.till, #cool.reason) .. cool.reason
    end
  end
  local all = cooled['']
  if all and all.till > latest then why = pack('>BI4I2I7I7I2', 2, 1, 0, 0, all.till, #all.reason) .. all.reason end
  return why
end

local function record(units, calls, label, number, feeds)
  local stamp = max(now, log.stamp + 1)
  push(log, stamp, units)
  if calls == 0 then log.pending[log.count] = pack('>I7I6I4', stamp, log.total, NOCALL + units) end
  log.pending[log.count] = log.pending[log.count] .. pack('>I2I6I4', label, client, number % SEQ)
  for _, n in ipairs(feeds) do
    local source = sources[n]
    local amount = amount_of(source.calls, units, calls)
    if not (source.stored or source.filled) then -- it is filled when somebody asks for it
    elseif source.counter then
      tick(source, stamp, amount)
    else
      push(source, stamp, amount)
    end
  end
  return stamp
end

local answer, granted = {pack('>BI7', 0, now)}, {}
local function decide(g, place)
  local units = g.units % NOCALL
  if before[place] then return pack('>BI4I7', 0, 1, before[place]) end
  local why = g.units < NOCALL and judge(units, g.charges)
  if why then return why end
  if full(log, units) then return pack('>BI4', 3, 1) end
  local stamp = record(units, g.calls, g.label, seq + place, g.feeds)
  granted[#granted + 1] = pack('>I4I7', place, stamp)
  return pack('>BI4I7', 0, 1, stamp)
end
for _, g in ipairs(groups) do
  for place = g.place, g.place + g.times - 1 do answer[#answer + 1] = decide(g, place) end
end

local renewed, other = store(log, now, real)
if renewed and real then lives(meta, max(log.horizon, 93600000000)) end
if other and not keyed then note(meta, log.key) end
for n = 1, nsources do
  local source = rawget(sources, n)
  if not source then -- nobody asked
  elseif source.counter then store_counter(source, real) else store(source, now, real) end
end
if mode ~= FRESH and (#granted > 0 or try > 0) then
  local slotted = pack('>I7I7I2', seq, 0, try) .. string.sub(previous or '', 17) .. table.concat(granted)
  if real then call('SET', slot, slotted, 'PX', '600000') else call('SET', slot, slotted) end
end
if guarded and mode ~= RESENT and #granted > 0 then unguard(meta, cool, now) end
return table.concat(answer)
