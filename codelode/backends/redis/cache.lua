-- The atomic step of the query cache.
--
-- Keys, all below KEYS[1]: :v:KEY the compressed answer, expires · :order ZSET of KEY by the number
-- of its store operation, which :stored counts. An expired answer stays in :order until it is the
-- oldest entry, and counts against the bound until then.

--- put
-- ARGV: key, value, time to live in seconds, maximum number of answers

local base = KEYS[1]
local order = base .. ':order'
redis.call('SET', base .. ':v:' .. ARGV[1], ARGV[2], 'EX', ARGV[3])
redis.call('ZADD', order, redis.call('INCR', base .. ':stored'), ARGV[1])
local surplus = redis.call('ZCARD', order) - tonumber(ARGV[4])
if surplus > 0 then
  local oldest = redis.call('ZPOPMIN', order, surplus)
  for i = 1, #oldest, 2 do redis.call('UNLINK', base .. ':v:' .. oldest[i]) end
end
