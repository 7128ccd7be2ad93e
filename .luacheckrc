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
