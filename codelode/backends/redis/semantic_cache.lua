-- Remembered queries: what is atomic.
--
-- Keys, all below KEYS[1]: :n:BUCKET LIST of entries, newest first, expiring · :n LIST of buckets in
-- the order of remembering, newest first. Every entry has one place in :n, so its length bounds the
-- entries of all buckets; where a bucket expired first, a place is dropped without an entry.

--- remember
-- ARGV: bucket, entry, life in seconds, bound on entries
local base = KEYS[1] .. ':n'
local bucket = base .. ':' .. ARGV[1]
redis.call('LPUSH', bucket, ARGV[2])
redis.call('EXPIRE', bucket, ARGV[3])
redis.call('LPUSH', base, ARGV[1])
while redis.call('LLEN', base) > tonumber(ARGV[4]) do
  redis.call('RPOP', base .. ':' .. redis.call('RPOP', base))
end
