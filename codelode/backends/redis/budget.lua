-- The summary budget. Keys, all below KEYS[1]: :run:ID HASH with the number of calls and of
-- consecutive failed batches · :day:N the number of calls on day N since the epoch. Both expire.

--- prelude
local base, run = KEYS[1], ARGV[1]
local function run_key() return base .. ':run:' .. run end
local function day_key()
  return base .. ':day:' .. math.floor(redis.call('TIME')[1] / 86400)
end
local function run_field(name) return tonumber(redis.call('HGET', run_key(), name) or '0') end
local function is_stopped(limit) return run_field('failed_batches') >= tonumber(limit) end

--- take
-- run, life_s, failed batches to stop, wanted, limit of the run, limit of the day -> calls
if is_stopped(ARGV[3]) then return 0 end
local of_run = tonumber(ARGV[5]) - run_field('calls')
local of_day = tonumber(ARGV[6]) - tonumber(redis.call('GET', day_key()) or '0')
local granted = math.max(0, math.min(tonumber(ARGV[4]), of_run, of_day))
if granted > 0 then
  redis.call('HINCRBY', run_key(), 'calls', granted)
  redis.call('EXPIRE', run_key(), ARGV[2])
  redis.call('INCRBY', day_key(), granted)
  redis.call('EXPIRE', day_key(), 172800)
end
return granted

--- settle
-- run, life_s, failed batches to stop, made, failed -> 1 if the run makes no more summaries
if is_stopped(ARGV[3]) then return 1 end
if tonumber(ARGV[4]) > 0 then
  redis.call('HSET', run_key(), 'failed_batches', 0)
elseif tonumber(ARGV[5]) > 0 then
  redis.call('HINCRBY', run_key(), 'failed_batches', 1)
end
redis.call('EXPIRE', run_key(), ARGV[2])
return is_stopped(ARGV[3]) and 1 or 0

--- stopped
-- run, life_s, failed batches to stop -> 1 if the run makes no more summaries

return is_stopped(ARGV[3]) and 1 or 0
