-- Appends a batch to the log of an account if all conditions hold, and reads
-- the log. Without ARGV[6] it only reads. All numbers are integers below 2^53.
--
-- KEYS: the head, the batches; of a caller that knows nothing of the log also
-- the keys that earlier releases used.
-- ARGV: 1 the clock in microseconds, empty for the server's; 2 epoch, 3 after
-- and 4 tag of engine.Known; 5 the bytes of a page; 6 the epoch of a new log;
-- 7 the generation, empty for any; 8 not before; 9 not after; 10 how many
-- timestamps; 11 by how much the generation rises; 12 trim; 13 the batch;
-- 14 how many conditions; for each its number of totals, the totals, its
-- number of steps, and from and most of each; then index and amount of what
-- the totals rise by.
--
-- Returns a text of numbers, in the order of parseTail, then the batches after
-- ARGV[3]. Without a log, and with keys of an earlier release: "old". If a
-- number would reach 2^53: "full".
local HEAD, BATCHES, EXACT = KEYS[1], KEYS[2], 2 ^ 53
local function text(n) return string.format('%.0f', n) end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- A list that is not as long as the head says has lost batches, or belongs to a
-- head that was lost: there is no log then.
local head, fields, length = {}, redis.call('HGETALL', HEAD), redis.call('LLEN', BATCHES)
for i = 1, #fields, 2 do head[fields[i]] = fields[i + 1] end
if not head.epoch or length ~= head.position - head.first + 1 then
  head = {}
  if #KEYS > 2 and redis.call('EXISTS', unpack(KEYS, 3)) > 0 then return {'old'} end
end
local epoch, gen, newest = tonumber(head.epoch or 0), tonumber(head.gen or 0), tonumber(head.newest or 0)
local position, first = tonumber(head.position or 0), tonumber(head.first or 1)

local known, after = tonumber(ARGV[2]), tonumber(ARGV[3])
local diverged = known ~= 0 and (known ~= epoch or after > position)
if known ~= 0 and not diverged and after >= first then
  local tag = head.tag
  if after < position then tag = string.sub(redis.call('LINDEX', BATCHES, after - position - 1), 9, 18) end
  diverged = tag ~= ARGV[4]
end

-- The second round reads as many batches as fit if the others are as long as
-- the first ones. Indexes count from the tail, which is near.
local reply, size, page, more = {''}, 0, tonumber(ARGV[5]), 0
local given, step = math.max(after, first - 1), 64
while not diverged and given < position and more == 0 do
  local last = math.min(given + step, position)
  for _, batch in ipairs(redis.call('LRANGE', BATCHES, given - position, last - position - 1)) do
    size = size + #batch - 8
    if size > page and #reply > 1 then more = 1 break end
    reply[#reply + 1] = batch
  end
  given, step = last, math.max(1, math.ceil((page - size) / size * (#reply - 1)))
end

local place = 13
local function take()
  place = place + 1
  return tonumber(ARGV[place])
end

local function holds()
  if ARGV[7] ~= '' and tonumber(ARGV[7]) ~= gen then return false end
  if now < tonumber(ARGV[8]) or now > tonumber(ARGV[9]) then return false end
  for _ = 1, take() do
    local sum, most = 0, 0
    for _ = 1, take() do sum = sum + tonumber(head[text(take())] or 0) end
    for _ = 1, take() do
      local from, bound = take(), take()
      if from <= now then most = bound end
    end
    if sum > most then return false end
  end
  return true
end

local appended, at = 0, 0
if ARGV[6] and not diverged and known == epoch and holds() then
  local written = {}
  local function put(field, value)
    head[field] = value
    written[#written + 1] = field
    written[#written + 1] = value
  end
  while place < #ARGV do
    local index = text(take())
    local total = tonumber(head[index] or 0) + take()
    if total >= EXACT then return {'full'} end
    put(index, text(total))
  end
  appended, at = 1, math.max(now, newest + 1)
  newest = at + ARGV[10] - 1
  if newest >= EXACT then return {'full'} end
  if epoch == 0 then
    if #fields + length > 0 then redis.call('DEL', HEAD, BATCHES) end
    put('epoch', ARGV[6])
  end
  local trim = math.min(ARGV[12], position)
  if trim >= first then
    redis.call('LTRIM', BATCHES, trim - first + 1, -1)
    first = trim + 1
  end
  position, gen = position + 1, gen + ARGV[11]
  put('position', text(position))
  put('first', text(first))
  put('gen', text(gen))
  put('newest', text(newest))
  put('tag', string.sub(ARGV[13], 1, 10))
  redis.call('RPUSH', BATCHES, struct.pack('>I4I4', math.floor(at / 2 ^ 32), at % 2 ^ 32) .. ARGV[13])
  redis.call('HSET', HEAD, unpack(written))
end

local numbers = {appended, diverged and 1 or 0, more, text(at), text(now), head.epoch or '0', text(position),
  text(first), text(newest), text(gen)}
for field, value in pairs(head) do
  if tonumber(field) then
    numbers[#numbers + 1] = field
    numbers[#numbers + 1] = value
  end
end
reply[1] = table.concat(numbers, ' ')
return reply
