-- Module sources: the lists and counters that a batch names beside the log.

-- source returns the list or counter of a number.
local function source(all, n, packed, first)
  local made = all[n]
  if made then return made end
  if n > all.many then error('ration: bad argument: source') end
  local kind, calls, kept = struct.unpack('>BBI7', packed, first + 9 * (n - 1))
  made = kind == 0 and new_list(KEYS[n + 2], kept) or counters().new(KEYS[n + 2], kept)
  made.calls = calls == 1
  all[n] = made
  return made
end

-- asked returns a source that a budget asks, and fills it if it is not there. It returns nil when meta
-- does not know its coverage.
local function asked(all, n, packed, first, now)
  local s = source(all, n, packed, first)
  if s.stored or s.filled or n == 0 then return s end
  for _, item in ipairs(accounts().items_of(redis.call('HGET', KEYS[1], 'items'))) do
    if item.id == string.sub(s.key, -12) then
      coverages().fill(s, all[0], coverages().new_labels(KEYS[1]), item.def, now)
      all.anew = all.anew or not s.counter
      return s
    end
  end
end

return {source = source, asked = asked}
