-- Forgets the limits that were asked of an account's budgets, so that all clients ask again.
-- KEYS: meta.

if redis.call('HDEL', KEYS[1], 'limits') == 1 then accounts().turn(KEYS[1]) end
return 0
