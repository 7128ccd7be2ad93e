-- Appends a batch to the log of an account if all conditions hold, and reads
-- the log. Without ARGV[3] it only reads. All numbers are integers below 2^53.
--
-- KEYS: the head, the batches; of a caller that knows nothing of the log also
-- the keys that earlier releases used.
-- ARGV: 1 numbers of 8 bytes, see below; 2 the tag that the caller knows; 3 the
-- batch.
--
-- The numbers: the clock in microseconds, or -1 for the server's; the epoch and
-- the position that the caller knows; the bytes of a page; the epoch of a new
-- log; the generation, or -1 for any; not before; not after; how many
-- timestamps; by how much the generation rises; 1 to reset the timestamps; trim;
-- how many conditions. Of each condition: how many totals, the totals, how many steps, from and most of
-- each. Then index and amount of what the totals rise by.
--
-- Returns numbers of 8 bytes, in the order of parseTail, then the totals, 8 bytes
-- each, and the batches after the position. Without a log, and with keys of an
-- earlier release: "old". If a number would reach 2^53: "full".
local HEAD, BATCHES, EXACT = KEYS[1], KEYS[2], 2 ^ 53

-- Lua takes as long for each call of a function as for ten steps of its own.
local function read(packed)
  local numbers = {struct.unpack('>' .. string.rep('i8', #packed / 8), packed)}
  numbers[#numbers] = nil -- where it ended
  return numbers
end
local function write(numbers) return struct.pack('>' .. string.rep('i8', #numbers), unpack(numbers)) end
local function text(number) return string.format('%.0f', number) end

local numbers = read(ARGV[1])
local now, known, after, page, new, wanted, early, late, count, bump, reset, trim, conditions = unpack(numbers, 1, 13)
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- A list that is not as long as the head says has lost batches, or belongs to a
-- head that was lost: there is no log then.
local epoch, position, first, newest, gen, tag, totals =
  unpack(redis.call('HMGET', HEAD, 'epoch', 'position', 'first', 'newest', 'gen', 'tag', 'totals'))
local length, isLost = redis.call('LLEN', BATCHES), false
if not epoch or length ~= position - first + 1 then
  isLost = epoch or length > 0
  epoch, position, first, newest, gen, totals = 0, 0, 1, 0, 0, ''
  if #KEYS > 2 and redis.call('EXISTS', unpack(KEYS, 3)) > 0 then return {'old'} end
end
epoch, position, first = tonumber(epoch), tonumber(position), tonumber(first)
newest, gen = tonumber(newest), tonumber(gen)

local diverged = known ~= 0 and (known ~= epoch or after > position)
if known ~= 0 and not diverged and after >= first then
  if after < position then tag = string.sub(redis.call('LINDEX', BATCHES, after - position - 1), 9, 18) end
  diverged = tag ~= ARGV[2]
end

-- The second round reads as many batches as fit if they are as long as those
-- before. Indexes count from the tail, which is near.
local reply, replied, size, more = {'', totals}, 2, 0, 0
local given, step = math.max(after, first - 1), 64
local from = given + 1
while not diverged and given < position and more == 0 do
  local last = math.min(given + step, position)
  local batches = redis.call('LRANGE', BATCHES, given - position, last - position - 1)
  for i = 1, #batches do
    size = size + #batches[i] - 8
    if size > page and replied > 2 then more = 1 break end
    replied = replied + 1
    reply[replied] = batches[i]
  end
  given, step = last, math.max(1, math.ceil((page - size) / size * (replied - 2)))
end

local place, total = 14, read(totals)
local function holds()
  if wanted >= 0 and wanted ~= gen or now < early or now > late then return false end
  for _ = 1, conditions do
    local sum, most, steps = 0, 0, place + numbers[place] + 1
    for i = place + 1, steps - 1 do sum = sum + (total[numbers[i] + 1] or 0) end
    place = steps + 2 * numbers[steps] + 1
    for i = steps + 1, place - 1, 2 do
      if numbers[i] <= now then most = numbers[i + 1] end
    end
    if sum > most then return false end
  end
  return true
end

-- raise adds to the totals, and reports whether a number would be too large.
local function raise()
  local isFull = newest >= EXACT
  for i = place, #numbers, 2 do
    local index = numbers[i] + 1
    for missing = #total + 1, index do total[missing] = 0 end
    total[index] = total[index] + numbers[i + 1]
    isFull = isFull or total[index] >= EXACT
  end
  totals = write(total)
  return isFull
end

-- append writes the batch and the head.
local function append(at)
  position = position + 1
  trim = math.min(trim, position)
  local fields = {'position', text(position), 'newest', text(newest), 'tag', string.sub(ARGV[3], 1, 10),
    'totals', totals}
  local function put(field, value)
    fields[#fields + 1], fields[#fields + 2] = field, text(value)
    return value
  end
  if isLost then redis.call('DEL', HEAD, BATCHES) end
  if epoch == 0 then epoch, first, gen = put('epoch', new), put('first', 1), put('gen', 0) end
  if trim >= first then
    redis.call('LTRIM', BATCHES, trim - first + 1, -1)
    first = put('first', trim + 1)
  end
  if bump > 0 then gen = put('gen', gen + bump) end
  redis.call('RPUSH', BATCHES, struct.pack('>i8', at) .. ARGV[3])
  if trim == position then redis.call('DEL', BATCHES) end
  redis.call('HSET', HEAD, unpack(fields))
end

local appended, at = 0, 0
if ARGV[3] and not diverged and known == epoch and holds() then
  appended, at = 1, now
  if reset == 0 then at = math.max(now, newest + 1) end
  newest = at + count - 1
  if raise() then return {'full'} end
  append(at)
end

reply[1] = write({appended, diverged and 1 or 0, more, at, now, epoch, position, first, newest, gen, from})
reply[2] = totals
return reply
