-- Decides one batch. Nothing is written before all is decided.
-- KEYS: meta, cooldowns, the client's last batch, the log, then sources.
-- ARGV: head, the time of a test, client (6 bytes) and seq (7) of the batch, the log's
-- horizon (7), the sources of KEYS (kind 1, calls 1, horizon 7 each; a counter's horizon is
-- its length), the requests, then the charges. Source 0 is the log.
-- A request: place in the batch 4, units 4 (top bit: forced), label 2, how many
-- sources count it 1 and charges it has 2, the sources 1 each, the charges 2 each.
-- Answer: 1 and nothing else: other head, ask again; 2, now: other days; 3: a batch that
-- came too late; 0, now, then of each request 0 and stamp, or
-- 1, charge, used, retry at; 2 and the same and the reason, for a cooldown; 3: the log is full.

local meta, slot = KEYS[1], KEYS[3]
if call('HGET', meta, 'head') ~= ARGV[1] then return {1} end
local real, now = ARGV[2] == '', clock(ARGV[2])
local client, seq = unpacked('>I6I7', ARGV[3])
local charges = new_charges(7, now)
if not charges then return {2, now} end

local before, previous = {}, call('GET', slot)
if previous then
  local last = unpacked('>I7', previous)
  if last > seq then return {3} end
  if last == seq then
    for where = 8, #previous, 11 do
      local place, stamp = unpacked('>I4I7', previous, where)
      before[place] = stamp
    end
  else
    previous = false
  end
end

local log = new_list(KEYS[4], (unpacked('>I7', ARGV[4])))
local sources = {[0] = log}
for n = 5, #KEYS do
  local kind, calls, horizon = unpacked('>BBI7', ARGV[5], 9 * (n - 5) + 1)
  local source = kind == 0 and new_list(KEYS[n], horizon) or new_counter(KEYS[n], horizon)
  source.calls = calls == 1
  sources[n - 4] = source
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
  if not found(c.list) then return {1} end
end
local cooled = cooldowns(KEYS[2], charges, now)

-- judge returns why a request is refused, or nil. Of several reasons it is
-- the one that ends last, the first of those.
local function judge(units, mine)
  local latest, why = 0, nil
  for _, n in ipairs(mine) do
    local c = charges[n]
    local amount = amount_of(c.list.calls, units, 1)
    if amount > c.limit then bad('units') end
    local used, again = ask(c, now, amount)
    if again > latest then latest, why = again, {1, n, used, again} end
    local cool = cooled[c.budget]
    if cool and c.budget ~= '' and cool.till > latest then
      latest, why = cool.till, {2, n, used, cool.till, cool.reason}
    end
  end
  local all = cooled['']
  if all and all.till > latest then why = {2, 0, 0, all.till, all.reason} end
  return why
end

local function record(units, label, number, feeds)
  local stamp = max(now, log.stamp + 1)
  push(log, stamp, units)
  log.pending[log.count] = log.pending[log.count] .. pack('>I2I6I4', label, client, number % 4294967296)
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

local answer, granted, where, requests = {0, now}, {}, 1, ARGV[6]
local function reply(...)
  for n = 1, select('#', ...) do answer[#answer + 1] = (select(n, ...)) end
end
while where <= #requests do
  local place, raw, label, nfeeds, ncharges
  place, raw, label, nfeeds, ncharges, where = unpacked('>I4I4I2BI2', requests, where)
  local feeds, mine, units = {}, {}, raw % NOCALL
  for n = 1, nfeeds do feeds[n], where = unpacked('>B', requests, where) end
  for n = 1, ncharges do mine[n], where = unpacked('>I2', requests, where) end
  if units < 1 and raw < NOCALL or label < 1 then bad('units or label') end
  local why = not before[place] and raw < NOCALL and judge(units, mine)
  if before[place] then
    reply(0, before[place])
  elseif why then
    reply(unpack(why))
  elseif full(log, units) then
    reply(3)
  else
    local stamp = record(units, label, seq + place, feeds)
    granted[#granted + 1] = pack('>I4I7', place, stamp)
    reply(0, stamp)
  end
end

if store(log, now, real) and real then lives(meta, max(log.horizon, 93600000000)) end
for n = 1, #sources do
  local source = sources[n]
  if source.counter then store_counter(source, real) else store(source, now, real) end
end
if #granted > 0 then
  local slotted = (previous or pack('>I7', seq)) .. table.concat(granted)
  if real then call('SET', slot, slotted, 'PX', '600000') else call('SET', slot, slotted) end
end
return answer
