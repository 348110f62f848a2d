-- How writers and the swap of the index exclude each other. All keys begin with KEYS[1].
--
--   reindex:switching  held while no worker may write
--   reindex:writers    HASH token -> worker of each write under way
--   worker:ID          the ledger's: expires when the worker stops its heartbeat

--- prelude
local prefix = KEYS[1]
local function key(name) return prefix .. name end

--- begin
-- token, worker -> 1 when it may write
if redis.call('EXISTS', key('reindex:switching')) == 1 then return 0 end
redis.call('HSET', key('reindex:writers'), ARGV[1], ARGV[2])
return 1

--- writers
-- -> how many live workers are writing; what dead ones left is removed
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
-- name, value, life_ms -> 1 when it is still held
if redis.call('GET', key(ARGV[1])) ~= ARGV[2] then return 0 end
return redis.call('PEXPIRE', key(ARGV[1]), ARGV[3])

--- release
-- name, value
if redis.call('GET', key(ARGV[1])) == ARGV[2] then redis.call('DEL', key(ARGV[1])) end
return 1
