-- Permissions of code hosts. Keys, all below KEYS[1]: :declared HASH connection -> JSON · and below
-- :synced, which backups leave out: :wanted HASH connection -> id of the last request · :outcomes HASH
-- connection -> JSON · :permissions HASH connection -> packed permissions · :problem STRING · :holder:NAME STRING.

--- prelude
local declared, wanted = KEYS[1] .. ':declared', KEYS[1] .. ':synced:wanted'
local outcomes, permissions = KEYS[1] .. ':synced:outcomes', KEYS[1] .. ':synced:permissions'
local function holder(name) return KEYS[1] .. ':synced:holder:' .. name end

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
    for _, table in ipairs({declared, wanted, outcomes, permissions}) do
      redis.call('HDEL', table, name)
    end
  end
end
for at = 1, #ARGV, 2 do redis.call('HSET', declared, ARGV[at], ARGV[at + 1]) end
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

--- finish
-- name, owner, JSON of the outcome, 'keep' or 'replace', packed permissions -> 0 if it is not held
if redis.call('GET', holder(ARGV[1])) ~= ARGV[2] then return 0 end
if redis.call('HEXISTS', declared, ARGV[1]) == 0 then return 0 end
if ARGV[4] == 'replace' then
  redis.call('HDEL', permissions, ARGV[1]) -- works at the memory limit, and the rest then too
  redis.call('HSET', permissions, ARGV[1], ARGV[5])
end
redis.call('HSET', outcomes, ARGV[1], ARGV[3])
return 1
