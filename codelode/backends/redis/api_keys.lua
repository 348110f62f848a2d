-- API keys. Keys, all below KEYS[1]: :keys HASH id -> JSON of the key · :names HASH name -> id ·
-- :used HASH id -> time of the last recorded use, seconds since the epoch.

--- prelude
local keys, names, used = KEYS[1] .. ':keys', KEYS[1] .. ':names', KEYS[1] .. ':used'

--- add
-- id, name, JSON -> 0 when the name is taken
if redis.call('HSETNX', names, ARGV[2], ARGV[1]) == 0 then return 0 end
redis.call('HSET', keys, ARGV[1], ARGV[3])
return 1

--- remove
-- id. Its first write frees memory, so it works at the server's memory limit.
local stored = redis.call('HGET', keys, ARGV[1])
redis.call('HDEL', keys, ARGV[1])
redis.call('HDEL', used, ARGV[1])
if stored then redis.call('HDEL', names, cjson.decode(stored)['name']) end
return 1

--- used
-- id, seconds since the epoch, minimum number of seconds between two recorded uses
if redis.call('HEXISTS', keys, ARGV[1]) == 0 then return 0 end
local last = redis.call('HGET', used, ARGV[1])
if last and tonumber(ARGV[2]) - tonumber(last) < tonumber(ARGV[3]) then return 0 end
redis.call('HSET', used, ARGV[1], ARGV[2])
return 1
