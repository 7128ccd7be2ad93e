-- Sets what one entry counts. Whatever is done again leaves the same behind, unless the
-- log keeps no entries: its counters change by the difference.
-- KEYS: meta, the log, then all sources of its scope, as in items_of(meta.items).
-- ARGV: head, the time of a test, the log's horizon 7, the entry's stamp 7, client 6, seq 4, units 4
-- and calls 1, how many newer entries at most 4, the scope 1; and of a log that keeps no entries what
-- is recorded: units 4 and calls 1, and the label's words.
-- Answer: 0 done, or nothing to do; 1 other head; 2 too late, it stays; 3 the log is full.

local meta = KEYS[1]
if head_of(meta) ~= ARGV[1] then return 1 end
local real, now = ARGV[2] == '', clock(ARGV[2])
local log = new_list(KEYS[2], (unpacked('>I7', ARGV[3])))
local stamp, client, seq, units, calls, most, scope = unpacked('>I7I6I4I4BI4B', ARGV[4])
if units >= NOCALL or calls > 1 then bad('units') end

-- All is read before anything is written. What is not there yet will be filled from the log.
local sources, items = {}, {}
for _, item in ipairs(items_of(call('HGET', meta, 'items') or '')) do
  if of_scope(item, scope) then items[#items + 1] = item end
end
local function read(words)
  for n, item in ipairs(items) do
    local key = KEYS[n + 2]
    local source = item.counter and new_counter(key, item.horizon / 2) or new_list(key, item.horizon)
    local c = coverage(item.def)
    source.calls, source.covered = c.calls, covers(c, words)
    if source.stored then sources[#sources + 1] = source end
  end
end

-- correct_counter adds delta to the period of the stamp, if it is still counted.
local function correct_counter(counter, delta)
  local start = stamp - stamp % counter.length
  if start == counter.start then
    counter.present, counter.changed = max(0, counter.present + delta), true
  elseif start == counter.start - counter.length then
    counter.before, counter.changed = max(0, counter.before + delta), true
  end
  store_counter(counter, real)
end

if ARGV[5] then
  local was, counted = unpacked('>I4B', ARGV[5])
  read(ARGV[6])
  for _, source in ipairs(sources) do
    if source.counter and source.covered then
      correct_counter(source, amount_of(source.calls, units - was, calls - counted))
    end
  end
  return 0
end
if not log.stored or stamp < 1 or log.stamp < stamp or stamp <= log.stamp - keep(log.horizon) then return 0 end
local _, place = locate(log, stamp)
local packed = call('LINDEX', log.key, place)
local at_stamp, _, raw, label, by, number = unpacked('>I7I6I4I2I6I4', packed)
if at_stamp ~= stamp or by ~= client or number ~= seq then return 0 end
local was, counted = raw % NOCALL, (calls_of(packed, raw))
local more, times = units - was, calls - counted
local words = new_labels(meta)(label, stamp)
read(words)

-- add records units that an entry far from the tail turned out to cost, as an
-- addition, unless it is there: the answer to the first try may have been lost.
local function add()
  for _, record in ipairs(call('LRANGE', log.key, -most - 1, -1)) do
    local _, _, amount, _, who, which = unpacked('>I7I6I4I2I6I4', record)
    if amount == NOCALL + more and #record == 29 and who == client and which == seq then return end
  end
  local new = max(now, log.stamp + 1)
  push(log, new, more)
  log.pending[1] = pack('>I7I6I4I2I6I4', new, log.total, NOCALL + more, label, client, seq)
  store(log, now, real)
  for _, source in ipairs(sources) do
    local amount = amount_of(source.calls, more, 0)
    if source.covered and source.counter then
      tick(source, new, amount)
      store_counter(source, real)
    elseif source.covered then
      push(source, new, amount)
      store(source, now, real)
    end
  end
end

-- correct adds delta to the record of that stamp and to all totals behind it.
-- A record that is not in a list has left it, or was never covered.
local function correct(list, delta, first, from)
  if list.stamp < stamp then return end
  from = from or select(2, locate(list, stamp))
  local records = call('LRANGE', list.key, from, -1)
  local when, total, amount = unpacked('>I7I6I4', records[1])
  if when ~= stamp then return end
  records[1] = pack('>I7I6I4', when, (total + delta) % WRAP, first(amount)) .. string.sub(records[1], 18, 29)
  if delta ~= 0 then
    local short = string.sub(records[1], 18) == '' and '>c7I6c4' or '>c7I6c16'
    for n = 2, #records do
      local record = records[n]
      local before, sum, after = unpacked(short, record)
      records[n] = pack(short, before, (sum + delta) % WRAP, after)
      if #record > 29 then records[n] = records[n] .. string.sub(record, 30) end
    end
  end
  call('LSET', list.key, from, records[1])
  if #records == 1 or delta == 0 then return end
  call('LTRIM', list.key, '0', from) -- quicker than to set each
  for n = 2, #records, 1000 do call('RPUSH', list.key, unpack(records, n, min(n + 999, #records))) end
end

if size(log) - 1 - place > most then
  if more < 0 or times < 0 then return 2 end
  if more > 0 and full(log, more) then return 3 end
  if more > 0 then add() end
  return 0
end
if more == 0 and times == 0 then return 0 end
if more > 0 and full(log, more) then return 3 end
for _, source in ipairs(sources) do
  local delta = amount_of(source.calls, more, times)
  if not source.counter then
    if delta ~= 0 then correct(source, delta, function(amount) return amount + delta end) end
  elseif source.covered and (words or delta > 0) then
    correct_counter(source, delta)
  end
end
correct(log, more, function() return units + (1 - calls) * NOCALL end, place)
return 0
