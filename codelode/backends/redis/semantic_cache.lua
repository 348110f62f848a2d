-- The atomic step of the semantic query cache.
--
-- Keys, all below KEYS[1]: :n:BUCKET LIST of entries, newest first, expires · :n LIST with the
-- bucket of every entry, newest first. Its length bounds the entries of all buckets. If a bucket
-- has expired, its elements in :n are dropped without an entry.

--- remember
-- ARGV: bucket, entry, time to live in seconds, maximum number of entries

local base = KEYS[1] .. ':n'
local bucket = base .. ':' .. ARGV[1]
redis.call('LPUSH', bucket, ARGV[2])
redis.call('EXPIRE', bucket, ARGV[3])
redis.call('LPUSH', base, ARGV[1])
while redis.call('LLEN', base) > tonumber(ARGV[4]) do
  redis.call('RPOP', base .. ':' .. redis.call('RPOP', base))
end
