-- Sets what an entry counts. It is idempotent, unless the log has kept no entry and counts more.
-- KEYS: meta, the log, what is settled meanwhile (snapshot.lua), then all sources of its scope; and
-- for a refund of a call whose recorded units are sent, the client's slot.
-- ARGV: head, the time of a test, the log's horizon 7, the entry (stamp 7, client 6, seq 4, new
-- units 4 and calls 1), how many newer entries there may be 4, the scope 1; and if it is known what
-- was recorded, units 4, calls 1, whether the log keeps entries 1 and what to answer if counts
-- without an entry would fall 1 (0 to lower them: nobody else can have done it), and the label's words.
-- Answer: 0 done, or nothing to do; 1 other head; 2 too late, unchanged; 3 the log is full; 6 an
-- earlier try may have lowered it, unchanged.

local meta, settled = KEYS[1], table.remove(KEYS, 3)
if head_of(meta) ~= ARGV[1] then return 1 end
local real, now = ARGV[2] == '', clock(ARGV[2])
local log = new_list(KEYS[2], (struct.unpack('>I7', ARGV[3])))
local stamp, client, seq, units, calls, most, scope = struct.unpack('>I7I6I4I4BI4B', ARGV[4])
if units >= 2^31 or calls > 1 then error('ration: bad argument: units') end

-- Everything is read before anything is written. Missing sources will be filled from the log.
local sources = coverages().stored_sources(scope)
local function match(words)
  for _, source in ipairs(sources) do
    local c = coverages().read(source.def)
    source.calls, source.covered = c.calls, coverages().covers(c, words)
  end
end

-- correct_counter adds delta to the period of the stamp if it still counts.
local function correct_counter(source, delta)
  local start = stamp - stamp % source.length
  if start == source.start then
    source.present, source.changed = math.max(0, source.present + delta), true
  elseif start == source.start - source.length then
    source.before, source.changed = math.max(0, source.before + delta), true
  end
  counters().store(source, real)
end

-- forget_grant removes the grant from the client's slot (resent.lua), so that a repeat is charged.
local function forget_grant(key)
  local slot = redis.call('GET', key)
  if not slot then return end
  local grant = struct.pack('>I4I7', (seq - (struct.unpack('>I7', slot))) % 2^32, stamp)
  for where = 17, #slot, 11 do
    if string.sub(slot, where, where + 10) == grant then
      redis.call('SET', key, string.sub(slot, 1, where - 1) .. string.sub(slot, where + 11), 'KEEPTTL')
      return
    end
  end
end

local was, counted, keeps, unsure
if ARGV[5] then was, counted, keeps, unsure = struct.unpack('>I4BBB', ARGV[5]) end

-- settle_counters changes the counters alone, by what was recorded.
local function settle_counters()
  if unsure > 0 and (units < was or calls < counted) then return unsure end
  match(ARGV[6])
  if calls == 0 then forget_grant(KEYS[#KEYS]) end
  for _, source in ipairs(sources) do
    local delta = source.calls and calls - counted or units - was
    if source.counter and source.covered then correct_counter(source, delta) end
  end
  return 0
end

-- missing settles a call of which the log has no entry: it has kept none yet, or none any more.
local function missing()
  if not was then return 0 end
  local first = redis.call('LINDEX', log.key, '0')
  local begun = first and struct.unpack('>I2', first, 18) == 0 and struct.unpack('>I7', first)
  if not begun then begun = tonumber(string.match(redis.call('HGET', meta, 'heard' .. log.key) or '', '"kept":(%d+)') or '0') end
  if stamp > begun then return 0 end
  return settle_counters()
end

if keeps == 0 then return settle_counters() end
if not log.stored or stamp < 1 or log.stamp < stamp or stamp <= log.stamp - lists().retention(log.horizon) then return missing() end
local _, place = lists().locate(log, stamp)
local packed = redis.call('LINDEX', log.key, place)
local at_stamp, _, raw, label, by, number = struct.unpack('>I7I6I4I2I6I4', packed)
if at_stamp ~= stamp or by ~= client or number ~= seq then return missing() end
local more, times = units - raw % 2^31, calls - coverages().calls_of(packed, raw)
local words = coverages().new_labels(meta)(label, stamp)
match(words)

-- add records what an entry far from the tail turned out to cost as an addition, unless it is there
-- already because the first try's answer was lost.
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

-- correct adds delta to the entry's record, if the list has it, and to all totals from there on.
local oldest = false -- whether a list's first record was corrected
local function correct(list, delta, first, from)
  if list.stamp < stamp then return end
  from = from or select(2, lists().locate(list, stamp))
  local records = redis.call('LRANGE', list.key, from, -1)
  local when, total, amount = struct.unpack('>I7I6I4', records[1])
  if when ~= stamp then return end
  oldest = oldest or from == 0
  records[1] = struct.pack('>I7I6I4', when, (total + delta) % 2^48, first(amount)) .. string.sub(records[1], 18, 29)
  if delta ~= 0 then
    for n = 2, #records do
      local before, sum = struct.unpack('>c7I6', records[n])
      records[n] = before .. struct.pack('>I6', (sum + delta) % 2^48) .. string.sub(records[n], 14)
    end
  end
  lists().replace(list.key, from, delta ~= 0 and records or {records[1]})
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
-- A restoration that finds no list reads the log again. One that was killed would let it grow.
local isListed = redis.call('EXISTS', settled) == 1
if isListed and redis.call('RPUSH', settled, string.sub(ARGV[4], 1, 7)) > 10000 then redis.call('DEL', settled) end
correct(log, more, function() return units + (1 - calls) * 2^31 end, place)
if scope == 2 and (oldest or stamp < log.stamp - SETTLED) then accounts().turn(meta) end
return 0
