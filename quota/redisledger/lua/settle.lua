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
local log = new_list(KEYS[2], (struct.unpack('>I7', ARGV[3])))
local stamp, client, seq, units, calls, most, scope = struct.unpack('>I7I6I4I4BI4B', ARGV[4])
if units >= 2^31 or calls > 1 then error('ration: bad argument: units') end

-- All is read before anything is written. What is not there yet will be filled from the log.
local sources, items = {}, {}
for _, item in ipairs(accounts().items_of(redis.call('HGET', meta, 'items') or '')) do
  if accounts().of_scope(item, scope) then items[#items + 1] = item end
end
local function read(words)
  for n, item in ipairs(items) do
    local source = item.counter and counters().new(KEYS[n + 2], item.horizon / 2) or new_list(KEYS[n + 2], item.horizon)
    local c = coverages().read(item.def)
    source.calls, source.covered = c.calls, coverages().covers(c, words)
    if source.stored then sources[#sources + 1] = source end
  end
end

-- correct_counter adds delta to the period of the stamp, if it is still counted.
local function correct_counter(source, delta)
  local start = stamp - stamp % source.length
  if start == source.start then
    source.present, source.changed = math.max(0, source.present + delta), true
  elseif start == source.start - source.length then
    source.before, source.changed = math.max(0, source.before + delta), true
  end
  counters().store(source, real)
end

if ARGV[5] then
  local was, counted = struct.unpack('>I4B', ARGV[5])
  read(ARGV[6])
  for _, source in ipairs(sources) do
    if source.counter and source.covered then
      correct_counter(source, source.calls and calls - counted or units - was)
    end
  end
  return 0
end
if not log.stored or stamp < 1 or log.stamp < stamp or stamp <= log.stamp - lists().retention(log.horizon) then return 0 end
local _, place = lists().locate(log, stamp)
local packed = redis.call('LINDEX', log.key, place)
local at_stamp, _, raw, label, by, number = struct.unpack('>I7I6I4I2I6I4', packed)
if at_stamp ~= stamp or by ~= client or number ~= seq then return 0 end
local was, counted = raw % 2^31, (coverages().calls_of(packed, raw))
local more, times = units - was, calls - counted
local words = coverages().new_labels(meta)(label, stamp)
read(words)

-- add records units that an entry far from the tail turned out to cost, as an
-- addition, unless it is there: the answer to the first try may have been lost.
local function add()
  for _, record in ipairs(redis.call('LRANGE', log.key, -most - 1, -1)) do
    local _, _, amount, _, who, which = struct.unpack('>I7I6I4I2I6I4', record)
    if amount == 2^31 + more and #record == 29 and who == client and which == seq then return end
  end
  local new = math.max(now, log.stamp + 1)
  push(log, new, more, 1)
  log.pending[1] = struct.pack('>I7I6I4I2I6I4', new, log.total, 2^31 + more, label, client, seq)
  store(log, now, real)
  for _, source in ipairs(sources) do
    local amount = source.calls and 0 or more
    if source.covered and source.counter then
      counters().tick(source, new, amount)
      counters().store(source, real)
    elseif source.covered then
      push(source, new, amount, 1)
      store(source, now, real)
    end
  end
end

-- correct adds delta to the record of that stamp and to all totals behind it.
-- A record that is not in a list has left it, or was never covered.
local oldest = false -- a list's first record was corrected
local function correct(list, delta, first, from)
  if list.stamp < stamp then return end
  from = from or select(2, lists().locate(list, stamp))
  local records = redis.call('LRANGE', list.key, from, -1)
  local when, total, amount = struct.unpack('>I7I6I4', records[1])
  if when ~= stamp then return end
  oldest = oldest or from == 0
  records[1] = struct.pack('>I7I6I4', when, (total + delta) % 2^48, first(amount)) .. string.sub(records[1], 18, 29)
  if delta ~= 0 then
    local short = string.sub(records[1], 18) == '' and '>c7I6c4' or '>c7I6c16'
    for n = 2, #records do
      local record = records[n]
      local before, sum, after = struct.unpack(short, record)
      records[n] = struct.pack(short, before, (sum + delta) % 2^48, after)
      if #record > 29 then records[n] = records[n] .. string.sub(record, 30) end
    end
  end
  redis.call('LSET', list.key, from, records[1])
  if #records == 1 or delta == 0 then return end
  redis.call('LTRIM', list.key, '0', from) -- quicker than to set each
  for n = 2, #records, 1000 do redis.call('RPUSH', list.key, unpack(records, n, math.min(n + 999, #records))) end
end

if lists().size(log) - 1 - place > most then
  if more < 0 or times < 0 then return 2 end
  if more > 0 and lists().full(log, more) then return 3 end
  if more > 0 then add() end
  return 0
end
if more == 0 and times == 0 then return 0 end
if more > 0 and lists().full(log, more) then return 3 end
for _, source in ipairs(sources) do
  local delta = source.calls and times or more
  if not source.counter then
    if delta ~= 0 then correct(source, delta, function(amount) return amount + delta end) end
  elseif source.covered and (words or delta > 0) then
    correct_counter(source, delta)
  end
end
correct(log, more, function() return units + (1 - calls) * 2^31 end, place)
if scope == 2 and (oldest or stamp < log.stamp - SETTLED) then accounts().turn(meta) end
return 0
