-- Module coverages: which records of the log one counts, and how its list or counter is filled from them.

-- read_coverage reads a definition: the measure, then the words of methods, except, lanes and regions.
local function read_coverage(def)
  local c, where = {calls = string.byte(def) == 1}, 2
  for n = 1, 4 do
    local count
    count, where = struct.unpack('>I4', def, where)
    if count > 0 then c[n] = {} end
    for _ = 1, count do
      local word
      word, where = struct.unpack('>I4c0', def, where)
      c[n][word] = true
    end
  end
  return c
end

-- covers reports whether a call of a label is counted. One whose label is not known counts
-- everywhere: rather too much than too little.
local function covers(c, label)
  if not label then return true end
  local methods, except, lanes, regions = c[1], c[2], c[3], c[4]
  local method, lane, _, region = struct.unpack('>Bc0Bc0Bc0Bc0', label)
  if methods and not methods[method] or except and except[method] then return false end
  if lanes and not lanes[lane] then return false end
  return not regions or regions[region] or false
end

-- new_labels returns a function from a record's label and stamp to its words, or false. Labels of
-- records older than meta itself are not known, nor is the one that stands for all beyond the number.
local function new_labels(meta)
  local known, from = {}, tonumber(redis.call('HGET', meta, 'from') or '0')
  return function(label, stamp)
    if label == 65535 or stamp < from then return false end
    if known[label] == nil then known[label] = redis.call('HGET', meta, 'l' .. label) end
    return known[label]
  end
end

-- calls_of returns how many calls a record of the log counts, and of what kind it is, which is 0
-- for a call.
local function calls_of(record, raw)
  if raw < 2^31 then return 1, 0 end
  if #record < 34 then return 0, 1 end
  return struct.unpack('>I4B', record, 30)
end

-- gather feeds what a coverage counts in the log since an instant to add(stamp, amount), what is
-- pending too.
local function gather(log, labels, def, since, add)
  local c = read_coverage(def)
  local function count(packed)
    local stamp, _, raw, label = struct.unpack('>I7I6I4I2', packed)
    if label == 0 or not covers(c, labels(label, stamp)) then return end
    add(stamp, c.calls and calls_of(packed, raw) or raw % 2^31)
  end
  local _, place = lists().locate(log, math.max(since, 1))
  local stored = lists().size(log) - log.count
  while place < stored do
    for _, packed in ipairs(redis.call('LRANGE', log.key, place, place + 499)) do count(packed) end
    place = math.min(place + 500, stored)
  end
  for n = place - stored + 1, log.count do count(log.pending[n]) end
end

-- fill makes a list or counter that is not there say what the log says, pending.
local function fill(source, log, labels, def, now)
  source.filled = true
  if source.counter then
    source.changed = true
    local since = now - lists().retention(2 * source.length)
    gather(log, labels, def, since, function(stamp, amount) counters().tick(source, stamp, amount) end)
    return
  end
  gather(log, labels, def, now - lists().retention(source.horizon), function(stamp, amount) push(source, stamp, amount, 1) end)
  if source.count == 0 then push(source, 0, 0, 1) end
end

return {read = read_coverage, covers = covers, new_labels = new_labels, calls_of = calls_of, fill = fill}
