-- Scripts are put together from several files (see package redisledger), so a
-- name that one file defines at its outermost level is used by others. Whether a
-- script has all that it uses, TestScriptsHaveWhatTheyUse checks on whole scripts.
std = 'lua51'
read_globals = {'redis', 'struct', 'KEYS', 'ARGV'} -- what Redis gives a script
max_line_length = 160
unused_secondaries = false -- of several results a script may need some
ignore = {
  '211/%u+', -- a constant names a value of the format, though a script may not need it
  '213', -- a loop over pairs names both
  '311', -- a first value that every branch replaces says what the variable is
  '4', -- shadowing: the names are few and the functions short
  '542', -- an empty branch holds the comment that says why nothing is done
}

local folder = 'quota/redisledger/lua/'
files[folder] = {ignore = {'1'}} -- globals, which whole scripts show
local texts, shared = {}, {}
for name in require('lfs').dir(folder) do
  if name:match('%.lua$') then
    local file = assert(io.open(folder .. name))
    texts[name] = file:read('*a')
    file:close()
  end
end

local function used_elsewhere(name, file)
  for other, text in pairs(texts) do
    if other ~= file and (' ' .. text):find('[^%w_.]' .. name .. '%f[^%w_]') then return true end
  end
end

for file, text in pairs(texts) do
  for line in text:gmatch('[^\n]+') do
    local names = line:match('^local function ([%w_]+)') or line:match('^local ([%w_, ]+)')
    for name in (names or ''):gmatch('[%w_]+') do
      if used_elsewhere(name, file) then shared[name] = true end
    end
  end
end
for name in pairs(shared) do ignore[#ignore + 1] = '211/' .. name end
