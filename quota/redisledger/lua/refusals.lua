-- Module refusals: why requests of a run are refused, and until when. See spend.lua for b, the run.
-- It loads lists only to search: most refusals name a first record that the client knows.

local NOTE = 3 -- a quota.EntryKind
local PAGE = 100

-- holds returns what a sliding or calendar window holds.
local function holds(c) return (c.list.total - c.before) % 2^48 end

-- search_again searches for the begin of a run's windows, except where the known first record alone
-- makes enough room when it leaves. It reports whether what a window holds has changed.
local function search_again(b)
  local changed = false
  for n = 1, b.many do
    local c = b.charges[256 * b.mine[2 * n - 1] + b.mine[2 * n]]
    if not c.counter and not c.searched then
      local was, used = c.before, holds(c)
      local short = used + (c.list.calls and 1 or b.units) - c.limit
      local sure = c.first and used < 2^47 and not c.floors and (c.daily or short <= c.counts)
      if not sure then lists().search(c) end
      changed = changed or c.before ~= was
    end
  end
  return changed
end

-- find_fit returns what a budget holds and keeps, and when an amount fits (0: now). With quick, what it
-- keeps is 0 if the amount surely fits. For floors that end it only says 1 for later: the client
-- knows the days. The time is kept for the other requests of the batch.
local function find_fit(c, now, amount, quick)
  local list = c.list
  if c.counter then
    local used = counters().used(list, now)
    return used, 0, used + amount > c.limit and counters().fits_at(list, now, c.limit, amount) or 0
  end
  local used, kept = holds(c), 0
  local sure = not c.floors or quick and used + c.kept + amount <= c.limit
  if not sure then kept = floors().keeps(c, used, now) end
  local short = used + kept + amount - c.limit
  if short <= 0 then return used, kept, 0 end
  if c.floors and c.ends > 0 then return used, kept, 1 end
  if c.asked == amount and c.told_at == list.total then return used, kept, c.told end
  c.asked, c.told_at = amount, list.total
  if c.daily then
    local taken = list.stamp < c.next and 0 or (list.total - lists().locate(list, c.next)) % 2^48
    if c.floors then taken = taken + floors().kept(c, c.next) end
    c.told = taken + amount <= c.limit and c.opens or c.reopens
  elseif c.floors then
    c.told = floors().leaves(c, amount, short)
  elseif c.searched then
    c.told = lists().reach(list, c.place, c.before, short) + c.length
  else
    c.told = c.first + c.length -- see search_again
  end
  return used, kept, c.told
end

-- reason returns why a run's request is refused, or nil: the first reason of those that end last.
local function reason(b)
  local best, ending, later = {at = 0, number = 0, used = 0, kept = 0, text = false}, {}, false
  for i = 1, b.many do
    local n = 256 * b.mine[2 * i - 1] + b.mine[2 * i]
    local c = b.charges[n]
    local amount = c.list.calls and 1 or b.units
    if amount > c.limit then error('ration: bad argument: units') end
    local used, kept, at = find_fit(c, b.now, amount, not b.cooled)
    if c.floors and c.ends > 0 then
      later = later or at > 0
      ending[#ending + 1] = n
    else
      if b.far > 0 then at = lists().latest(at, c, b.far, b.now) end
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

-- refuse packs the answer for refused requests of a run, or returns nil if they fit.
local function refuse(b, times, floored)
  local why = reason(b)
  if not why then return nil end
  local text = why.text and struct.pack('>I2', #why.text) .. why.text or floored and '\0\0' or ''
  if not floored then return struct.pack('>BI4I2I7I7', why.text and 2 or 1, times, why.number, why.used, why.at) .. text end
  local said = {struct.pack('>BI4I2I7I7I7B', 4, times, why.number, why.used, why.kept, why.at, why.text and 1 or 0), text, struct.pack('>I2', #why.ending)}
  for _, n in ipairs(why.ending) do said[#said + 1] = floors().ends(n, b.charges[n]) end
  return table.concat(said)
end

-- last packs a log's newest entry but for notes, or returns an empty string. It does not see what
-- is due to be trimmed. It reads pages: many notes can follow.
local function last(log)
  local page, back = {log.last or nil}, 1
  while #page > 0 do
    for n = #page, 1, -1 do
      local record = page[n]
      if string.byte(record, 34) ~= NOTE and string.sub(record, 18, 19) ~= '\0\0' then
        if back > 1 and struct.unpack('>I7', record) <= log.was - lists().retention(log.horizon) then return '' end
        return struct.pack('>BI4', 7, 1) .. string.sub(record, 1, 7) .. string.sub(record, 20, 29)
      end
    end
    back = back + #page
    page = redis.call('LRANGE', log.key, 1 - back - PAGE, -back)
  end
  return ''
end

return {search_again = search_again, refuse = refuse, last = last}
