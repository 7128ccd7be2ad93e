-- Decides a batch. Nothing is written before everything is decided. The steps are one sequence: as
-- ten functions with a table of what they share, a grant took a sixth more instructions
-- (2026-11-22), since Redis creates functions in every run.
--
-- KEYS: meta, the log, sources; cooldowns and the client's slot if head's last byte is not 0 or the
-- batch is not fresh; and for a long key, where its name is stored.
-- ARGV: the batch, perhaps the time of a test, and perhaps a long key. A batch is
--   head 12, mode 1 (see resent.lua; 4 more for the only batch of its client), whether the log keeps entries 1 and is the account's own 1,
--     client 6, seq 7, known 7 (a stamp that the log has had), the caller's time 7 or 0,
--     horizon 7 (of the log, or of its longest counter if it keeps no entries), number of sources 1, of budgets 2 and of runs 2
--   if it is sent again: number of requests 4, since 7, which try it is 2
--   if head's last byte is not 0: the names of the budgets 2 + n each
--   the budgets, see read_charges in windows.lua
--   the sources: whether it is a counter 1 and counts calls 1, horizon 7 (of a counter its length)
--   runs of equal requests: label 2, units 4 (top bit: forced), place of the first 4 (top bit: a
--     note or correction), how many 2, number of sources that count it 1 and of budgets 2, the
--     sources 1 each, the budgets 2 each, and for a note or correction kind 1 and calls 4
-- Answer, packed: 1 other head; 2, now 7: other days; 3 a late batch; 4 ask again; 5, a later try 2
-- that was decided; 6 the log has dropped what it is searched for; 7 its
-- newest stamp is below known; 8, now 7 and the log's newest stamp 7: now is far ahead of that and of
-- the caller's time; 9 the client has another batch; or 0, now 7, then for as many
-- requests as it says (4) each
--   0, the first's stamp 7 (the others follow by a microsecond each), and for each budget used 7
--     after the first, when it frees 7, with floors kept 7; for a counter start, present, before
--   1, budget 2, used 7, retry at 7
--   2, the same and the reason 2 + n, for a cooldown
--   3, the log is full
--   4, for a request with floors: budget 2, used 7, kept 7, retry at 7, whether it is a cooldown 1,
--     reason 2 + n, number of budgets whose floors end 2, and ends (floors.lua) of each
--   5, the stamp 7: it was granted before
-- each perhaps after a 6, how far the log's newest stamp is ahead 7, and the first refusal after a
-- 7, the stamp 7, client 6 and seq 4 of the newest entry before the batch but for notes, if there is
-- one; and for each window that was searched for: budget 2, first 7, before 6, counts 4 and place 4,
-- see open in windows.lua.

local FRESH, RESENT, AGAIN = 0, 2, 3

-- fitting returns how many requests of a run fit into its budgets, at most times.
local function fitting(charges, mine, many, units, now, times, run)
  for n = 1, many do
    local c = charges[256 * mine[2 * n - 1] + mine[2 * n]]
    local list = c.list
    local amount = list.calls and 1 or units
    if amount > c.limit then error('ration: bad argument: units') end
    local left = c.limit - (c.counter and counters().used(list, now) or (list.total - c.before) % 2^48)
    if left < amount then return 0 end
    if amount * times > left and list.run == run then times = (left - left % amount) / amount end
  end
  return times
end

-- together returns how many requests of a run can be recorded as one from a stamp on, at most
-- times: those within one period of each counter, and 0 if a sum would become ambiguous.
local function together(keeps, all, feeds, many, units, calls, times, stamp)
  for n = keeps and 0 or 1, many do
    local s, over = all[n > 0 and feeds[n] or 0], false
    local amount = s.calls and calls or units
    if s.counter then
      times = math.min(times, s.length - stamp % s.length)
      over = s.present + amount * times >= 2^47
    elseif (s.stored or s.filled or s.count > 0) and s.total % 2^40 + amount * times >= 2^40 then
      over = lists().full(s, amount * times)
    end
    if over then return times > 1 and together(keeps, all, feeds, many, units, calls, 1, stamp) or 0 end
  end
  return times
end

-- Read the batch.

local packed, time = ARGV[1], ARGV[2] or ''
local head, mode, keeps, own, client, seq, since, caller, horizon, nsources, ncharges, nruns, where = struct.unpack('>c12BBBI6I7I7I7I7BI2I2', packed)
if head_of(KEYS[1]) ~= head then return '\1' end
local now, real, copy, names, charges = clock(time), time == '', nil, nil, nil
local once = mode >= 4
if once then mode = mode - 4 end
local guarded, named = string.byte(head, 12) ~= 0, mode ~= FRESH
keeps, own = keeps == 1, own == 1
if mode > AGAIN or once and not named or not keeps and mode == RESENT then error('ration: bad argument: mode') end
if mode == RESENT or mode == AGAIN then copy, where = resent().read(packed, where, now) end
if guarded then names, where = accounts().read_names(packed, where, ncharges) end
charges, where = read_charges(packed, where, ncharges, now)
if not charges then return struct.pack('>BI7', 2, now) end
local first_source, log = where, new_list(KEYS[2], horizon)
if caller > 0 and now - math.max(caller, log.stamp) > LEAD then return struct.pack('>BI7I7', 8, now, log.stamp) end
if log.stamp < since then return '\7' end
local all = {[0] = log, many = nsources} -- the sources read so far
where = where + 9 * nsources

local cool, slot, before, noted, cooled, beside = KEYS[nsources + 3], KEYS[nsources + 4], nil, '', nil, nil
if guarded or named then
  if mode == RESENT then accounts().guard(KEYS[1], now + 1000 * REMEMBERED) end
  before, noted = resent().granted_before({seq = seq, client = client, mode = mode, once = once, copy = copy, real = real}, log, slot)
  if not before then return noted end
  cooled = guarded and accounts().cooldowns(cool, names, now)
end
for n = 1, ncharges do
  local c = charges[n]
  c.list = c.list == 0 and log or sources().asked(all, c.list, packed, first_source, now)
  if not c.list then return '\1' end
  if c.counter ~= (c.list.counter or false) then error('ration: bad argument: source') end
  if not c.counter then open(c) end
  for i = 1, c.floors and #c.floors or 0 do
    local f = c.floors[i]
    f.list, beside = sources().asked(all, f.source, packed, first_source, now), true
    if not f.list or f.list.counter then error('ration: bad argument: floor') end
  end
end

-- Decide run by run.

local answer, granted, begun, last = {}, named and {}, false, nil -- begun: the first grant has packed now
for run = 1, nruns do
  local label, units, place, times, nfeeds, nmine
  label, units, place, times, nfeeds, nmine, where = struct.unpack('>I2I4I4I2BI2', packed, where)
  local feeds = nfeeds > 0 and {string.byte(packed, where, where + nfeeds - 1)}
  where = where + nfeeds + 2 * nmine
  local mine = {string.byte(packed, where - 2 * nmine, where - 1)} -- two bytes each
  local forced, floored, calls, tail = units >= 2^31, false, 1, ''
  units = units % 2^31
  local raw = units -- the amount in the log
  if place >= 2^31 then
    local kind
    kind, calls, where = struct.unpack('>BI4', packed, where)
    place, raw, tail = place - 2^31, 2^31 + units, struct.pack('>I4B', calls, kind)
    if not forced or kind < 1 or calls >= 2^31 then error('ration: bad argument: kind') end
  end
  if units < 1 and not forced or label < 1 or times < 1 then error('ration: bad argument: run') end
  log.run = run
  for n = 1, nfeeds do sources().source(all, feeds[n], packed, first_source).run = run end
  for n = 1, beside and nmine or 0 do floored = floored or charges[256 * mine[2 * n - 1] + mine[2 * n]].floors end
  local stop, alone = place + times, floored or tail ~= '' or noted ~= ''

  while place < stop do
    local far = log.stamp - now > SLACK and log.stamp - now or 0 -- more than a clock step explains
    local known, refused = before and before[place], nil
    if far > 0 and not known then answer[#answer + 1] = struct.pack('>BI4I7', 6, 1, far) end
    times = alone and 1 or stop - place

    -- How many fit? The requests of a run are equal, so once one is refused, so are the rest.
    if not forced and not known then
      local fit = floored and 0 or fitting(charges, mine, nmine, units, now, times, run)
      if fit == 0 or cooled then
        local b = {charges = charges, names = names, now = now, far = far, cooled = cooled, mine = mine, many = nmine, units = units}
        if fit == 0 and refusals().search_again(b) and not floored then fit = fitting(charges, mine, nmine, units, now, times, run) end
        refused = (fit == 0 or cooled) and refusals().refuse(b, times, floored)
        if refused and not last then
          last = refusals().last(log)
          answer[#answer + 1] = last
        end
      end
      if not refused then times = floored and 1 or fit end
    end

    local stamp = math.max(now, log.stamp + 1)
    if known then
      answer[#answer + 1] = struct.pack('>BI4I7', 5, 1, known)
    elseif refused then
      answer[#answer + 1] = refused
    elseif nfeeds > 0 or log.total % 2^40 + units * times >= 2^40 then
      times = together(keeps, all, feeds, nfeeds, units, calls, times, stamp)
    end
    if times == 0 then -- the log is full
      answer[#answer + 1] = struct.pack('>BI4', 3, 1)
      times = 1
    elseif not known and not refused then
      -- Record them. A missing source is filled when a budget asks it.
      local pending, count, total = log.pending, log.count, log.total
      for n = 1, keeps and times or 0 do
        total = (total + units) % 2^48
        pending[count + n] = struct.pack('>I7I6I4I2I6I4', stamp + n - 1, total, raw, label, client, (seq + place + n - 1) % 2^32) .. tail
      end
      log.stamp, log.count, log.total = stamp + times - 1, count + times, total
      for n = 1, nfeeds do
        local s = all[feeds[n]]
        if s.counter then
          if s.stored or s.filled then counters().tick(s, stamp, (s.calls and calls or units) * times) end
        elseif s.stored or s.filled then
          push(s, stamp, s.calls and calls or units, times)
        end
      end
      for n = 1, named and times or 0 do granted[#granted + 1] = struct.pack('>I4I7', place + n - 1, stamp + n - 1) end

      -- Answer how each window stands after the first of them.
      local format, values, last = '>BI7BI4I7', {0, now, 0, times, stamp, 0, 0, 0, 0}, 5
      if answer[1] then format, values, last = '>BI4I7', {0, times, stamp}, 3 else begun = true end
      for n = 1, nmine do
        local c = charges[256 * mine[2 * n - 1] + mine[2 * n]]
        local list = c.list
        local later = list.run == run and (list.calls and calls or units) * (times - 1) or 0
        if c.counter then
          local start, present, past = counters().periods(list, now)
          values[last + 1], values[last + 2], values[last + 3] = start, present - later, past
          format, last = format .. 'I7I7I7', last + 3
        else
          local used = (list.total - c.before) % 2^48
          values[last + 1], values[last + 2] = used - later, frees(c, used)
          format, last = format .. 'I7I7', last + 2
          if c.floors then
            values[last + 1] = floors().keeps(c, used, now)
            format, last = format .. 'I7', last + 1
          end
        end
        if last > 1000 then -- unpack has a limit
          answer[#answer + 1] = struct.pack(format, unpack(values, 1, last))
          format, last = '>', 0
        end
      end
      answer[#answer + 1] = struct.pack(format, unpack(values, 1, last))
    end
    place = place + times
  end
end

-- Write.

local renew, try = false, copy and copy.try or 0
if keeps then
  renew = store(log, now, real)
elseif log.count > 0 then
  renew = accounts().store_newest(log, real)
end
if renew and real then accounts().outlive(KEYS[1], horizon) end
if renew and ARGV[3] then
  redis.call('SET', KEYS[#KEYS], ARGV[3])
  if real then lists().extend(KEYS[#KEYS], horizon) end
end
for n = 1, nsources do
  local s = all[n]
  if s and s.counter then counters().store(s, real) elseif s then store(s, now, real) end
end
if named and (log.count > 0 or try > 0) then resent().write(slot, real, seq, 0, try, noted .. table.concat(granted)) end
if guarded and mode ~= RESENT and log.count > 0 then accounts().unguard(KEYS[1], cool, now) end
local first = own and keeps and not log.stored and log.count > 0
if own and all.anew or first and redis.call('HINCRBY', KEYS[1], 'logs', 1) > 1 then accounts().turn(KEYS[1]) end

-- Answer, with the begins of the windows that were searched for.

for n = 1, own and ncharges or 0 do
  local c = charges[n]
  local known = c.searched and c.first and c.counts > 0 and (c.place == 0 or c.first < log.stamp - SETTLED)
  if known or c.searched and c.first and c.place ~= c.guess then
    answer[#answer + 1] = struct.pack('>I2I7I6I4I4', n, known and c.first or 0, c.before, c.counts, c.place)
  end
end
local said = answer[2] and table.concat(answer) or answer[1]
return begun and said or struct.pack('>BI7', 0, now) .. said
