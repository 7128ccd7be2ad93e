-- Room that is kept for others. An amount fits beside floors when what its
-- window holds, the amount, and what each floor's own list has not used of its
-- floor since the window began are together no more than the limit.

-- floors makes what judges requests that have charges with floors. Read returns the list
-- of a source, see spend.lua.
local function floors(read)
  -- keeps returns what of a charge's floors its window has not used.
  local function keeps(charge)
    local kept = 0
    for _, f in ipairs(charge.floors) do
      f.list = f.list or read(f.source)
      if not f.before then f.before, f.place = locate(f.list, charge.since) end
      kept = kept + max(0, f.units - (f.list.total - f.before) % WRAP)
    end
    return kept
  end

  -- tomorrow returns what the next day holds and keeps. What the batch records
  -- comes before it, mostly.
  local function tomorrow(charge)
    local kept, from = 0, charge.next
    for _, f in ipairs(charge.floors) do
      f.list = f.list or read(f.source)
      kept = kept + max(0, f.units - (f.list.total - locate(f.list, from)) % WRAP)
    end
    return (charge.list.total - locate(charge.list, from)) % WRAP, kept
  end

  -- keeps_after returns what a charge keeps when all calls until an instant have left, and
  -- for each floor the place and stamp of the first that has not. Each is known to be
  -- above low, and at high at most; a and b are stamps of where it may be.
  local function keeps_after(charge, instant)
    local kept, places, stamps = 0, {}, {}
    for n, f in ipairs(charge.floors) do
      local list, used = f.list, 0
      if list.stamp > instant then
        local guess = f.low + 1 + floor((instant + 1 - f.a) / max(f.b - f.a, 1) * (f.high - f.low - 1))
        local place = seek(list, f.low, f.high, guess, instant + 1)
        local stamp, total, amount = at(list, place)
        places[n], stamps[n] = place, stamp
        used = (list.total - total + amount) % WRAP
      end
      kept = kept + max(0, f.units - used)
    end
    return kept, places, stamps
  end

  -- leaves returns when the record leaves a sliding window with which an amount fits that
  -- is short now. When a record leaves, its floor opens by as much at most, so what is taken
  -- never grows while nobody spends: the record is searched for, in steps that grow, since
  -- most often little of it goes to floors, and then by halves.
  local function leaves(charge, amount, short)
    local list, floors = charge.list, charge.floors
    local low, high, step = charge.place - 1, size(list) - 1, 0
    if charge.place < high then
      local guess = charge.place + floor((short - 1) / max(select(3, at(list, charge.place)), 1))
      low = seek(list, low, high, guess, short, charge.before) - 1 -- before that it is short even without floors
    end
    for _, f in ipairs(floors) do
      f.low, f.high, f.b, f.list.seen = f.place - 1, size(f.list), f.list.stamp, {}
      f.a = f.list.stamp < charge.since and f.b or at(f.list, f.place)
    end
    while high - low > 1 do
      local middle = low + 1 + min(step, floor((high - low - 1) / 2))
      local stamp, total = at(list, middle)
      local kept, places, stamps = keeps_after(charge, stamp)
      local fits = (list.total - total) % WRAP + kept + amount <= charge.limit
      if fits then high = middle else low, step = middle, 8 * step + 1 end
      for n, f in ipairs(floors) do
        local place = places[n]
        if place and fits then f.high, f.b = place, stamps[n] end
        if place and not fits then f.low, f.a = place - 1, stamps[n] end
      end
    end
    for _, f in ipairs(floors) do f.list.seen = nil end
    return (at(list, high)) + charge.length
  end

  -- beside returns what a window holds and what it keeps, and when amount fits: 0 for
  -- now, and then, when it is asked to be quick, it need not say what is kept. Of floors
  -- that end it is 1 for later: the client knows the days, and is told (see ends).
  local function beside(charge, now, amount, quick)
    local used, again = holds(charge), 0
    if quick and used + charge.all + amount <= charge.limit then return used, 0, 0 end
    if charge.ends > 0 and now >= charge.next - charge.ends then
      local taken = used
      if now >= charge.next then
        local next, kept = tomorrow(charge)
        taken = max(used, next + kept)
      end
      return used, 0, taken + amount > charge.limit and 1 or 0
    end
    local kept = keeps(charge)
    local short = used + kept + amount - charge.limit
    if short <= 0 then return used, kept, 0 end
    if charge.ends > 0 then return used, kept, 1 end
    if charge.asked == amount and charge.told_at == charge.list.total then return used, kept, charge.told end
    if charge.kind == SLIDING then
      again = leaves(charge, amount, short)
    else
      local next, taken = tomorrow(charge)
      again = next + taken + amount <= charge.limit and charge.opens or charge.reopens
    end
    charge.asked, charge.told_at, charge.told = amount, charge.list.total, again
    return used, kept, again
  end

  -- ends packs what a daily window with floors that end holds and keeps, today and of the next day.
  local function ends(number, charge)
    return pack('>I2I7I7I7I7', number, holds(charge), keeps(charge), tomorrow(charge))
  end

  -- taken returns what a window that holds so much keeps. Around the boundary of a day a call
  -- must fit the next one too, so that its floors may keep more than those of the day.
  local function taken(charge, used, now)
    if charge.ends == 0 or now < charge.next - charge.ends then return keeps(charge) end
    if now < charge.next then return 0 end
    local next, kept = tomorrow(charge)
    return max(0, next + kept - used)
  end

  -- judge is that of spend.lua for requests that have charges with floors.
  local function judge(units, charges, mine, cooled, now, far)
    local quick = next(cooled) == nil
    local best, later, ending = {at = 0, number = 0, used = 0, kept = 0, cooled = 0, reason = ''}, false, {}
    for _, n in ipairs(mine) do
      local c = charges[n]
      local amount = amount_of(c.list.calls, units, 1)
      if amount > c.limit then bad('units') end
      local used, kept, again = 0, 0, 0
      if c.floors then used, kept, again = beside(c, now, amount, quick) else used, again = ask(c, now, amount) end
      if not (c.floors and c.ends > 0) then again = latest(again, c, far, now) end
      if c.floors and c.ends > 0 then
        later = later or again > 0
        ending[#ending + 1] = n
      elseif again > best.at then
        best = {at = again, number = n, used = used, kept = kept, cooled = 0, reason = ''}
      end
      local cool = cooled[c.budget]
      if cool and c.budget ~= '' and cool.till > best.at then
        best = {at = cool.till, number = n, used = used, kept = kept, cooled = 1, reason = cool.reason}
      end
    end
    local all = cooled['']
    if all and all.till > best.at then best = {at = all.till, number = 0, used = 0, kept = 0, cooled = 1, reason = all.reason} end
    if best.at == 0 and not later then return nil end
    for i, n in ipairs(ending) do ending[i] = ends(n, charges[n]) end
    return pack('>BI4I2I7I7I7BI2', 4, 1, best.number, best.used, best.kept, best.at, best.cooled, #best.reason)
      .. best.reason .. pack('>I2', #ending) .. table.concat(ending)
  end

  return {judge = judge, taken = taken}
end
