-- Module coverages: which records a coverage counts, and filling its list or counter from the log.

-- read_coverage parses a definition: the measure, then methods, except, lanes and regions.
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

-- covers reports whether a label's calls are counted. To be safe, an unknown label's always are.
local function covers(c, label)
  if not label then return true end
  local methods, except, lanes, regions = c[1], c[2], c[3], c[4]
  local method, lane, _, region = struct.unpack('>Bc0Bc0Bc0Bc0', label)
  if methods and not methods[method] or except and except[method] then return false end
  if lanes and not lanes[lane] then return false end
  return not regions or regions[region] or false
end

-- new_labels returns a function from a record's label and stamp to the label's words, or false if
-- they are unknown: the record is older than meta, or came when all numbers were taken.
local function new_labels(meta)
  local known, from = {}, tonumber(redis.call('HGET', meta, 'from') or '0')
  return function(label, stamp)
    if label == 65535 or stamp < from then return false end
    if known[label] == nil then known[label] = redis.call('HGET', meta, 'l' .. label) end
    return known[label]
  end
end

-- calls_of returns how many calls a record of the log counts.
local function calls_of(record, raw)
  if raw < 2^31 then return 1 end
  return #record > 29 and struct.unpack('>I4', record, 30) or 0
end

-- fill fills a missing list or counter from the log, without storing it, before a script adds to
-- the log. KEYS[1] is meta.
local function fill(source, log, def, now)
  local labels, c = new_labels(KEYS[1]), read_coverage(def)
  local function count(packed)
    local stamp, _, raw, label = struct.unpack('>I7I6I4I2', packed)
    if label == 0 or not covers(c, labels(label, stamp)) then return end
    local amount = c.calls and calls_of(packed, raw) or raw % 2^31
    if source.counter then counters().tick(source, stamp, amount) else push(source, stamp, amount, 1) end
  end
  source.filled, source.changed = true, true
  local since = now - lists().retention(source.counter and 2 * source.length or source.horizon)
  local _, place = lists().locate(log, math.max(since, 1))
  local stored = lists().size(log)
  while place < stored do
    for _, packed in ipairs(redis.call('LRANGE', log.key, place, place + 499)) do count(packed) end
    place = math.min(place + 500, stored)
  end
  if not source.counter and source.count == 0 then push(source, 0, 0, 1) end
end

-- stored_sources returns the existing sources of a scope, whose keys are KEYS from the third on.
local function stored_sources(scope)
  local found, n = {}, 2
  for _, item in ipairs(accounts().items_of(redis.call('HGET', KEYS[1], 'items') or '')) do
    if accounts().of_scope(item, scope) then
      n = n + 1
      local source = item.counter and counters().new(KEYS[n], item.horizon / 2) or new_list(KEYS[n], item.horizon)
      source.def = item.def
      if source.stored then found[#found + 1] = source end
    end
  end
  return found
end

return {read = read_coverage, covers = covers, new_labels = new_labels, calls_of = calls_of, fill = fill,
  stored_sources = stored_sources}
