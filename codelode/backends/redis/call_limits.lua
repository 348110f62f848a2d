-- Limits of calls, shared by all gateways. Keys, all below KEYS[1]: :rate:NAME the time at which the
-- token bucket is full again, in microseconds since the epoch · :calls:NAME ZSET of the active calls,
-- by the time at which their lease ends. Both expire.

--- prelude
local base, name = KEYS[1], ARGV[1]
local rate_key, calls_key = base .. ':rate:' .. name, base .. ':calls:' .. name

-- Release the calls in the arguments from the given one on.
local function release(first)
  for at = first, #ARGV do redis.call('ZREM', calls_key, ARGV[at]) end
end

--- take
-- name, call, interval of tokens in us, bucket size, maximum number of active calls, lease in us, calls
-- that have ended...
-- -> us until the call may be repeated; 0: it is admitted; -1: until another call ends
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local call, interval, size = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local at_once, lease = tonumber(ARGV[5]), tonumber(ARGV[6])
release(7)
local full_at = math.max(now, tonumber(redis.call('GET', rate_key) or '0'))
local wait = full_at - now - interval * (size - 1)
if interval > 0 and wait > 0 then return math.ceil(wait) end
if at_once > 0 then
  redis.call('ZREMRANGEBYSCORE', calls_key, '-inf', now)
  if redis.call('ZCARD', calls_key) >= at_once then return -1 end
  redis.call('ZADD', calls_key, now + lease, call)
  redis.call('PEXPIRE', calls_key, math.ceil(lease / 1000))
end
if interval > 0 then
  full_at = full_at + interval
  redis.call('SET', rate_key, string.format('%.0f', full_at),
    'PX', math.ceil((full_at - now) / 1000) + 1)
end
return 0

--- release
-- name, calls that have ended...
release(2)
return 0
