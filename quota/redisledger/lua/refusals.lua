-- Module refusals: why requests of a run are refused, and until when. The run b has the charges of its batch and their
-- names, the numbers of those that are its own and how many, its units, now, how far the log is ahead, the cooldowns
-- that hold, and what decides beside floors.

local holds, latest, search = lists().holds, lists().latest, lists().search

-- search_again searches for the windows of a run that are full as far as the process knows them, unless the first
-- record alone makes enough room when it leaves. It reports whether one holds something else.
local function search_again(b)
  local changed = false
  for n = 1, b.many do
    local c = b.charges[256 * b.mine[2 * n - 1] + b.mine[2 * n]]
    if not c.counter and not c.searched then
      local was, used = c.before, holds(c)
      local short = used + (c.list.calls and 1 or b.units) - c.limit
      local sure = c.first and used < 2^47 and not c.floors and (c.daily or short <= c.counts)
      if not sure then search(c) end
      changed = changed or c.before ~= was
    end
  end
  return changed
end

-- fits_at returns when an amount fits that a window is short of so much for now. Many in one batch
-- ask the same.
local function fits_at(c, short, amount)
  local list = c.list
  if c.asked == amount and c.told_at == list.total then return c.told end
  c.asked, c.told_at = amount, list.total
  if c.daily then
    local tomorrow = list.stamp < c.next and 0 or (list.total - lists().locate(list, c.next)) % 2^48
    c.told = tomorrow + amount <= c.limit and c.opens or c.reopens
  elseif c.searched then
    c.told = lists().reach(list, c.place, c.before, short) + c.length
  else
    c.told = c.first + c.length -- see search_again
  end
  return c.told
end

-- ask returns what a budget without floors holds, and when an amount fits: 0 for now.
local function ask(c, now, amount)
  if c.counter then
    local used = counters().used(c.list, now)
    return used, used + amount > c.limit and counters().fits_at(c.list, now, c.limit, amount) or 0
  end
  local used = holds(c)
  return used, used + amount > c.limit and fits_at(c, used + amount - c.limit, amount) or 0
end

-- reason returns why a request of a run is refused. Of several reasons it is the one that ends last,
-- the first of those. It returns nil for one that fits.
local function reason(b)
  local best, ending, later = {at = 0, number = 0, used = 0, kept = 0, text = false}, {}, false
  for i = 1, b.many do
    local n = 256 * b.mine[2 * i - 1] + b.mine[2 * i]
    local c = b.charges[n]
    local amount = c.list.calls and 1 or b.units
    if amount > c.limit then error('ration: bad argument: units') end
    local used, kept, at = 0, 0, 0
    if c.floors then used, kept, at = b.beside.fits(c, b.now, amount, not b.cooled) else used, at = ask(c, b.now, amount) end
    if c.floors and c.ends > 0 then
      later = later or at > 0
      ending[#ending + 1] = n
    else
      at = latest(at, c, b.far, b.now)
      if at > best.at then best = {at = at, number = n, used = used, kept = kept, text = false} end
    end
    local stop = b.cooled and b.names[n] ~= '' and b.cooled[b.names[n]]
    if stop and stop.till > best.at then best = {at = stop.till, number = n, used = used, kept = kept, text = stop.reason} end
  end
  local stop = b.cooled and b.cooled['']
  if stop and stop.till > best.at then best = {at = stop.till, number = 0, used = 0, kept = 0, text = stop.reason} end
  if best.at == 0 and not later then return nil end
  best.ending = ending
  return best
end

-- refuse packs why so many requests of a run are refused, see spend.lua, or returns nil when they fit.
local function refuse(b, times, floored)
  local why = reason(b)
  if not why then return nil end
  local text = why.text and struct.pack('>I2', #why.text) .. why.text or floored and '\0\0' or ''
  if not floored then return struct.pack('>BI4I2I7I7', why.text and 2 or 1, times, why.number, why.used, why.at) .. text end
  local said = {struct.pack('>BI4I2I7I7I7B', 4, times, why.number, why.used, why.kept, why.at, why.text and 1 or 0), text, struct.pack('>I2', #why.ending)}
  for _, n in ipairs(why.ending) do said[#said + 1] = b.beside.ends(n, b.charges[n]) end
  return table.concat(said)
end

return {search_again = search_again, refuse = refuse}
