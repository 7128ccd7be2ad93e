-- Module floors: room that is kept for others. An amount fits beside floors when what its window holds, the
-- amount, and what each floor's own list has not used of its floor since the window began are
-- together no more than the limit. A floor's list is read when it is first asked for.

local at, seek, locate, size, holds = lists().at, lists().seek, lists().locate, lists().size, lists().holds

-- kept returns what of a window's floors is not used since an instant, which is the window's or that of
-- its next day. Read returns the list of a source.
local function kept(c, since, read)
  local all, today = 0, since == c.since
  for _, f in ipairs(c.floors) do
    f.list = f.list or read(f.source)
    if not f.list or f.list.counter then error('ration: bad argument: floor') end
    if today and not f.before then f.before, f.place = locate(f.list, since) end
    local before = today and f.before or locate(f.list, since)
    all = all + math.max(0, f.units - (f.list.total - before) % 2^48)
  end
  return all
end

-- tomorrow returns what the next day holds and keeps. What the batch records comes before it, mostly.
local function tomorrow(c, read)
  return (c.list.total - locate(c.list, c.next)) % 2^48, kept(c, c.next, read)
end

-- keeps_after returns what a window keeps when all calls until an instant have left, and for each
-- floor the place and stamp of the first that has not. Each is known to be above low, and at high
-- at most; a and b are stamps of where it may be.
local function keeps_after(c, instant)
  local kept, places, stamps = 0, {}, {}
  for n, f in ipairs(c.floors) do
    local list, used = f.list, 0
    if list.stamp > instant then
      local guess = f.low + 1 + math.floor((instant + 1 - f.a) / math.max(f.b - f.a, 1) * (f.high - f.low - 1))
      local place, stamp, total, amount = seek(list, f.low, f.high, guess, instant + 1)
      places[n], stamps[n] = place, stamp
      used = (list.total - total + amount) % 2^48
    end
    kept = kept + math.max(0, f.units - used)
  end
  return kept, places, stamps
end

-- leaves returns when the record leaves a sliding window with which an amount fits that is short
-- now. When a record leaves, its floor opens by as much at most, so what is taken never grows
-- while nothing is spent: the record is searched for, in steps that grow, since most often little of
-- it goes to floors, and then by halves.
local function leaves(c, amount, short)
  local list, floors = c.list, c.floors
  local low, high, step = c.place - 1, size(list) - 1, 0
  if c.place < high then
    local guess = c.place + math.floor((short - 1) / math.max(select(3, at(list, c.place)), 1))
    low = seek(list, low, high, guess, short, c.before) - 1 -- before that it is short even without floors
  end
  for _, f in ipairs(floors) do
    f.low, f.high, f.b, f.list.seen = f.place - 1, size(f.list), f.list.stamp, {}
    f.a = f.list.stamp < c.since and f.b or at(f.list, f.place)
  end
  while high - low > 1 do
    local middle = low + 1 + math.min(step, math.floor((high - low - 1) / 2))
    local stamp, total = at(list, middle)
    local kept, places, stamps = keeps_after(c, stamp)
    local fits = (list.total - total) % 2^48 + kept + amount <= c.limit
    if fits then high = middle else low, step = middle, 8 * step + 1 end
    for n, f in ipairs(floors) do
      local place = places[n]
      if place and fits then f.high, f.b = place, stamps[n] end
      if place and not fits then f.low, f.a = place - 1, stamps[n] end
    end
  end
  for _, f in ipairs(floors) do f.list.seen = nil end
  return (at(list, high)) + c.length
end

-- beside makes what decides requests that have budgets with floors. Read returns the list of a source.
local function beside(read)
  local made = {}

  -- fits returns what a window holds and what it keeps, and when amount fits: 0 for now, and then, when
  -- it is asked to be quick, it need not say what is kept. Of floors that end it is 1 for
  -- later: the client knows the days, and is told (see ends).
  function made.fits(c, now, amount, quick)
    local used = holds(c)
    if quick and used + c.kept + amount <= c.limit then return used, 0, 0 end
    if c.ends > 0 and now >= c.next - c.ends then
      local taken = used
      if now >= c.next then
        local next, keeps = tomorrow(c, read)
        taken = math.max(used, next + keeps)
      end
      return used, 0, taken + amount > c.limit and 1 or 0
    end
    local keeps = kept(c, c.since, read)
    local short = used + keeps + amount - c.limit
    if short <= 0 then return used, keeps, 0 end
    if c.ends > 0 then return used, keeps, 1 end
    if c.asked == amount and c.told_at == c.list.total then return used, keeps, c.told end
    c.asked, c.told_at = amount, c.list.total
    if c.daily then
      local next, taken = tomorrow(c, read)
      c.told = next + taken + amount <= c.limit and c.opens or c.reopens
    else
      c.told = leaves(c, amount, short)
    end
    return used, keeps, c.told
  end

  -- ends packs what a calendar window with floors that end holds and keeps, today and of the next day.
  function made.ends(number, c)
    return struct.pack('>I2I7I7I7I7', number, holds(c), kept(c, c.since, read), tomorrow(c, read))
  end

  -- keeps returns what a window that holds so much keeps. Around the boundary of a day a call must
  -- fit the next one too, so that its floors may keep more than those of the day.
  function made.keeps(c, used, now)
    if c.ends == 0 or now < c.next - c.ends then return kept(c, c.since, read) end
    if now < c.next then return 0 end
    local next, keeps = tomorrow(c, read)
    return math.max(0, next + keeps - used)
  end
  return made
end

return {beside = beside}
