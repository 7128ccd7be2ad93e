-- Budgets of a batch, and what their sliding and calendar windows hold.

-- read_charges reads many budgets from a place on. The wire form of one is
--   kind 1 (a quota.WindowKind), source 1, number of floors 1, length or horizon 7, limit 6
--   the cached begin of the window, see open: from 7, first 7, before 6, counts 4, place 4
--   if it is a calendar window: start 7, since 7, opens 7, next 7, reopens 7
--   if it has floors: how long before a day's end they end 7, and of each its source 1 and units 6
-- It returns nil if now is outside the day of a calendar window: the client must send another day.
local function read_charges(packed, where, many, now)
  local charges = {false, false, false} -- room
  for n = 1, many do
    local kind, source, floors, length, limit, from, first, before, counts, place
    kind, source, floors, length, limit, from, first, before, counts, place, where = struct.unpack('>BBBI7I6I7I7I6I4I4', packed, where)
    if limit < 1 or limit >= 2^47 then error('ration: bad argument: limit') end
    if kind < 1 or kind > 3 or kind ~= 2 and length < 1000 then error('ration: bad argument: window') end
    local c = {list = source, daily = kind == 2, counter = kind == 3, length = length, limit = limit, since = math.max(now - length + 1, 1),
      from = from, first = first, before = before, counts = counts, place = place} -- room for five more
    if c.daily then
      local start
      start, c.since, c.opens, c.next, c.reopens, where = struct.unpack('>I7I7I7I7I7', packed, where)
      if now < start or now >= c.opens then return nil end
    end
    if floors > 0 then
      c.floors, c.kept = {}, 0
      c.ends, where = struct.unpack('>I7', packed, where)
      if c.counter or c.ends > 0 and not c.daily then error('ration: bad argument: floors') end
      for i = 1, floors do
        local f = {}
        f.source, f.units, where = struct.unpack('>BI6', packed, where)
        if f.units < 1 or f.units > limit then error('ration: bad argument: floor') end
        c.floors[i], c.kept = f, c.kept + f.units
      end
    end
    charges[n] = c
  end
  return charges, where
end

-- open finds where a window begins, unless the client knows it from an earlier answer. That answer
-- is valid for windows that begin from from to first. Its place is a guess, since lists are
-- trimmed; any other change to records that a client may know changes the head. If another client
-- has deleted the list, it has other totals now, and the head is not yet changed.
local function open(c)
  local list = c.list
  if list.stamp < c.since then
    c.before, c.first = list.total, nil
  elseif c.since < c.from or c.since > c.first or list.filled then
    local oldest = list.stored and list.count == 0 and c.place == 0 and redis.call('LINDEX', list.key, '0')
    local stamp, total, amount = 0, 0, 0
    if oldest then stamp, total, amount = struct.unpack('>I7I6I4', oldest) end
    if stamp >= c.since then -- the window sees the whole list
      amount = amount % 2^31
      c.before, c.first, c.counts, c.guess, c.searched = (total - amount) % 2^48, stamp, amount, 0, true
    else
      lists().search(c)
    end
  end
end

-- frees returns when the next units of a window return, or 0 if it holds none.
local function frees(c, used)
  if used <= 0 then return 0 end
  local list = c.list
  if c.daily then
    -- Calls around the boundary count in the next day too.
    local next = list.stamp < c.next and 0 or (list.total - lists().locate(list, c.next)) % 2^48
    return next < used and c.opens or c.reopens
  end
  if not c.first then lists().search(c) end
  if c.counts > 0 then return c.first + c.length end
  return lists().reach(list, c.place, c.before, 1) + c.length
end
