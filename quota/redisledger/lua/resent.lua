-- Module resent. Exactly once: what became of a batch whose answer was lost. The first copy may still be on its
-- way. A batch says how it is known again:
--     FRESH   the ledger sends it for the first time. It leaves no trace but its records, each of
--             which carries its id.
--     NAMED   the id is the caller's, who alone knows whether it came before. What is granted is
--             noted in the client's slot.
--     RESENT  a fresh batch is sent again. First of all head changes and the slot is written: they hold
--             off the first copy, should that come later. Then the log is searched for the batch's
--             records, from the newest back to since, a stamp that the batch's must be above and no
--             older than an hour; a page at a time, and what was found is noted in the slot. Then it
--             is decided as a named one.
--     AGAIN   a named batch is sent again. It is noted in the slot, refused too.
-- A try may come late that another was sent after: the slot tells the number of the last that was
-- decided, and those before it are not decided any more. A log that keeps no entries has nothing
-- to search, so nothing is resent to it.
-- A slot is seq 7, the stamp before which is still to be searched 7 (0: nothing is), the try 2, and of
-- each grant its place 4 and stamp 7.

local HOUR = 3600000000

-- read reads what a batch that is sent again says of itself.
local function read(packed, where, now)
  local many, since, try
  many, since, try, where = struct.unpack('>I4I7I2', packed, where)
  local heard = since > 0 and math.min(since + SLACK, now) or now - HOUR -- the batch's records are newer
  since = math.max(math.min(since, now - SLACK), now - HOUR) -- no copy takes so long, and a restamp sets back to now at most
  return {many = many, since = since, heard = heard, try = try}, where
end

-- write notes in the slot before which stamp the log is still to be searched, which try this is, and what was granted.
local function write(slot, real, seq, upto, try, grants)
  local packed = struct.pack('>I7I7I2', seq, upto, try) .. grants
  if real then redis.call('SET', slot, packed, 'PX', '600000') else redis.call('SET', slot, packed) end
end

-- search_page looks for a batch in the page of the log before an instant. It returns the stamp before
-- which is still to be searched, 0 for none, and what it found, as in a slot; or nil when the log has
-- dropped what could have been the batch's. The records of one batch stand together, so the search ends before them.
local function search_page(b, log, upto, have)
  local _, stop = lists().locate(log, upto)
  local from, left = math.max(0, stop - 250), 0
  local found, others, dropped = {}, false, false
  for n, record in ipairs(stop > 0 and redis.call('LRANGE', log.key, from, stop - 1) or {}) do
    local stamp, _, _, label, client, number = struct.unpack('>I7I6I4I2I6I4', record)
    local place = (number - b.seq) % 2^32
    local ours = client == b.client and place < b.copy.many
    if ours then found[#found + 1] = struct.pack('>I4I7', place, stamp) end
    if n == 1 then
      others = not ours
      if from > 0 and stamp > b.copy.since then left = stamp end
    end
    if label == 0 and stamp > b.copy.heard then dropped = true end
  end
  local any = #found > 0 or #have > 0
  if dropped and not any then return nil end
  if others and any then left = 0 end
  return left, have .. table.concat(found)
end

-- granted_before returns the stamps that requests of a batch were granted at before, by place, and the grants
-- as in a slot. Instead of them it returns an answer when the batch is not to be decided, or not yet.
local function granted_before(b, log, slot)
  local is_resent = b.mode == 2
  local packed, try = redis.call('GET', slot), b.copy and b.copy.try or 0
  if not packed and not is_resent then return {}, '' end
  local last, upto, tries, have = -1, 0, 0, ''
  if packed then
    last, upto, tries = struct.unpack('>I7I7I2', packed)
    have = string.sub(packed, 17)
  end
  if last > b.seq or last == b.seq and b.mode == 0 then return nil, '\3' end
  if last == b.seq and tries > try then return nil, struct.pack('>BI2', 5, tries) end
  if last < b.seq then
    if not is_resent then return {}, '' end
    upto, have = log.stamp + 1, ''
  end
  if upto > 0 then
    upto, have = search_page(b, log, upto, have)
    if not upto then return nil, '\6' end
    write(slot, b.real, b.seq, upto, try, have)
    if upto > 0 then return nil, '\4' end
  end
  local before = {}
  for where = 1, #have, 11 do
    local place, stamp = struct.unpack('>I4I7', have, where)
    before[place] = stamp
  end
  return before, have
end

return {read = read, write = write, granted_before = granted_before}
