-- Decides one batch. Nothing is written before all is decided.
-- KEYS: meta, the log, sources, then, unless the batch is fresh, cooldowns and the
-- client's slot, and for a long key where its name stands.
-- ARGV: the batch, the time of a test or nothing, and a long key. Source 0 is the log. A batch is
--   head 12, mode 1, client 6, seq 7, the log's horizon 7, how many charges 2 and groups 2,
--   the charges, see new_charges in common.lua
--   the sources: kind 1, calls 1, horizon 7 (a counter's is its length)
--   groups of requests that differ in nothing: label 2, units 4 (top bit: forced), place of the
--     first in the batch 4 (top bit: a note or correction), how many 2, how many sources count it 1 and
--     charges it has 2 (all bits: every one that is there), those sources 1 each, those charges 2 each,
--     of a note or correction what it is 1 and how many calls it counts 4
--   the names of the charges' budgets 2 + n each
--   when it is sent again how many requests the batch had 4, since 7, and which try it is 2
--   some bytes that are not read, if there are no charges
-- Answer, packed: 1: other head, ask again; 2, now 7: other days; 3: a batch that came too
-- late; 4: ask again; 5, a later try 2: that one was decided; 6: the log has dropped what it is
-- searched for; 0, now 7, then of as many requests as it says (4) each
--   0, the first's stamp 7, the others' a microsecond apart; then how each charge stands after the
--     first, see stands
--   1, charge 2, used 7, retry at 7
--   2, the same and the reason 2 + n, for a cooldown
--   3: the log is full
--   4, charge 2, used 7, kept for others 7, retry at 7, whether it is a cooldown 1 and its reason
--     2 + n, and how many charges have floors that end 2: of each its number 2, and what it
--     holds and keeps today and of the next day 7 each; for a request that has charges with floors
--   5, the stamp 7: it was granted before
-- and before any of these perhaps 6, how far the log's newest stamp is ahead 7. After them perhaps the
-- place of the first record that each charge's window sees (4).
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
-- Of a log that keeps no entries the mode is 8 more, and never resent: there is nothing to
-- search. The horizon is then that of its longest counter. Of a long key it is 16 more.
-- A slot is seq 7, the stamp before which is still to be searched 7 (0: nothing is), the try 2, and
-- of each grant its place 4 and stamp 7.

local meta = KEYS[1]
local real, now = not time, clock(time or '')
local client, seq, horizon, ncharges, ngroups, where = unpacked('>I6I7I7I2I2', batch, 14)
local charges
charges, where = new_charges(batch, where, ncharges, now)
if not charges then return pack('>BI7', 2, now) end
if mode > WATCHED and mode ~= AGAIN or counting and mode == RESENT then bad('mode') end

local guarded = string.byte(head, 12) == 1
local nsources, cool, slot = nkeys - 2, nil, nil
if guarded or mode ~= FRESH then
  nsources, cool, slot = nkeys - 4, KEYS[nkeys - 1], KEYS[nkeys]
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
  if g.units < 1 or g.label < 1 or g.times < 1 then bad('group') end
  g.feeds = numbers('>B', nfeeds, {255, nsources})
  g.charges = numbers('>I2', nmine, {65535, ncharges})
  g.calls = 1
  if g.place >= NOCALL then
    g.kind, g.calls, where = unpacked('>BI4', batch, where)
    if g.units < NOCALL or g.kind < 1 or g.calls >= NOCALL then bad('kind') end
    g.place = g.place - NOCALL
  end
  groups[n] = g
end
for _, c in ipairs(charges) do c.budget, where = unpacked('>I2c0', batch, where) end
local many, since, try, heard = 0, 0, 0, 0
if mode == RESENT or mode == AGAIN then
  many, since, try = unpacked('>I4I7I2', batch, where)
  heard = since > 0 and min(since + SLACK, now) or now - 3600000000 -- the batch's records are newer
  since = max(min(since, now - SLACK), now - 3600000000) -- no copy takes so long, and a restamp sets back to now at most
end
if mode == AGAIN then mode = NAMED end

local log = new_list(KEYS[2], horizon)
log.newest = log.stored and unpacked('>I2', log.last, 18) == 0 -- and nothing else
local before, previous = {}, slot and call('GET', slot) or false

-- search reads the page of the log before an instant, and reports whether it was
-- the last. The records of one batch stand together, so it need not go on before them.
-- It returns nil when the log has kept none since.
local function search(upto)
  local _, stop = locate(log, upto)
  local from, searched = max(0, stop - PAGE), 0
  local found, first_of_others, dropped = {}, false, false
  if stop > 0 then
    for n, record in ipairs(call('LRANGE', log.key, from, stop - 1)) do
      local stamp, _, _, label, by, number = unpacked('>I7I6I4I2I6I4', record)
      local place = (number - seq) % SEQ
      local ours = by == client and place < many
      if ours then found[#found + 1] = pack('>I4I7', place, stamp) end
      if n == 1 and from > 0 and stamp > since then searched = stamp end
      if n == 1 then first_of_others = not ours end
      if label == 0 and stamp > heard then dropped = true end
    end
    if first_of_others and (#found > 0 or #previous > 16) then searched = 0 end
  end
  if dropped and #found == 0 and #previous <= 16 then return nil end
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
    local searched = upto == 0 or search(upto)
    if searched == nil then return '\6' end
    if not searched then return '\4' end
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

-- Room for others is judged by functions that are made when it is needed.
local beside
for _, c in ipairs(charges) do
  if c.floors and not beside then
    beside = floors(function(source)
      local list = sources[source]
      if not list or list.counter or not found(list) then bad('floor') end
      return list
    end)
  end
end

-- judge returns why a request is refused, or nil. Of several reasons it is
-- the one that ends last, the first of those.
local function judge(units, mine)
  local till, why, far = 0, nil, ahead(log, now)
  for _, n in ipairs(mine) do
    if charges[n].floors then return beside.judge(units, charges, mine, cooled, now, far) end
  end
  for _, n in ipairs(mine) do
    local c = charges[n]
    local amount = amount_of(c.list.calls, units, 1)
    if amount > c.limit then bad('units') end
    local used, again = ask(c, now, amount)
    again = latest(again, c, far, now)
    if again > till then till, why = again, pack('>BI4I2I7I7', 1, 1, n, used, again) end
    local cool = cooled[c.budget]
    if cool and c.budget ~= '' and cool.till > till then
      till, why = cool.till, pack('>BI4I2I7I7I2', 2, 1, n, used, cool.till, #cool.reason) .. cool.reason
    end
  end
  local all = cooled['']
  if all and all.till > till then why = pack('>BI4I2I7I7I2', 2, 1, 0, 0, all.till, #all.reason) .. all.reason end
  return why
end

-- stands says what each charge's window holds after a grant: used 7 and when it
-- frees 7, with floors what it keeps 7; of a counter start, present and before 7 each.
local function stands(mine)
  local said = {}
  for i, n in ipairs(mine) do
    local c = charges[n]
    if c.kind == COUNTER then
      said[i] = pack('>I7I7I7', periods(c.list, now))
    else
      local used = holds(c)
      said[i] = pack('>I7I7', used, frees(c, now, used))
      if c.floors then said[i] = said[i] .. pack('>I7', beside.taken(c, used, now)) end
    end
  end
  return table.concat(said)
end

local function record(g, units, number)
  local stamp = max(now, log.stamp + 1)
  if counting then
    log.stamp = stamp
  else
    push(log, stamp, units)
    local packed = log.pending[log.count]
    if g.kind then packed = pack('>I7I6I4', stamp, log.total, NOCALL + units) end
    packed = packed .. pack('>I2I6I4', g.label, client, number % SEQ)
    log.pending[log.count] = g.kind and packed .. pack('>I4B', g.calls, g.kind) or packed
  end
  for _, n in ipairs(g.feeds) do
    local source = sources[n]
    local amount = amount_of(source.calls, units, g.calls)
    if not (source.stored or source.filled) then -- it is filled when somebody asks for it
    elseif source.counter then
      tick(source, stamp, amount)
    else
      push(source, stamp, amount)
    end
  end
  return stamp
end

-- overflows reports whether a request would count more than the ledger can add up.
local function overflows(g, units)
  if not counting and full(log, units) then return true end
  for _, n in ipairs(g.feeds) do
    local source = sources[n]
    if (source.stored or source.filled) and full(source, amount_of(source.calls, units, g.calls)) then return true end
  end
  return false
end

local answer, granted = {pack('>BI7', 0, now)}, {}
local function decide(g, place)
  local units = g.units % NOCALL
  if before[place] then return pack('>BI4I7', 5, 1, before[place]) end
  local far = ahead(log, now)
  local said = far > 0 and pack('>BI4I7', 6, 1, far) or ''
  local why = g.units < NOCALL and judge(units, g.charges)
  if why then return said .. why end
  if overflows(g, units) then return pack('>BI4', 3, 1) end
  local stamp = record(g, units, seq + place)
  granted[#granted + 1] = pack('>I4I7', place, stamp)
  return said .. pack('>BI4I7', 0, 1, stamp) .. stands(g.charges)
end
for _, g in ipairs(groups) do
  for place = g.place, g.place + g.times - 1 do answer[#answer + 1] = decide(g, place) end
end

local due
if not counting then due = store(log, now, real) elseif #granted > 0 then due = store_newest(log, real) end
if due and real then extend(meta, log.horizon) end
if due and long then
  call('SET', KEYS[#KEYS], ARGV[3])
  if real then lives(KEYS[#KEYS], log.horizon) end
end
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
