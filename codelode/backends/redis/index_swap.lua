-- Mutual exclusion of writers and the index swap. All keys begin with KEYS[1].
--
--   reindex:switching  the exclusive lock: no worker may write while it exists
--   reindex:writers    HASH token -> worker, for each write in progress
--   worker:ID          a key of the ledger that expires without heartbeats of the worker

--- prelude
local prefix = KEYS[1]
local function key(name) return prefix .. name end

--- begin
-- token, worker -> 1 if the worker may write
if redis.call('EXISTS', key('reindex:switching')) == 1 then return 0 end
redis.call('HSET', key('reindex:writers'), ARGV[1], ARGV[2])
return 1

--- writers
-- -> number of live workers that are writing; removes the entries of dead ones
local all = redis.call('HGETALL', key('reindex:writers'))
local alive = 0
for i = 1, #all, 2 do
  if redis.call('EXISTS', key('worker:' .. all[i + 1])) == 1 then
    alive = alive + 1
  else
    redis.call('HDEL', key('reindex:writers'), all[i])
  end
end
return alive

--- renew
-- name, value, life_ms -> 1 if the lock is still held

if redis.call('GET', key(ARGV[1])) ~= ARGV[2] then return 0 end
return redis.call('PEXPIRE', key(ARGV[1]), ARGV[3])

--- release
-- name, value
if redis.call('GET', key(ARGV[1])) == ARGV[2] then redis.call('DEL', key(ARGV[1])) end
return 1
