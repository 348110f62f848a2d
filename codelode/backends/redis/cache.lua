-- The query cache's one atomic step.
--
-- Keys, all below KEYS[1]: :v:KEY the compressed answer, expiring · :order ZSET KEY by the time it
-- was stored, as counted by :stored. An answer that expired keeps its place in :order until it is
-- the oldest; a bound on answers counts it until then.

--- put
-- ARGV: key, value, life in seconds, bound on answers
local base = KEYS[1]
local order = base .. ':order'
redis.call('SET', base .. ':v:' .. ARGV[1], ARGV[2], 'EX', ARGV[3])
redis.call('ZADD', order, redis.call('INCR', base .. ':stored'), ARGV[1])
local surplus = redis.call('ZCARD', order) - tonumber(ARGV[4])
if surplus > 0 then
  local oldest = redis.call('ZPOPMIN', order, surplus)
  for i = 1, #oldest, 2 do redis.call('UNLINK', base .. ':v:' .. oldest[i]) end
end
