-- Module sources: the lists and counters that a batch names beside the log.

-- source returns the list or counter with number n.
local function source(all, n, packed, first)
  if all[n] then return all[n] end
  if n > all.many then error('ration: bad argument: source') end
  local kind, calls, kept = struct.unpack('>BBI7', packed, first + 9 * (n - 1))
  local made = kind == 0 and new_list(KEYS[n + 2], kept) or counters().new(KEYS[n + 2], kept)
  made.calls = calls == 1
  all[n] = made
  return made
end

-- asked returns a source, filled if it was missing, or nil if meta does not know its coverage.
local function asked(all, n, packed, first, now)
  local s = source(all, n, packed, first)
  if s.stored or s.filled or n == 0 then return s end
  for _, item in ipairs(accounts().items_of(redis.call('HGET', KEYS[1], 'items'))) do
    if item.id == string.sub(s.key, -12) then
      coverages().fill(s, all[0], item.def, now)
      all.anew = all.anew or not s.counter
      return s
    end
  end
end

return {source = source, asked = asked}
