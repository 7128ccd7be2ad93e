-- Module floors: units of a window that are reserved for other calls. An amount fits if the
-- window's use, the amount, and what each floor's list leaves unused are at most the limit.

local at, seek, locate, size, holds = lists().at, lists().seek, lists().locate, lists().size, lists().holds

-- kept returns what is unused of a window's floors since its begin, or that of its next day.
local function kept(c, since)
  local all, today = 0, since == c.since
  for _, f in ipairs(c.floors) do
    if today and not f.before then f.before, f.place = locate(f.list, since) end
    local before = today and f.before or locate(f.list, since)
    all = all + math.max(0, f.units - (f.list.total - before) % 2^48)
  end
  return all
end

-- tomorrow returns what the next day holds and keeps.
local function tomorrow(c)
  return (c.list.total - locate(c.list, c.next)) % 2^48, kept(c, c.next)
end

-- keeps_after returns what a window keeps once all calls until an instant have left, and notes each
-- floor's first record that stays. Its place is above low and at most high, its stamp from a to b.
local function keeps_after(c, instant)
  local kept = 0
  for _, f in ipairs(c.floors) do
    local list, used, total, amount = f.list, 0, nil, nil
    f.place_after = nil
    if list.stamp > instant then
      local guess = f.low + 1 + math.floor((instant + 1 - f.a) / math.max(f.b - f.a, 1) * (f.high - f.low - 1))
      f.place_after, f.stamp_after, total, amount = seek(list, f.low, f.high, guess, instant + 1)
      used = (list.total - total + amount) % 2^48
    end
    kept = kept + math.max(0, f.units - used)
  end
  return kept
end

-- leaves returns when an amount fits into a sliding window that is short of units now. A record
-- that leaves opens its floor by at most its own amount, so room only grows, and the record that
-- makes enough is searched: by growing steps, since floors seldom take much, then by bisection.
local function leaves(c, amount, short)
  local list, floors = c.list, c.floors
  local low, high, step = c.place - 1, size(list) - 1, 0
  if c.place < high then
    local guess = c.place + math.floor((short - 1) / math.max(select(3, at(list, c.place)), 1))
    low = seek(list, low, high, guess, short, c.before) - 1 -- before, it is short even without floors
  end
  for _, f in ipairs(floors) do
    f.low, f.high, f.b, f.list.seen = f.place - 1, size(f.list), f.list.stamp, {}
    f.a = f.list.stamp < c.since and f.b or at(f.list, f.place)
  end
  while high - low > 1 do
    local middle = low + 1 + math.min(step, math.floor((high - low - 1) / 2))
    local stamp, total = at(list, middle)
    local fits = (list.total - total) % 2^48 + keeps_after(c, stamp) + amount <= c.limit
    if fits then high = middle else low, step = middle, 8 * step + 1 end
    for _, f in ipairs(floors) do
      local place = f.place_after
      if place and fits then f.high, f.b = place, f.stamp_after end
      if place and not fits then f.low, f.a = place - 1, f.stamp_after end
    end
  end
  for _, f in ipairs(floors) do f.list.seen = nil end
  return (at(list, high)) + c.length
end

-- ends packs a charge's number and what its window holds and keeps, today and in the next day.
local function ends(number, c)
  return struct.pack('>I2I7I7I7I7', number, holds(c), kept(c, c.since), tomorrow(c))
end

-- keeps returns what a window with some use keeps. Around a day's boundary a call must fit the next
-- day too, whose floors may keep more.
local function keeps(c, used, now)
  if c.ends == 0 or now < c.next - c.ends then return kept(c, c.since) end
  if now < c.next then return 0 end
  local next, keeps = tomorrow(c)
  return math.max(0, next + keeps - used)
end

return {kept = kept, leaves = leaves, ends = ends, keeps = keeps}
