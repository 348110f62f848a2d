-- Connections to code hosts, and what is read there. Keys, all below KEYS[1]: :declared HASH connection -> JSON ·
-- and below :synced, which backups leave out: :wanted HASH connection -> the last request · :outcomes HASH
-- connection -> JSON · :teams HASH connection -> JSON · :problem STRING · :holder:NAME STRING · :entrusted:NAME HASH name here -> URL.
-- KEYS[2] HASH connection -> packed content.

--- prelude
local declared, wanted = KEYS[1] .. ':declared', KEYS[1] .. ':synced:wanted'
local outcomes, content = KEYS[1] .. ':synced:outcomes', KEYS[2]
local teams = KEYS[1] .. ':synced:teams'
local function holder(name) return KEYS[1] .. ':synced:holder:' .. name end
local function entrusted(name) return KEYS[1] .. ':synced:entrusted:' .. name end

--- declare
-- (name, JSON)*
local function place(json)
  local one = cjson.decode(json)
  return one['kind'] .. ' ' .. one['prefix']
end
local kept = {}
for at = 1, #ARGV, 2 do kept[ARGV[at]] = place(ARGV[at + 1]) end
for _, name in ipairs(redis.call('HKEYS', declared)) do
  if kept[name] ~= place(redis.call('HGET', declared, name)) then
    for _, table in ipairs({declared, wanted, outcomes, content, teams}) do
      redis.call('HDEL', table, name)
    end
    redis.call('DEL', entrusted(name))
  end
end
for at = 1, #ARGV, 2 do redis.call('HSET', declared, ARGV[at], ARGV[at + 1]) end
return 1

--- want
-- name, digit of its mode or nothing, id. A request that is not answered yet keeps the higher digit.
local pending, outcome = redis.call('HGET', wanted, ARGV[1]), redis.call('HGET', outcomes, ARGV[1])
local answered, mode = outcome and cjson.decode(outcome)['wanted'] or '', ARGV[2]
if mode ~= '' and pending and pending ~= answered and string.sub(pending, 1, 1) > mode then
  mode = string.sub(pending, 1, 1)
end
redis.call('HSET', wanted, ARGV[1], mode .. ARGV[3])
return 1

--- keep_teams
-- name, JSON
if redis.call('HEXISTS', declared, ARGV[1]) == 1 then redis.call('HSET', teams, ARGV[1], ARGV[2]) end
return 1

--- hold
-- name, owner, milliseconds -> 0 if another owner holds it
local key = holder(ARGV[1])
local now = redis.call('GET', key)
if now and now ~= ARGV[2] then return 0 end
redis.call('SET', key, ARGV[2], 'PX', ARGV[3])
return 1

--- release
-- name, owner
if redis.call('GET', holder(ARGV[1])) == ARGV[2] then redis.call('DEL', holder(ARGV[1])) end
return 1

--- entrust
-- name, owner, (name here, URL)*
if redis.call('GET', holder(ARGV[1])) ~= ARGV[2] then return 0 end
if redis.call('HEXISTS', declared, ARGV[1]) == 0 then return 0 end
redis.call('DEL', entrusted(ARGV[1]))
for at = 3, #ARGV, 2 do redis.call('HSET', entrusted(ARGV[1]), ARGV[at], ARGV[at + 1]) end
return 1

--- finish
-- name, owner, JSON of the outcome, 'keep' or 'replace', packed content -> 0 if it is not held
if redis.call('GET', holder(ARGV[1])) ~= ARGV[2] then return 0 end
if redis.call('HEXISTS', declared, ARGV[1]) == 0 then return 0 end
if ARGV[4] == 'replace' then
  -- HDEL works at the memory limit, and after a first write so do the other commands.
  redis.call('HDEL', content, ARGV[1])
  redis.call('HSET', content, ARGV[1], ARGV[5])
end
redis.call('HSET', outcomes, ARGV[1], ARGV[3])
return 1
