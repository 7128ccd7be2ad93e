-- core makes what searches lists.
local function core()
  local floor, max, min = math.floor, math.max, math.min

  -- new_list returns the list of a key. Records in pending are not stored yet.
  local function new_list(key, horizon)
    local last = call('LINDEX', key, '-1')
    if not last then return {key = key, horizon = horizon, stamp = 0, total = 0, was = 0, count = 0, pending = {}} end
    local stamp, total = unpacked('>I7I6', last)
    return {key = key, horizon = horizon, stamp = stamp, total = total, was = stamp, last = last, count = 0, pending = {}, stored = true}
  end

  local function size(list)
    if not list.length then
      list.length = list.stored and call('LLEN', list.key) or 0
    end
    return list.length + list.count
  end

  -- at returns the stamp, total and amount of the record of a place, counted from 0.
  local function at(list, place)
    local packed
    if place == 0 and list.stored then
      packed = list.first
      if not packed then
        packed = call('LINDEX', list.key, '0')
        list.first = packed
      end
    else
      size(list)
      local seen = list.seen
      if place < list.length then
        packed = seen and seen[place] or call('LINDEX', list.key, place)
        if seen then seen[place] = packed end
      else
        packed = list.pending[place - list.length + 1]
      end
    end
    local stamp, total, amount = unpacked('>I7I6I4', packed)
    if amount >= NOCALL then amount = amount - NOCALL end
    return stamp, total, amount
  end

  -- seek returns the first place above low whose record reaches a bound: with its
  -- stamp, or given a base with its total above that. The one at high does. It
  -- gallops from a guess and then halves.
  local function seek(list, low, high, guess, bound, base)
    local step, up = 1, nil
    while high - low > 1 do
      guess = max(low + 1, min(high - 1, guess))
      local short, total = at(list, guess)
      if base then short = (total - base) % WRAP end
      short = short < bound
      if short then low = guess else high = guess end
      if up == nil then up = short end
      if short == up and step then -- still on the way
        guess, step = short and low + step or high - step, step * 2
      else
        guess, step = floor((low + high) / 2), nil
      end
    end
    return high
  end

  -- locate returns the total before an instant, and the place of the first record
  -- at or after it, with its stamp and amount if it is there. It begins at a guess, or
  -- where that would be if calls came evenly.
  local function locate(list, instant, guess)
    if list.stamp < instant then return list.total, size(list) end
    local stamp, total, amount = at(list, 0)
    if stamp >= instant then return (total - amount) % WRAP, 0, stamp, amount end
    local low, high = 0, size(list) - 1
    if stamp == 0 then -- the list began with nothing
      low = 1
      stamp, total, amount = at(list, 1)
      if stamp >= instant then return (total - amount) % WRAP, 1, stamp, amount end
    end
    guess = guess or low + floor((instant - stamp) / (list.stamp - stamp) * (high - low))
    high = seek(list, low, high, guess, instant)
    stamp, total, amount = at(list, high)
    return (total - amount) % WRAP, high, stamp, amount
  end

  -- reach returns the stamp of the first record from place on at which the total
  -- is so much above base. There is one. It begins where that would be if all
  -- counted as much as the first; records may count 0, so that is no more than a guess.
  local function reach(list, place, base, amount)
    local stamp, total, first = at(list, place)
    local more = amount - (total - base) % WRAP
    if more <= 0 then return stamp end
    local guess = place + floor((more - 1) / max(first, 1)) + 1
    return (at(list, seek(list, place, size(list) - 1, guess, amount, base)))
  end

  -- fits_at returns when an amount fits that does not fit a sliding or daily window now.
  -- Many in one batch ask the same.
  local function fits_at(charge, short, amount)
    local list = charge.list
    if charge.asked == amount and charge.told_at == list.total then return charge.told end
    local told
    if charge.kind == SLIDING then
      told = reach(list, charge.place, charge.before, short) + charge.length
    else
      local before = locate(list, charge.next)
      told = (list.total - before) % WRAP + amount <= charge.limit and charge.opens or charge.reopens
    end
    charge.asked, charge.told_at, charge.told = amount, list.total, told
    return told
  end

  return locate, fits_at, new_list, size, at, reach, seek
end
