-- Gives numbers to labels and takes up coverages. Without any it only reads.
-- KEYS: meta, the account's log, its cooldowns.
-- ARGV: the time of a test, twelve random bytes, the coverages (see items_of), and labels,
-- each with two random bytes before it.
-- Answer: head, coverages, the labels' numbers.
--
-- meta is one hash, so that it is lost as a whole or not at all:
--   head    eight random bytes that name this life of meta, three that are another version
--           whenever the coverages or the next change, which is 1 when there are cooldowns
--           or slots to look at; what clients know is good for one head. Behind it, when
--           the account's own log is there, what is known of its first record: stamp 7, the
--           total before it 6, what it counts 4
--   version counts the heads of this life, so that none comes again
--   guard   until when it is 1 at least, see guard in common.lua
--   items   the coverages
--   labels  how many labels have a number; n<words> the number, l<number> the words
--   from    records of the log stamped before carry numbers of an earlier life
-- Numbers are random, not counted: after a failover that lost the newest, a client's
-- number is one that nobody knows, not somebody else's.
--
-- A label is method, lane, job and region, each with a byte of its length before it.

local meta, log = KEYS[1], KEYS[2]
local MOST, LABELS = 128, 65000
if #ARGV[2] ~= 12 then bad('head') end
local head, items = unpack(call('HMGET', meta, 'head', 'items'))
if #ARGV == 3 and ARGV[3] == '' then return {string.sub(head or '', 1, 12), items or ''} end

if not head then
  local last, from = call('LINDEX', log, '-1'), 0
  if last then from = unpacked('>I7', last) + 1 end
  head, items = string.sub(ARGV[2], 1, 8) .. pack('>I3B', 0, call('EXISTS', KEYS[3])), ''
  call('HSET', meta, 'head', head, 'items', items, 'from', string.format('%.0f', from))
  if last then note(meta, log) end
end
head = string.sub(head, 1, 12)

-- A list whose horizon grows begins anew under another id, filled from the log.
local kept, changed, parts = items_of(items), false, {}
for _, want in ipairs(items_of(ARGV[3])) do
  if want.kind > 1 or want.horizon < 1000 then bad('coverage') end
  local known = false
  for n = #kept, 1, -1 do
    local have = kept[n]
    if have.kind == want.kind and have.def == want.def and (have.kind == 0 or have.horizon == want.horizon) then
      if have.horizon >= want.horizon then known = true else table.remove(kept, n) end
    end
  end
  if not known then
    if #kept >= MOST then -- whoever still asks for it fills it again, so the log must go on to reach as far
      local longest = 0
      for _, item in ipairs(kept) do longest = max(longest, item.horizon) end
      local oldest = 1
      while oldest < #kept and kept[oldest].horizon == longest do oldest = oldest + 1 end
      table.remove(kept, oldest)
    end
    kept[#kept + 1] = want
    changed = true
  end
end
local longest = 0
for n, item in ipairs(kept) do
  parts[n] = pack('>c12BI7I4', item.id, item.kind, item.horizon, #item.def) .. item.def
  longest = max(longest, item.horizon)
end
if changed then
  items = table.concat(parts)
  call('HSET', meta, 'items', items)
  head = turn(meta, string.byte(head, 12))
end

-- free returns a number that no label has, from a random one on, or the number of all others.
local function free(random)
  if tonumber(call('HGET', meta, 'labels') or '0') >= LABELS then return OTHER end
  for try = 0, 63 do
    local number = (random + try) % (OTHER - 1) + 1
    if call('HEXISTS', meta, 'l' .. number) == 0 then return number end
  end
  return OTHER
end

local answer = {head, items}
for n = 4, #ARGV do
  local random, label = unpacked('>I2', ARGV[n]), string.sub(ARGV[n], 3)
  local number = tonumber(call('HGET', meta, 'n' .. label) or '0')
  if number == 0 then
    number = free(random)
    if number ~= OTHER then
      call('HINCRBY', meta, 'labels', 1)
      call('HSET', meta, 'n' .. label, number, 'l' .. number, label)
    end
  end
  answer[#answer + 1] = number
end
if ARGV[1] == '' then lives(meta, max(longest, 93600000000)) end
return answer
