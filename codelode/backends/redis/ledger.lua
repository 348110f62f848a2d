-- The atomic steps of the ledger. Each section is one script; `prelude` precedes every other one. The
-- stages at which a file and a removal begin are `first` and `last`, which the client defines, as it
-- does `ahead_ms`, `bulk_share`, and `bulk_debt_ms`, the numbers of `codelode.ledger`.
--
-- Keys, all below the prefix in KEYS[1]:
--   repositories      HASH name -> JSON [url, default_ref, 0, 1 if pinned, or 2 if it
--                     also follows the default branch of its source]; values of old releases lack
--                     the last
--   include, exclude  HASH name -> JSON list of patterns
--   labels            HASH name -> label, or '' for none
--   groups            HASH name -> groups, of those that have any; if they are suspended, then `?` and
--                     the former ones
--   access_globs      JSON list of lists of globs of the access file
--   refs:NAME         HASH ref -> JSON [revision|"", fingerprint, is_clean, indexed_at, patterns,
--                     committed_at]; values of old releases lack the last one or two
--   files:NAME:REF    HASH path -> JSON [blob, state, reason, language, health, chunks,
--                     summaries, summaries_missing, 1, is_due]; records of old releases lack some at
--                     the end, and only records with the 1 are in the counts of health
--   counts:NAME:REF   HASH pending|indexed|skipped|failed|due|chunks|summaries_missing|
--                     health STATUS LANGUAGE -> number
--   run:ID            HASH of the run's fields;  run:ID:todo LIST;  run:ID:inflight HASH
--   runs, runs:NAME   ZSET run id by creation;  active HASH name -> run id;  queue:NAME LIST
--   worker:ID         expires when the worker stops its heartbeat
--   leaving           SET of unregistered names whose index is being removed
--   leaving_refs      SET of NAME:REF, the removed refs whose index entries are being removed
--   generation        counter of the changes that a search can see
--   run:ID:at         HASH stage -> number of the run's files that wait or are worked on there
--   run:ID:spent      HASH stage -> ms that the run's files took there, by the weight of the run
--   spent:STAGE       ZSET run that has files at the stage -> the same ms
--   turns             HASH stage -> ms that the run which last began files there had spent there
--   owed              HASH stage -> ms that bulk runs may spend there before other runs, if above 0
-- An in-flight entry is JSON [since_ms, stage, attempts, worker, blob, size, share of the time since
-- since_ms that the file took]. Its stage is empty until it begins there or is passed on. Its since_ms
-- lies in the future while it is put off; so does the since_ms of a run whose pull is put off.
--
-- At the server's memory limit a script may write nothing that takes memory, unless it has written
-- before. Scripts that must work then begin with a command that frees memory.

--- prelude
local prefix = KEYS[1]
local function key(name) return prefix .. name end
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function run_field(run, field) return redis.call('HGET', key('run:' .. run), field) end
local function is_alive(worker)
  return worker ~= '' and redis.call('EXISTS', key('worker:' .. worker)) == 1
end
local function count(counts, record, by)
  redis.call('HINCRBY', counts, record[2], by)
  if record[6] > 0 then redis.call('HINCRBY', counts, 'chunks', by * record[6]) end
  if record[9] and record[5] ~= '' then
    redis.call('HINCRBY', counts, 'health ' .. record[5] .. ' ' .. record[4], by)
  end
  local missing = record[8] or 0
  if missing > 0 then redis.call('HINCRBY', counts, 'summaries_missing', by * missing) end
  if record[10] == 1 then redis.call('HINCRBY', counts, 'due', by) end
end
local function place(run)
  return run_field(run, 'repository') .. ':' .. (run_field(run, 'resolved') or '')
end
local function put_record(at, path, json)
  local files, counts = key('files:' .. at), key('counts:' .. at)
  local old = redis.call('HGET', files, path)
  if old then count(counts, cjson.decode(old), -1) end
  redis.call('HSET', files, path, json)
  count(counts, cjson.decode(json), 1)
end
local function drop_record(at, path)
  local files, counts = key('files:' .. at), key('counts:' .. at)
  local old = redis.call('HGET', files, path)
  if not old then return end
  count(counts, cjson.decode(old), -1)
  redis.call('HDEL', files, path)
end
local function is_skipped(at, path)
  local record = redis.call('HGET', key('files:' .. at), path)
  return record and cjson.decode(record)[2] == 'skipped'
end
-- Returns the stage at which the file of an in-flight entry waits or is worked on.
local function stage_of(entry)
  if entry[2] ~= '' then return entry[2] end
  return entry[5] == '' and last or first
end
-- The spent time of bulk runs counts from this number, milliseconds, so that other runs sort first.
local BULK_MS = 2 ^ 42
local are_bulk = {}
local function is_bulk(run)
  if are_bulk[run] == nil then are_bulk[run] = (run_field(run, 'is_bulk') or '') ~= '' end
  return are_bulk[run]
end
local function lane(run, stage) return is_bulk(run) and stage .. ':bulk' or stage end
local function turn_of(run, stage)
  local last = redis.call('HGET', key('turns'), lane(run, stage))
  return tonumber(last or (is_bulk(run) and BULK_MS or 0))
end
local function is_taken(stage, from, to)
  return redis.call('ZCOUNT', key('spent:' .. stage), from, to) > 0
end
local function has_small(stage) return is_taken(stage, '-inf', '(' .. BULK_MS) end
local function has_bulk(stage) return is_taken(stage, BULK_MS, '+inf') end
local function owed(stage) return tonumber(redis.call('HGET', key('owed'), stage) or -ahead_ms) end
local function set_owed(stage, ms)
  redis.call('HSET', key('owed'), stage, math.max(-bulk_debt_ms, math.min(ms, ahead_ms)))
end
-- Returns what the run has spent at a stage; a new run there begins with what the last one had spent.
local function spent(run, stage)
  local known = redis.call('HGET', key('run:' .. run .. ':spent'), stage)
  if known then return tonumber(known) end
  redis.call('HSET', key('run:' .. run .. ':spent'), stage, turn_of(run, stage))
  return turn_of(run, stage)
end
local function set_spent(run, stage, ms)
  redis.call('HSET', key('run:' .. run .. ':spent'), stage, ms)
  redis.call('ZADD', key('spent:' .. stage), 'XX', ms, run)
end
-- Adds to what a run has spent at a stage. While other runs have files there too, bulk ones are owed
-- a share of the time of the others.
local function spend(run, stage, ms)
  local weight = tonumber(run_field(run, 'weight') or 1)
  set_spent(run, stage, spent(run, stage) + ms / weight)
  if has_bulk(stage) and has_small(stage) then
    set_owed(stage, owed(stage) + (is_bulk(run) and -ms or ms / bulk_share))
  end
end
-- Counts files of a run that come to a stage, or leave it.
local function count_at(run, stage, by)
  local at = key('run:' .. run .. ':at')
  if redis.call('HINCRBY', at, stage, by) > 0 then
    redis.call('ZADD', key('spent:' .. stage), 'NX', spent(run, stage), run)
  else
    redis.call('HDEL', at, stage)
    redis.call('ZREM', key('spent:' .. stage), run)
  end
end
-- What a script has done with the files of a run, by stage: ms that they took, change of their number.
local took, more = {}, {}
-- Adds a file's share of the time since it was claimed to what its run has spent.
local function charge(entry)
  if entry[7] and entry[4] ~= '' then
    local stage, ms = stage_of(entry), math.max(0, now_ms() - entry[1]) * entry[7]
    took[stage] = (took[stage] or 0) + ms
  end
end
local function come(stage) more[stage] = (more[stage] or 0) + 1 end
local function leave(stage) more[stage] = (more[stage] or 0) - 1 end
-- Stores what the files of the run did.
local function settle(run)
  for stage, ms in pairs(took) do spend(run, stage, ms) end
  for stage, by in pairs(more) do
    if by ~= 0 then count_at(run, stage, by) end
  end
  took, more = {}, {}
end
-- Forgets all files of a run.
local function clear(run)
  for _, stage in ipairs(redis.call('HKEYS', key('run:' .. run .. ':at'))) do
    redis.call('ZREM', key('spent:' .. stage), run)
  end
  for _, part in ipairs({':todo', ':inflight', ':at', ':spent'}) do
    redis.call('DEL', key('run:' .. run .. part))
  end
end
-- Returns the least time that any run of the same kind with files at the stage has spent.
local function least(run, stage)
  local from, to = '-inf', '(' .. BULK_MS
  if is_bulk(run) then from, to = BULK_MS, '+inf' end
  local found = redis.call('ZRANGEBYSCORE', key('spent:' .. stage), from, to, 'WITHSCORES', 'LIMIT', 0, 1)
  return tonumber(found[2])
end
-- Returns whether a run must wait: for its turn among runs of its kind, or, if it is bulk, for others.
local function must_wait(run, stage, mine, saved)
  if is_bulk(run) and has_small(stage) and owed(stage) <= 0 then return true end
  return mine - math.max(least(run, stage) or mine, saved) > ahead_ms
end
-- Begins a turn of a run, unless it `yields` and must wait.
local function take_turn(run, stage, yields, saved_ms)
  local mine, saved = spent(run, stage), turn_of(run, stage) - saved_ms
  if yields and must_wait(run, stage, mine, saved) then return false end
  if is_bulk(run) and not has_small(stage) then set_owed(stage, -ahead_ms) end
  mine = math.max(mine, saved)
  set_spent(run, stage, mine)
  redis.call('HSET', key('turns'), lane(run, stage), mine)
  return true
end
local function activate_next(repository)
  local following = redis.call('LPOP', key('queue:' .. repository))
  if not following then
    redis.call('HDEL', key('active'), repository)
    return ''
  end
  redis.call('HSET', key('active'), repository, following)
  redis.call('HSET', key('run:' .. following), 'state', 'pulling', 'since_ms', now_ms())
  return following
end
local function close_run(run, state, reason)
  local repository = run_field(run, 'repository')
  local was = run_field(run, 'state')
  clear(run)
  redis.call('HSET', key('run:' .. run), 'state', state, 'error', reason,
    'waits_for', '', 'finished_ms', now_ms())
  if was == 'queued' then
    redis.call('LREM', key('queue:' .. repository), 0, run)
    return ''
  end
  return activate_next(repository)
end
-- Removes a ref, whose data is then to be removed. Returns 0 when it is unknown.
local function release_ref(repository, ref)
  if redis.call('HDEL', key('refs:' .. repository), ref) == 0 then return 0 end
  redis.call('SADD', key('leaving_refs'), repository .. ':' .. ref)
  redis.call('INCR', key('generation'))
  return 1
end
local function is_over(state)
  return state ~= 'queued' and state ~= 'pulling' and state ~= 'indexing'
end
-- Seconds for which a finished run that only planned is kept, for callers that wait for its estimate.
local PLAN_KEPT_S = 86400
-- Ends an open run; one that only plans is removed from the runs. `withdraws`: unregister a repository
-- that has no planned ref. Returns the next run id or ''.
local function end_run(run, state, reason, withdraws)
  local following, repository = close_run(run, state, reason), run_field(run, 'repository')
  local kind = run_field(run, 'kind') or 'index'
  if kind ~= 'index' then
    redis.call('ZREM', key('runs'), run)
    redis.call('ZREM', key('runs:' .. repository), run)
    redis.call('EXPIRE', key('run:' .. run), PLAN_KEPT_S)
  end
  if (withdraws or kind == 'trial')
      and redis.call('HEXISTS', key('active'), repository) == 0
      and redis.call('EXISTS', key('refs:' .. repository)) == 0 then
    redis.call('SADD', key('leaving'), repository)
    for _, of_name in ipairs({'repositories', 'include', 'exclude', 'labels', 'groups'}) do
      redis.call('HDEL', key(of_name), repository)
    end
    redis.call('INCR', key('generation'))
  end
  return following
end
-- Fills the window. Returns the items that were added: path, blob, size, stage, ...
local function feed(run, window)
  local todo, inflight = key('run:' .. run .. ':todo'), key('run:' .. run .. ':inflight')
  local room = window - redis.call('HLEN', inflight)
  if room < 1 then return {} end
  local taken = redis.call('LPOP', todo, room)
  local items = {}
  for _, json in ipairs(taken or {}) do
    local item = cjson.decode(json)
    local entry = {now_ms(), '', 0, '', item[2], item[3]}
    redis.call('HSET', inflight, item[1], cjson.encode(entry))
    come(stage_of(entry))
    items[#items + 1] = item[1]
    items[#items + 1] = item[2]
    items[#items + 1] = tostring(item[3])
    items[#items + 1] = ''
  end
  settle(run)
  return items
end
-- Returns a ref's record as JSON, marked so that its next run compares every file.
local function unclean(record)
  return cjson.encode({record[1], record[2], 0, record[4], record[5] or '', record[6] or 0})
end
local function publish(run)
  local repository, ref = run_field(run, 'repository'), run_field(run, 'resolved')
  redis.call('HSET', key('refs:' .. repository), ref, cjson.encode({
    run_field(run, 'revision'), run_field(run, 'fingerprint'), 1, now_ms(),
    run_field(run, 'patterns') or '', tonumber(run_field(run, 'committed_at') or 0)}))
  redis.call('INCR', key('generation'))
end
-- Ends a step of an open run: hands out the next items, or completes the run.
local function advance(run, window)
  local items = feed(run, window)
  if #items > 0 or redis.call('HLEN', key('run:' .. run .. ':inflight')) > 0 then
    return {items, 0, ''}
  end
  publish(run)
  return {items, 1, close_run(run, 'complete', '')}
end

--- create
-- run, repository, ref, kind, what to redo… -> run id
local run, repository, ref, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local redo = {}
for i = 5, #ARGV do redo[#redo + 1] = ARGV[i] end
local state = 'pulling'
local function is_of_groups(words)
  return words ~= '' and string.gsub(words, 'groups *', '') == ''
end
local of_groups = is_of_groups(table.concat(redo, ' '))
if redis.call('HEXISTS', key('active'), repository) == 1 then
  for _, waiting in ipairs(redis.call('LRANGE', key('queue:' .. repository), 0, -1)) do
    if run_field(waiting, 'ref') == ref and (run_field(waiting, 'kind') or 'index') == kind
        and is_of_groups(run_field(waiting, 'redo') or '') == of_groups then
      for word in string.gmatch(run_field(waiting, 'redo') or '', '%S+') do redo[#redo + 1] = word end
      redis.call('HSET', key('run:' .. waiting), 'redo', table.concat(redo, ' '))
      return waiting
    end
  end
  state = 'queued'
  redis.call('RPUSH', key('queue:' .. repository), run)
else
  redis.call('HSET', key('active'), repository, run)
end
local at = now_ms()
redis.call('HSET', key('run:' .. run), 'id', run, 'repository', repository, 'ref', ref,
  'kind', kind, 'state', state, 'redo', table.concat(redo, ' '), 'started_ms', at, 'since_ms', at, 'owner', '',
  'total', 0, 'done', 0, 'failed', 0, 'skipped', 0)
-- With microseconds: runs that are created within a millisecond keep their order.
local time = redis.call('TIME')
local order = time[1] * 1000 + time[2] / 1000
redis.call('ZADD', key('runs'), order, run)
redis.call('ZADD', key('runs:' .. repository), order, run)
return run

--- claim
-- run, worker -> the number of the attempt when the pull is this worker's, otherwise 0
local run, worker = ARGV[1], ARGV[2]
if run_field(run, 'state') ~= 'pulling' then return 0 end
local owner = run_field(run, 'owner')
if owner ~= worker and is_alive(owner) then return 0 end
redis.call('HSET', key('run:' .. run), 'owner', worker, 'since_ms', now_ms(), 'waits_for', '',
  'claimed_ms', now_ms())
return redis.call('HINCRBY', key('run:' .. run), 'attempts', 1)

--- unclaim
-- run, worker, for_ms, reason
local run = ARGV[1]
if run_field(run, 'state') == 'pulling' and run_field(run, 'owner') == ARGV[2] then
  redis.call('HSET', key('run:' .. run), 'owner', '', 'since_ms', now_ms() + tonumber(ARGV[3]),
    'waits_for', ARGV[4])
  redis.call('HINCRBY', key('run:' .. run), 'attempts', -1)
end
return 1

--- stop
-- run, state, reason, 1 to unregister a repository of which nothing was planned
-- -> next run id or ''
local run = ARGV[1]
if is_over(run_field(run, 'state')) then return '' end
return end_run(run, ARGV[2], ARGV[3], ARGV[4] == '1')

--- end_planned
-- run, estimate, revision, ref -> next run id or ''
local run = ARGV[1]
if run_field(run, 'state') ~= 'pulling' then return '' end
redis.call('HSET', key('run:' .. run), 'estimate', ARGV[2], 'revision', ARGV[3], 'resolved', ARGV[4])
return end_run(run, 'planned', '', false)

--- remove_ref
-- repository, ref -> 0 when it is the default ref or unknown
local repository, ref = ARGV[1], ARGV[2]
local known = redis.call('HGET', key('repositories'), repository)
if not known or cjson.decode(known)[2] == ref then return 0 end
return release_ref(repository, ref)

--- stalled
-- age_ms -> run ids
local found = {}
local all = redis.call('HGETALL', key('active'))
for i = 2, #all, 2 do
  local run = all[i]
  if run_field(run, 'state') == 'pulling' and not is_alive(run_field(run, 'owner'))
      and now_ms() - run_field(run, 'since_ms') > tonumber(ARGV[1]) then
    found[#found + 1] = run
  end
end
return found

--- supersede
-- age_ms -> ids of the runs that became active
local found = {}
-- A run that took longer to plan is superseded later, so that most of the time goes into indexing.
local function has_gone_on(run)
  local planned, claimed = run_field(run, 'planned_ms'), run_field(run, 'claimed_ms')
  local ms = planned and claimed and now_ms() - planned
  return ms and ms > math.max(tonumber(ARGV[1]), planned - claimed)
end
local function is_plain(run, state)
  return run_field(run, 'state') == state and (run_field(run, 'kind') or 'index') == 'index'
    and (run_field(run, 'redo') or '') == ''
end
local active = redis.call('HGETALL', key('active'))
for i = 1, #active, 2 do
  local run, newer = active[i + 1], redis.call('LINDEX', key('queue:' .. active[i]), 0)
  if newer and run_field(newer, 'ref') == run_field(run, 'ref') and is_plain(run, 'indexing')
      and is_plain(newer, 'queued') and has_gone_on(run) then
    redis.call('HSET', key('run:' .. run), 'successor', newer)
    found[#found + 1] = end_run(run, 'cancelled', 'superseded by run ' .. newer, false)
  end
end
return found

--- plan_open
-- run, revision, ref, fingerprint, digest of patterns, JSON list of notices, time of the commit,
-- groups or '' -> 1 when the run may be planned
local run, revision, ref, fingerprint = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if run_field(run, 'state') ~= 'pulling' then return 0 end
local repository = run_field(run, 'repository')
local at = repository .. ':' .. ref
if redis.call('SISMEMBER', key('leaving_refs'), at) == 1 then return 0 end
clear(run)
redis.call('HSET', key('run:' .. run), 'revision', revision, 'resolved', ref,
  'fingerprint', fingerprint, 'patterns', ARGV[5], 'notices', ARGV[6],
  'committed_at', ARGV[7], 'since_ms', now_ms())
local refs = key('refs:' .. repository)
if ARGV[8] ~= '' and redis.call('EXISTS', refs) == 0
    and redis.call('HEXISTS', key('repositories'), repository) == 1 then
  redis.call('HSETNX', key('groups'), repository, ARGV[8])
end
local known = redis.call('HGET', refs, ref)
local record = known and cjson.decode(known) or {'', fingerprint, 0, 0}
redis.call('HSET', refs, ref, unclean(record))
return 1

--- plan_items
-- run, 1 if the index does not hold what the records say, then path, blob, size of each item
local run, is_rebuild = ARGV[1], ARGV[2] == '1'
local at, todo = place(run), key('run:' .. run .. ':todo')
-- Returns the record that a file has until it is done; what the index holds of it stays counted.
local function planned(path, blob)
  local known = redis.call('HGET', key('files:' .. at), path)
  local record = known and cjson.decode(known)
  if is_rebuild or not record or record[1] ~= blob or record[2] ~= 'indexed' then
    return cjson.encode({blob, 'pending', '', '', '', 0})
  end
  record[7], record[8], record[9], record[10] = record[7] or 0, record[8] or 0, 1, 1
  return cjson.encode(record)
end
for i = 3, #ARGV, 3 do
  local path, blob, size = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  redis.call('RPUSH', todo, cjson.encode({path, blob, size}))
  if blob ~= '' then
    put_record(at, path, planned(path, blob))
  elseif is_skipped(at, path) then
    drop_record(at, path)
  else
    put_record(at, path, cjson.encode({'', 'pending', '', '', '', 0}))
  end
end
return 1

--- plan_records
-- run, then path, record of each skipped file
local at = place(ARGV[1])
for i = 2, #ARGV, 2 do put_record(at, ARGV[i], ARGV[i + 1]) end
return 1

--- plan_commit
-- run, window, skipped, 1 if the index does not hold what the records said; how the ref was chosen (see
-- `repositories`) and the ref that it replaces, both empty unless it becomes the default ref; 1 if the
-- run is bulk, else empty; weight -> advance
local run, window = ARGV[1], tonumber(ARGV[2])
if run_field(run, 'state') ~= 'pulling' then return {{}, 0, ''} end
if ARGV[4] == '1' then -- from now on the records describe this run's index
  local refs, ref = key('refs:' .. run_field(run, 'repository')), run_field(run, 'resolved')
  local record = cjson.decode(redis.call('HGET', refs, ref))
  record[2] = run_field(run, 'fingerprint')
  redis.call('HSET', refs, ref, unclean(record))
end
local known = redis.call('HGET', key('repositories'), run_field(run, 'repository'))
if ARGV[5] ~= '' and known then
  redis.call('HSET', key('repositories'), run_field(run, 'repository'),
    cjson.encode({cjson.decode(known)[1], run_field(run, 'resolved'), tonumber(ARGV[5])}))
  if ARGV[6] ~= '' then release_ref(run_field(run, 'repository'), ARGV[6]) end
end
local total = redis.call('LLEN', key('run:' .. run .. ':todo'))
redis.call('HSET', key('run:' .. run), 'state', 'indexing', 'skipped', ARGV[3], 'total', total,
  'planned_ms', now_ms())
redis.call('HSET', key('run:' .. run), 'is_bulk', ARGV[7], 'weight', ARGV[8], 'is_sent', '')
return advance(run, window)

--- unsent
-- run -> advance: what its plan returned, without the files that were claimed since; nil when that was
-- sent, or there is no plan
local run = ARGV[1]
local state = run_field(run, 'state')
if (run_field(run, 'is_sent') or '') ~= '' then return nil end
if state == 'indexing' then
  local items, all = {}, redis.call('HGETALL', key('run:' .. run .. ':inflight'))
  for i = 1, #all, 2 do
    local entry = cjson.decode(all[i + 1])
    if entry[4] == '' then
      for _, value in ipairs({all[i], entry[5], tostring(entry[6]), entry[2]}) do
        items[#items + 1] = value
      end
    end
  end
  return {items, 0, ''}
elseif state == 'complete' or state == 'planned' then
  local following = redis.call('HGET', key('active'), run_field(run, 'repository'))
  local waits = following and run_field(following, 'state') == 'pulling'
  return {{}, state == 'complete' and 1 or 0, waits and following or ''}
end
return nil

--- mark_sent
-- run
local run = key('run:' .. ARGV[1])
if redis.call('EXISTS', run) == 1 then redis.call('HSET', run, 'is_sent', 1) end
return 1

--- begin
-- run, worker, stage, lease_ms, 1 if it waits for its turn, ms that may be saved up, then paths
-- -> attempt of each; 0: held, -1: not in flight, -2: all must wait for their turn
local run, worker, stage, lease = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local from = 7
local share = 1 / (#ARGV - from + 1)
local inflight = key('run:' .. run .. ':inflight')
local attempts = {}
if redis.call('EXISTS', inflight) == 1
    and not take_turn(run, stage, ARGV[5] == '1', tonumber(ARGV[6])) then
  for i = from, #ARGV do attempts[#attempts + 1] = -2 end
  return attempts
end
for i = from, #ARGV do
  local attempt, json = -1, redis.call('HGET', inflight, ARGV[i])
  if json then
    local entry = cjson.decode(json)
    local held = entry[2] == stage and entry[4] ~= worker and is_alive(entry[4])
      and now_ms() - entry[1] < lease
    attempt = 0
    if not held then
      charge(entry)
      leave(stage_of(entry))
      come(stage)
      attempt = entry[2] == stage and entry[3] + 1 or 1
      redis.call('HSET', inflight, ARGV[i],
        cjson.encode({now_ms(), stage, attempt, worker, entry[5], entry[6], share}))
    end
  end
  attempts[#attempts + 1] = attempt
end
settle(run)
return attempts

--- owes
-- stage -> 1 if bulk runs have their turn there before the others
local stage = ARGV[1]
return has_bulk(stage) and has_small(stage) and owed(stage) > 0 and 1 or 0

--- pass_on
-- run, stage, then paths
local inflight = key('run:' .. ARGV[1] .. ':inflight')
for i = 3, #ARGV do
  local json = redis.call('HGET', inflight, ARGV[i])
  if json then
    local entry = cjson.decode(json)
    charge(entry)
    leave(stage_of(entry))
    come(ARGV[2])
    redis.call('HSET', inflight, ARGV[i],
      cjson.encode({now_ms(), ARGV[2], 0, '', entry[5], entry[6]}))
  end
end
settle(ARGV[1])
return 1

--- put_off
-- run, worker, for_ms, reason, then paths
local inflight = key('run:' .. ARGV[1] .. ':inflight')
for i = 5, #ARGV do
  local json = redis.call('HGET', inflight, ARGV[i])
  local entry = json and cjson.decode(json)
  if entry and entry[4] == ARGV[2] then
    redis.call('HSET', inflight, ARGV[i],
      cjson.encode({now_ms() + tonumber(ARGV[3]), entry[2], entry[3] - 1, '', entry[5], entry[6]}))
    redis.call('HSET', key('run:' .. ARGV[1]), 'waits_for', ARGV[4])
  end
end
return 1

--- done
-- run, window, then path, record of each file -> advance
local run, window = ARGV[1], tonumber(ARGV[2])
if run_field(run, 'state') ~= 'indexing' then return {{}, 0, ''} end
local inflight, at, changed = key('run:' .. run .. ':inflight'), place(run), false
for i = 3, #ARGV, 2 do
  local path, json = ARGV[i], ARGV[i + 1]
  local left = redis.call('HGET', inflight, path)
  if left then
    local entry = cjson.decode(left)
    charge(entry)
    leave(stage_of(entry))
    redis.call('HDEL', inflight, path)
    local record = cjson.decode(json)
    if record[2] == 'pending' then
      if not is_skipped(at, path) then drop_record(at, path) end
    else
      put_record(at, path, json)
    end
    if record[2] == 'skipped' then redis.call('HINCRBY', key('run:' .. run), 'total', -1) end
    local counter = ({failed = 'failed', skipped = 'skipped'})[record[2]] or 'done'
    redis.call('HINCRBY', key('run:' .. run), counter, 1)
    for name, of_file in pairs({summaries = record[7], summaries_missing = record[8]}) do
      if of_file > 0 then redis.call('HINCRBY', key('run:' .. run), name, of_file) end
    end
    changed = true
  end
end
if not changed then return {{}, 0, ''} end
redis.call('HSET', key('run:' .. run), 'waits_for', '')
redis.call('INCR', key('generation'))
settle(run)
return advance(run, window)

--- reap
-- requeue_ms, lease_ms, then stages whose queue holds messages
-- -> run, path, blob, size, stage, ...
local requeue, lease = tonumber(ARGV[1]), tonumber(ARGV[2])
local busy, found = {}, {}
for i = 3, #ARGV do busy[ARGV[i]] = true end
local function is_lost(entry, age)
  if entry[4] ~= '' then return age > lease or not is_alive(entry[4]) end
  return age > requeue and not busy[stage_of(entry)]
end
local active = redis.call('HGETALL', key('active'))
for i = 2, #active, 2 do
  local run = active[i]
  local inflight = key('run:' .. run .. ':inflight')
  local all = redis.call('HGETALL', inflight)
  for j = 1, #all, 2 do
    local entry = cjson.decode(all[j + 1])
    if is_lost(entry, now_ms() - entry[1]) then
      charge(entry)
      entry[1], entry[4] = now_ms(), ''
      redis.call('HSET', inflight, all[j], cjson.encode(entry))
      for _, value in ipairs({run, all[j], entry[5], tostring(entry[6]), entry[2]}) do
        found[#found + 1] = value
      end
    end
  end
  settle(run)
end
return found

--- limit
-- name, then include or exclude and the JSON list of its patterns, or labels and its label
-- -> 0 when it is not registered
if redis.call('HEXISTS', key('repositories'), ARGV[1]) == 0 then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', key(ARGV[i]), ARGV[1], ARGV[i + 1]) end
return 1

--- heartbeat
-- worker, ttl_ms
redis.call('DEL', key('worker:' .. ARGV[1]))
redis.call('SET', key('worker:' .. ARGV[1]), 1, 'PX', ARGV[2])
return 1

--- ref_counts
-- names of repositories -> each ref, and how many have it
local counts, rows = {}, {}
for _, name in ipairs(ARGV) do
  for _, ref in ipairs(redis.call('HKEYS', key('refs:' .. name))) do
    counts[ref] = (counts[ref] or 0) + 1
  end
end
for ref, count in pairs(counts) do
  rows[#rows + 1] = ref
  rows[#rows + 1] = count
end
return rows

--- leave
-- name
redis.call('SREM', key('leaving'), ARGV[1])
redis.call('SADD', key('leaving'), ARGV[1])
return 1

--- suspend_groups
-- names
for _, name in ipairs(ARGV) do
  local known = redis.call('HGET', key('groups'), name) or ''
  if redis.call('EXISTS', key('refs:' .. name)) == 1 and not string.find(known, '?', 1, true) then
    redis.call('HSET', key('groups'), name, known .. '?' .. known)
  end
end
redis.call('INCR', key('generation'))
return 1

--- set_groups
-- name, groups
local known = redis.call('HGET', key('groups'), ARGV[1]) or ''
if string.find(known, '?', 1, true) then
  redis.call('HSET', key('groups'), ARGV[1], ARGV[2] .. '?' .. string.gsub(known, '%?', ' '))
  redis.call('INCR', key('generation'))
end
return 1

--- settle_groups
-- name, groups -> 1 if every chunk is known to have the groups now
local known = redis.call('HGET', key('groups'), ARGV[1]) or ''
if string.sub(known, 1, #ARGV[2] + 1) ~= ARGV[2] .. '?' then return 0 end
redis.call('HSET', key('groups'), ARGV[1], ARGV[2])
redis.call('INCR', key('generation'))
return 1

--- forget
-- name, then the tables of the catalog: its registration first, so that nothing is added to a name
-- that is gone
for i = 2, #ARGV do redis.call('HDEL', key(ARGV[i]), ARGV[1]) end
redis.call('INCR', key('generation'))
return 1

--- removal_finished
-- name
redis.call('SREM', key('leaving'), ARGV[1])
redis.call('INCR', key('generation'))
return 1

--- mark_for_removal
-- name -> 0 when it is registered
if redis.call('HEXISTS', key('repositories'), ARGV[1]) == 1 then return 0 end
redis.call('SADD', key('leaving'), ARGV[1])
return 1

--- invalidate
-- repository, ref, then paths of files to index again -> 0 while a run is active
local repository, ref = ARGV[1], ARGV[2]
if redis.call('HEXISTS', key('active'), repository) == 1 then return 0 end
local refs, at = key('refs:' .. repository), repository .. ':' .. ref
local known = redis.call('HGET', refs, ref)
if not known then return 1 end
local status = cjson.decode(known)
redis.call('HSET', refs, ref, unclean(status))
redis.call('INCR', key('generation'))
for i = 3, #ARGV do
  local json = redis.call('HGET', key('files:' .. at), ARGV[i])
  local record = json and cjson.decode(json)
  if record and record[2] == 'indexed' then
    put_record(at, ARGV[i], cjson.encode({record[1], 'pending', '', '', '', 0}))
  end
end
return 1

--- recount
-- repository:ref, then records to count
for i = 2, #ARGV do count(key('counts:' .. ARGV[1]), cjson.decode(ARGV[i]), 1) end
return 1

--- recover
-- the minimum generation. Active runs begin again; refs with files to do become unclean
local now, least = now_ms(), tonumber(ARGV[1])
local under_way = redis.call('HGETALL', key('active'))
for i = 1, #under_way, 2 do
  local run = under_way[i + 1]
  clear(run)
  if run_field(run, 'id') then
    redis.call('HSET', key('run:' .. run), 'state', 'pulling', 'since_ms', now, 'owner', '',
      'total', 0, 'done', 0, 'failed', 0, 'skipped', 0, 'summaries', 0, 'summaries_missing', 0,
      'waits_for', '', 'attempts', 0)
  else
    redis.call('HDEL', key('active'), under_way[i])
  end
end
for _, repository in ipairs(redis.call('HKEYS', key('repositories'))) do
  local is_active = redis.call('HEXISTS', key('active'), repository) == 1
  local refs = redis.call('HGETALL', key('refs:' .. repository))
  for i = 1, #refs, 2 do
    local counts = key('counts:' .. repository .. ':' .. refs[i])
    local left = redis.call('HMGET', counts, 'pending', 'due')
    if is_active or tonumber(left[1] or 0) + tonumber(left[2] or 0) > 0 then
      local record = cjson.decode(refs[i + 1])
      redis.call('HSET', key('refs:' .. repository), refs[i], unclean(record))
    end
  end
end
local generation = tonumber(redis.call('GET', key('generation')) or 0)
redis.call('SET', key('generation'), string.format('%d', math.max(least, generation + 1)))
return 1

--- restamp
-- before, after: the old and new end of the fingerprints of indexed refs and active runs
local before, after = ARGV[1], ARGV[2]
local function restamped(fingerprint)
  if not fingerprint or fingerprint:sub(-#before) ~= before then return nil end
  return fingerprint:sub(1, #fingerprint - #before) .. after
end
for _, repository in ipairs(redis.call('HKEYS', key('repositories'))) do
  local refs = redis.call('HGETALL', key('refs:' .. repository))
  for i = 1, #refs, 2 do
    local record = cjson.decode(refs[i + 1])
    local new = restamped(record[2])
    if new then
      redis.call('HSET', key('refs:' .. repository), refs[i],
        cjson.encode({record[1], new, record[3], record[4], record[5] or '', record[6] or 0}))
    end
  end
end
local active = redis.call('HVALS', key('active'))
for _, run in ipairs(active) do
  local new = restamped(run_field(run, 'fingerprint'))
  if new then redis.call('HSET', key('run:' .. run), 'fingerprint', new) end
end
redis.call('INCR', key('generation'))
return 1
