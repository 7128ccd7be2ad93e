-- Puts a restored log in the place of the present one, with what came since that was read. The
-- lists of coverages are deleted, to be filled again; counters are computed again and never fall.
-- KEYS: meta, the log, the restored log, then all sources of the scope; and for a long key, where
-- its name is stored.
-- ARGV: head, the time of a test, scope 1, horizon 7, how many records the log had 4 and the restored
-- one has 4, the last that the log had, what clients have heard, the 8 bytes of a new life, or none,
-- what counters have not counted, oldest first (stamp 7, units 4, calls 4, label 2), how often
-- records had changed, and perhaps a long key.
-- Answer: 1 other head; 2 the log has changed otherwise; or 0.

local meta, restored = KEYS[1], KEYS[3]
local function stop(code)
  redis.call('DEL', restored)
  return {code}
end

if head_of(meta) ~= ARGV[1] then return stop(1) end
local now = clock(ARGV[2])
local scope, horizon, many, written = struct.unpack('>BI7I4I4', ARGV[3])
local last = many > 0 and redis.call('LINDEX', KEYS[2], many - 1) or ''
local isAsRead = last == ARGV[4] and coverages().changes(meta, scope) == ARGV[8]
if not isAsRead or redis.call('LLEN', restored) ~= written then return stop(2) end -- or it was evicted
local total = 0
if last ~= '' then total = select(2, struct.unpack('>I7I6', last)) end
local log = new_list(restored, horizon)
for _, record in ipairs(redis.call('LRANGE', KEYS[2], many, '-1')) do
  local later, sum = struct.unpack('>I7I6', record)
  if later <= log.stamp then return stop(2) end
  redis.call('RPUSH', restored, string.sub(record, 1, 7) .. string.sub(struct.pack('>I8', (log.total + sum - total) % 2^48), 3) .. string.sub(record, 14))
end
if log.stored then
  redis.call('RENAME', restored, KEYS[2])
  if scope == 2 then redis.call('HSET', meta, 'from', '0') end -- all labels have numbers of this life
end
if ARGV[5] ~= '' then
  redis.call('HSET', meta, 'heard' .. KEYS[2], ARGV[5])
else
  redis.call('HDEL', meta, 'heard' .. KEYS[2])
end
if ARGV[9] then redis.call('SET', KEYS[#KEYS], ARGV[9]) end
table.remove(KEYS, 3)
log = new_list(KEYS[2], horizon)

-- add_uncounted adds what a counter has not counted. It may be older than what it has.
local function add_uncounted(source)
  local labels, c = coverages().new_labels(meta), coverages().read(source.def)
  for where = 1, #ARGV[7], 17 do
    local stamp, units, calls, label = struct.unpack('>I7I4I4I2', ARGV[7], where)
    local amount, start = c.calls and calls or units, stamp - stamp % source.length
    local covered = coverages().covers(c, labels(label, stamp))
    if covered and start >= source.start then
      counters().tick(source, stamp, amount)
    elseif covered and start == source.start - source.length then
      source.before = source.before + amount
    end
  end
end

for _, source in ipairs(coverages().stored_sources(scope)) do
  if source.counter then
    add_uncounted(source)
    local new = counters().new(nil, source.length)
    coverages().fill(new, log, source.def, now)
    local start = math.max(new.start, source.start)
    counters().tick(new, start, 0)
    counters().tick(source, start, 0)
    source.present, source.before = math.max(source.present, new.present), math.max(source.before, new.before)
    source.changed = true
    counters().store(source, false)
  else
    redis.call('DEL', source.key)
  end
end
if ARGV[2] == '' then
  lists().extend(log.key, horizon)
  if ARGV[9] then lists().extend(KEYS[#KEYS], horizon) end
  accounts().outlive(meta, horizon)
end
coverages().changed(meta, scope)
if ARGV[6] ~= '' then redis.call('HSET', meta, 'head', ARGV[6] .. string.sub(redis.call('HGET', meta, 'head'), 9)) end
accounts().turn(meta)
return {0}
