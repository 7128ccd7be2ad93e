-- Decides one batch. Nothing is written before all is decided.
-- KEYS: meta, the log, sources, then, unless the batch is fresh, cooldowns and the
-- client's slot.
-- ARGV: head, the batch, the time of a test if it has one. Source 0 is the log. A batch is
--   client 6, seq 7, mode 1, the log's horizon 7, how many charges 2 and groups 2,
--   the charges: kind 1, source 1, length 7, limit 6, of a daily window its five instants 7 each
--   the sources: kind 1, calls 1, horizon 7 (a counter's is its length)
--   groups of requests that differ in nothing: label 2, units 4 (top bit: forced), place of the
--     first in the batch 4, how many 2, how many sources count it 1 and charges it has 2 (all
--     bits: every one that is there), those sources 1 each, those charges 2 each
--   the names of the charges' budgets 2 + n each
--   when resent how many requests the batch had 4, and since 7
-- Answer, packed: 1: other head, ask again; 2, now 7: other days; 3: a batch that came too
-- late; 4: ask again; 0, now 7, then of as many requests as it says (4) each
--   0, the first's stamp 7, the others' a microsecond apart
--   1, charge 2, used 7, retry at 7
--   2, the same and the reason 2 + n, for a cooldown
--   3: the log is full
--
-- Exactly once. A batch whose answer was lost is sent again, and the first copy may
-- still be on its way. The modes:
--   fresh  the ledger sends this batch for the first time. It leaves no trace but its
--          records, each of which carries its id.
--   watched  the same, while head says that there may be cooldowns and slots to look at.
--   resent it is sent again. First of all head changes and the slot is written: they hold
--          off the first copy, should that come later. Then the log is searched for the
--          batch's records, from the newest back to since, a stamp that the batch's must be
--          above; a page at a time, and what was found stands in the slot. Then it is decided as a named one.
--   named  the id is the caller's, who alone knows whether it came before. What is granted
--          stands in the slot.
-- A slot is seq 7, the stamp before which is still to be searched 7 (0: nothing is), and of each
-- grant its place 4 and stamp 7.

local meta = KEYS[1]
if call('HGET', meta, 'head') ~= ARGV[1] then return '\1' end
local real, now = not ARGV[3], clock(ARGV[3] or '')
local client, seq, mode, horizon, ncharges, ngroups, where = unpacked('>I6I7BI7I2I2', ARGV[2])
local charges
charges, where = new_charges(ARGV[2], where, ncharges, now)
if not charges then return pack('>BI7', 2, now) end
if mode > WATCHED then bad('mode') end

local guarded = string.byte(ARGV[1], 12) == 1
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
  for n = 1, many do list[n], where = unpacked(format, ARGV[2], where) end
  return list
end
for n = 1, ngroups do
  local g = {}
  local nfeeds, nmine
  g.label, g.units, g.place, g.times, nfeeds, nmine, where = unpacked('>I2I4I4I2BI2', ARGV[2], where)
  g.feeds = numbers('>B', nfeeds, {255, nsources})
  g.charges = numbers('>I2', nmine, {65535, ncharges})
  groups[n] = g
end
for _, c in ipairs(charges) do c.budget, where = unpacked('>I2c0', ARGV[2], where) end
local many, since = 0, 0
if mode == RESENT then many, since = unpacked('>I4I7', ARGV[2], where) end

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
    if begins and (#found > 0 or #previous > 14) then searched = 0 end
  end
  previous = pack('>I7I7', seq, searched) .. string.sub(previous, 15) .. table.concat(found)
  if real then call('SET', slot, previous, 'PX', '600000') else call('SET', slot, previous) end
  return searched == 0
end

if mode == RESENT then guard(meta, now + 600000000) end
if previous or mode == RESENT then
  local last, upto = -1, nil
  if previous then last, upto = unpacked('>I7I7', previous) end
  if last > seq or last == seq and mode == FRESH then return '\3' end
  if last < seq and mode == RESENT then
    previous, last, upto = '', seq, log.stamp + 1
  end
  if last == seq then
    if upto > 0 and not search(upto) then return '\4' end
    for where = 15, #previous, 11 do
      local place, stamp = unpacked('>I4I7', previous, where)
      before[place] = stamp
    end
  else
    previous = false
  end
end

local sources = {[0] = log}
for n = 1, nsources do
  local kind, calls, kept = unpacked('>BBI7', ARGV[2], packed_sources + 9 * (n - 1))
  local source = kind == 0 and new_list(KEYS[n + 2], kept) or new_counter(KEYS[n + 2], kept)
  source.calls = calls == 1
  sources[n] = source
end

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

-- judge returns why a request is refused, or nil. Of several reasons it is
-- the one that ends last, the first of those.
local function judge(units, mine)
  local latest, why = 0, nil
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

local function record(units, label, number, feeds)
  local stamp = max(now, log.stamp + 1)
  push(log, stamp, units)
  log.pending[log.count] = log.pending[log.count] .. pack('>I2I6I4', label, client, number % SEQ)
  for _, n in ipairs(feeds) do
    local source = sources[n]
    local amount = amount_of(source.calls, units, 1)
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
  if units < 1 and g.units < NOCALL or g.label < 1 then bad('units or label') end
  if before[place] then return pack('>BI4I7', 0, 1, before[place]) end
  local why = g.units < NOCALL and judge(units, g.charges)
  if why then return why end
  if full(log, units) then return pack('>BI4', 3, 1) end
  local stamp = record(units, g.label, seq + place, g.feeds)
  granted[#granted + 1] = pack('>I4I7', place, stamp)
  return pack('>BI4I7', 0, 1, stamp)
end
for _, g in ipairs(groups) do
  for place = g.place, g.place + g.times - 1 do answer[#answer + 1] = decide(g, place) end
end

if store(log, now, real) and real then lives(meta, max(log.horizon, 93600000000)) end
for n = 1, #sources do
  local source = sources[n]
  if source.counter then store_counter(source, real) else store(source, now, real) end
end
if #granted > 0 and mode ~= FRESH then
  local slotted = (previous or pack('>I7I7', seq, 0)) .. table.concat(granted)
  if real then call('SET', slot, slotted, 'PX', '600000') else call('SET', slot, slotted) end
end
if guarded and mode ~= RESENT and #granted > 0 then unguard(meta, cool, now) end
return table.concat(answer)
