-- Maps of chunks. Keys, all below KEYS[1]: :states HASH names -> JSON of the state · :packed HASH
-- names -> the packed map · :made HASH names -> when the packed map was made. The names are a JSON list of repositories.

--- prelude
local states, packed, made = KEYS[1] .. ':states', KEYS[1] .. ':packed', KEYS[1] .. ':made'

local function is_over(state) return state['progress'] == 'ready' or state['progress'] == 'failed' end

--- begin
-- names, JSON of the state, time before which a report counts as lost -> 0 when it is under way
local known = redis.call('HGET', states, ARGV[1])
if known then
  local state = cjson.decode(known)
  if not is_over(state) and state['at'] >= tonumber(ARGV[3]) then return 0 end
end
redis.call('HSET', states, ARGV[1], ARGV[2])
return 1

--- report
-- names, JSON of the state, the packed map or '', its time -> 0 when the map is no longer wanted
local known = redis.call('HGET', states, ARGV[1])
if not known or is_over(cjson.decode(known)) then return 0 end
redis.call('HSET', states, ARGV[1], ARGV[2])
if ARGV[3] ~= '' then
  redis.call('HSET', packed, ARGV[1], ARGV[3])
  redis.call('HSET', made, ARGV[1], ARGV[4])
end
return 1

--- drop
-- names, several
redis.call('HDEL', packed, unpack(ARGV))
redis.call('HDEL', made, unpack(ARGV))
redis.call('HDEL', states, unpack(ARGV))
return 1
