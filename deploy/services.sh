#!/usr/bin/env bash
# Start real Weaviate and Ollama servers on loopback, for tests and development.
#
#   deploy/services.sh up [weaviate] [ollama]    start both, or the named ones
#   deploy/services.sh down                      stop them and remove all their data
#   deploy/services.sh status
#   deploy/services.sh binary weaviate|ollama|gitea
#                                                print the program's path; install it if necessary
#   deploy/services.sh versions
#
# A server comes from the first of these sources that works: an address in the environment, Docker
# Compose, a program on PATH or in the cache, the project's release for this platform, a build from
# source with Go. SERVICES_WAYS="cache release" restricts the sources. Addresses and the API key of
# Weaviate are written to .services/env, which a shell can source. A second `up` uses running servers.
# SERVICES_STATE replaces the state folder .services by a new or empty one; `down` removes it.
# Versions are those of the images in docker-compose.yml. deploy/test_models.py creates models for
# tests in a running Ollama. Gitea, the code host of the tests, is only installed: tests start it.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
state=${SERVICES_STATE:-$root/.services}
case $state in /*) ;; *) state=$PWD/$state ;; esac
mark=.codelode-services
cache=${XDG_CACHE_HOME:-$HOME/.cache}/codelode/servers
ways=${SERVICES_WAYS:-configured compose path cache release go}

version() { sed -n "s|^ *image: .*/$1:\([0-9.]*\)\$|\1|p" "$root/docker-compose.yml" | head -1; }
weaviate_version=$(version weaviate)
ollama_version=$(version ollama)
gitea_version=1.26.0 # later versions have another module name, under which Go cannot find them

say() { echo "services: $*" >&2; }
quietly() { "$@" >>"$state/log" 2>&1; }

# --- the state folder --------------------------------------------------------------------------

# `down` removes the folder with all its contents. A folder with other files is therefore neither used
# nor removed, even if SERVICES_STATE names it.
claim() {
  is_own || refuse
  mkdir -p "$state"
  : >"$state/$mark"
}

is_own() { [ "${state%/}" = "$root/.services" ] || [ -f "$state/$mark" ] || is_free; }

# Succeeds if the folder is new or empty. Runs in a subshell because it changes shell options.
is_free() (
  [ -e "$state" ] || exit 0
  shopt -s nullglob dotglob
  entries=("$state"/*)
  [ -d "$state" ] && [ -r "$state" ] && [ ${#entries[@]} -eq 0 ]
)

refuse() {
  say "$state was not created by this script (it has no $mark), so it is neither used nor removed:" \
    "set SERVICES_STATE to a new or an empty folder"
  exit 1
}

# --- sources of a program; each prints its path, or fails --------------------------------------

# `require_known SERVERS NAME…`: ends the script if a name is not one of the servers.
require_known() {
  local known=$1 name
  for name in "${@:2}"; do
    case " $known " in *" $name "*) ;; *) say "unknown server '$name': name one of $known"; exit 2 ;; esac
  done
}

program() { case $1 in weaviate) echo weaviate-server ;; ollama | gitea) echo "$1" ;; esac }
cached() { local v="$1_version"; echo "$cache/$1-${!v}/$(program "$1")"; }

from_path() { command -v "$(program "$1")"; }

from_cache() { [ -x "$(cached "$1")" ] && cached "$1"; }

from_release() {
  local os arch v="$1_version" base file
  os=$(uname -s | tr '[:upper:]' '[:lower:]')
  case $(uname -m) in x86_64 | amd64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; *) return 1 ;; esac
  case $1:$os in
    weaviate:linux) base=weaviate/weaviate file=weaviate-v${!v}-linux-$arch.tar.gz ;;
    weaviate:darwin) base=weaviate/weaviate file=weaviate-v${!v}-darwin-all.zip ;;
    ollama:linux) base=ollama/ollama file=ollama-linux-$arch.tgz ;;
    ollama:darwin) base=ollama/ollama file=ollama-darwin.tgz ;;
    gitea:linux) base=go-gitea/gitea file=gitea-${!v}-linux-$arch ;;
    *) return 1 ;;
  esac
  local url=https://github.com/$base/releases/download/v${!v}/$file folder=$state/$1-release
  rm -rf "$folder" && mkdir -p "$folder"
  curl --fail --silent --show-error --location --connect-timeout 5 --speed-limit 10000 \
    --speed-time 20 --output "$folder/$file" "$url" 2>>"$state/log" || return 1
  case $file in
    gitea-*) keep gitea "$folder/$file"; return ;; # the program itself, with its assets
    *.zip) quietly unzip -q -d "$folder" "$folder/$file" ;;
    *) quietly tar -xzf "$folder/$file" -C "$folder" ;;
  esac || return 1
  rm -f "$folder/$file"
  keep "$1" "$(find "$folder" -type f \( -name weaviate -o -name weaviate-server -o -name ollama \) | head -1)"
}

from_go() {
  local v="$1_version" folder=$state/$1-build
  has_go "$1" || return 1
  say "$1: building from source takes about $([ "$1" = gitea ] && echo 15 || echo 4) minutes"
  case $1 in
    weaviate) quietly built "$folder" "github.com/weaviate/weaviate/cmd/weaviate-server@v${!v}" ;;
    # Without these flags Ollama is four times as slow. -U__AMX_INT8__: `go install` does not build
    # Ollama's code for AMX, so a build on a processor with AMX would not link.
    ollama) local flags="-O3 -march=native -U__AMX_INT8__ -D_GNU_SOURCE"
      CGO_ENABLED=1 CGO_CFLAGS=$flags CGO_CXXFLAGS=$flags quietly built "$folder" "github.com/ollama/ollama@v${!v}" ;;
    gitea) quietly built_gitea "$folder" ;;
  esac || return 1
  keep "$1" "$folder/$(program "$1")"
}

has_go() { command -v go >/dev/null && { [ "$1" = ollama ] || go_at_least 1 26; }; }

go_at_least() {
  local major minor
  IFS=. read -r major minor _ <<<"$(go env GOVERSION | sed 's/^go//')"
  [ "$major" -gt "$1" ] || { [ "$major" -eq "$1" ] && [ "${minor%%[!0-9]*}" -ge "$2" ]; }
}

built() { mkdir -p "$1" && GOBIN=$1 nice -n 10 go install "$2"; }

# `go install` refuses a module with `replace` lines, so a module of our own repeats them. The assets,
# which a release contains in the program, are put next to it.
built_gitea() {
  local module=code.gitea.io/gitea sources go_mod place
  place=$(dirname "$(cached gitea)")
  mkdir -p "$1" "$place" && cd "$1" || return 1
  printf 'module codelode.test/gitea\n\ngo 1.26\n' >go.mod
  go mod download "$module@v$gitea_version" && go_mod=$(go list -m -f '{{.GoMod}}' "$module@v$gitea_version") || return 1
  { echo "require $module v$gitea_version"; grep '^replace' "$go_mod"; echo "tool $module"; } >>go.mod
  nice -n 10 go mod tidy && CGO_ENABLED=1 nice -n 10 \
    go build -tags 'sqlite sqlite_unlock_notify' -o "$1/gitea" "$module" || return 1
  sources=$(go list -m -f '{{.Dir}}' "$module")
  cp -R "$sources/templates" "$sources/options" "$sources/public" "$place/" && chmod -R u+w "$place"
}

# `keep SERVER FILE`: moves the program into the cache atomically, so that an interrupted build or
# copy never counts as a program.
keep() {
  local draft; draft=$(cached "$1").$$
  [ -n "$2" ] && [ -f "$2" ] || return 1
  mkdir -p "$(dirname "$draft")"
  if mv -f "$2" "$draft" && chmod +x "$draft" && mv -f "$draft" "$(cached "$1")"; then cached "$1"; else
    rm -f "$draft"; return 1
  fi
}

# `binary SERVER`: tries only the sources that yield a program, so neither `configured` nor `compose`.
binary() {
  local way
  for way in $ways; do
    case $way in path | cache | go) ;; release) say "$1: looking for a release" ;; *) continue ;; esac
    if "from_$way" "$1"; then return 0; fi
  done
  return 1
}

# `nothing_worked SERVER WAY…`: reports in one line what was tried, and the remedy.
nothing_worked() {
  local way reasons="" v="$1_version" needed log="" limit="" tried="${*:2}"
  for way in $tried; do reasons="$reasons${reasons:+; }$way: $(reason "$1" "$way")"; done
  case $1 in weaviate) needed="Go 1.26" ;; ollama) needed="Go and a C compiler" ;; gitea) needed="Go 1.26 and a C compiler" ;; esac
  [ -z "${SERVICES_WAYS:-}" ] || limit=" and add that source to SERVICES_WAYS"
  [ ! -s "$state/log" ] || log=" (more in $state/log)"
  say "$1: no source of this server worked ($tried): $reasons$log." \
    "Put $(program "$1") ${!v} on PATH or install $needed$limit"
}

reason() {
  local name; name=$(variable "$1")
  case $2 in
    configured) if [ -n "${!name:-}" ]; then echo "$name is not ready"; else echo "$name is not set"; fi ;;
    compose) echo "Docker Compose is missing or does not start it" ;;
    path) if from_path "$1" >/dev/null; then echo "$(from_path "$1") does not start"; else echo "no $(program "$1")"; fi ;;
    cache) if from_cache "$1" >/dev/null; then echo "$(cached "$1") does not start"; else echo "no $(cached "$1")"; fi ;;
    release) echo "it cannot be downloaded or does not start" ;;
    go) if has_go "$1"; then echo "the build fails or does not start"; elif command -v go >/dev/null; then echo "too old"; else echo "no Go on PATH"; fi ;;
    *) echo "unknown source" ;;
  esac
}

# --- one server --------------------------------------------------------------------------------

up_one() {
  local way url found
  if url=$(running "$1"); then say "$1: already running at $url"; return 0; fi
  for way in $ways; do
    case $way in
      configured) url=$(configured "$1") || continue; forget "$1"; say "$1: configured, $url" ;;
      compose) url=$(compose_up "$1") || continue; say "$1: Docker Compose, $url" ;;
      *) found=$(ways=$way binary "$1") || continue
        url=$("start_$1" "$found") || { say "$1: $found did not start, see $state/$1.log"; continue; }
        say "$1: $found ($way), $url" ;;
    esac
    record "$1" "$url"
    return 0
  done
  # shellcheck disable=SC2086
  nothing_worked "$1" $ways
  return 1
}

variable() { case $1 in weaviate) echo CODELODE_WEAVIATE_URL ;; ollama) echo CODELODE_OLLAMA_URL ;; esac }

configured() { local name; name=$(variable "$1"); [ -n "${!name:-}" ] && answers "$1" "${!name}" && echo "${!name}"; }

running() {
  local url
  url=$(sed -n "s|^export $(variable "$1")=||p" "$state/env" 2>/dev/null) || return 1
  [ -n "$url" ] && answers "$1" "$url" && echo "$url"
}

answers() {
  local path
  case $1 in weaviate) path=/v1/.well-known/ready ;; ollama) path=/api/version ;; esac
  curl --fail --silent --max-time 3 --noproxy '*' --output /dev/null "$2$path"
}

# `record SERVER URL`: writes the variables for clients to the env file, readable by the user only.
record() {
  local name draft; name=$(variable "$1") draft=$(mktemp "$state/env.XXXXXX")
  {
    grep -v "^export ${name%URL}" "$state/env" 2>/dev/null || true
    echo "export $name=$2"
    if [ "$1" = weaviate ]; then
      [ ! -s "$state/grpc_port" ] || echo "export CODELODE_WEAVIATE_GRPC_PORT=$(cat "$state/grpc_port")"
      [ ! -s "$state/weaviate.key" ] || printf 'export CODELODE_WEAVIATE_API_KEY=%q\n' "$(cat "$state/weaviate.key")"
    fi
  } >"$draft"
  mv -f "$draft" "$state/env"
}

# Removes the recorded port and key of the Weaviate that this script started, before another one is used.
forget() { [ "$1" != weaviate ] || rm -f "$state/grpc_port" "$state/weaviate.key"; }

free_ports() {
  python3 - "$1" <<'PY'
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in held:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))
PY
}

# Prints the API key: the first one that the environment allows, or else a new random key.
weaviate_key() {
  local file=$state/weaviate.key wanted=${AUTHENTICATION_APIKEY_ALLOWED_KEYS:-}
  (
    umask 077
    if [ -n "$wanted" ]; then
      echo "${wanted%%,*}" >"$file"
    elif [ ! -s "$file" ]; then
      python3 -c 'import secrets; print(secrets.token_hex(24))' >"$file"
    fi
  ) && cat "$file"
}

# Version 1.39.2 binds gRPC and the data port of the cluster to all interfaces, and no setting changes
# that. Therefore both require a key.
start_weaviate() {
  local http grpc gossip data raft internal key folder=$state/weaviate
  mkdir -p "$folder"
  # A server that is started again keeps its ports and its key, so that its clients can reconnect.
  key=$(weaviate_key) || return 1
  [ -s "$state/weaviate.ports" ] || free_ports 6 >"$state/weaviate.ports"
  read -r http grpc gossip data raft internal <"$state/weaviate.ports"
  echo "$grpc" >"$state/grpc_port"
  (
    set -a
    # shellcheck disable=SC1091
    . "$root/deploy/weaviate.env"
    PERSISTENCE_DATA_PATH=$folder GRPC_PORT=$grpc
    AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED=false AUTHENTICATION_APIKEY_ENABLED=true
    AUTHENTICATION_APIKEY_ALLOWED_KEYS=${AUTHENTICATION_APIKEY_ALLOWED_KEYS:-$key}
    AUTHENTICATION_APIKEY_USERS=${AUTHENTICATION_APIKEY_USERS:-codelode}
    CLUSTER_BASIC_AUTH_USERNAME=codelode CLUSTER_BASIC_AUTH_PASSWORD=$key
    CLUSTER_HOSTNAME=node1 CLUSTER_ADVERTISE_ADDR=127.0.0.1 CLUSTER_BIND_ADDR=127.0.0.1
    CLUSTER_GOSSIP_BIND_PORT=$gossip CLUSTER_DATA_BIND_PORT=$data RAFT_PORT=$raft
    RAFT_INTERNAL_RPC_PORT=$internal RAFT_BOOTSTRAP_EXPECT=1
    RAFT_TIMEOUTS_MULTIPLIER=1 # a single node waits for no others: ready in 3 s instead of 10
    ENABLE_MODULES=backup-filesystem BACKUP_FILESYSTEM_PATH=$state/weaviate-backups
    start weaviate "$1" --host 127.0.0.1 --port "$http" --scheme http
  )
  await weaviate "http://127.0.0.1:$http" 60
}

start_ollama() {
  local port
  port=$(free_ports 1)
  # Ollama writes a key into its home folder, so it gets a separate one.
  HOME=$state/ollama-home OLLAMA_HOST=127.0.0.1:$port OLLAMA_MODELS=$state/ollama OLLAMA_NOPRUNE=1 \
    start ollama "$1" serve
  await ollama "http://127.0.0.1:$port" 30
}

# `start SERVER PROGRAM ARGUMENTS…`: starts the program in a new session, so that Ctrl-C does not end it.
start() {
  local server=$1; shift
  if command -v setsid >/dev/null; then set -- setsid "$@"; fi
  nohup "$@" >"$state/$server.log" 2>&1 </dev/null &
  echo $! >"$state/$server.pid"
}

await() {
  local tenths=$(($3 * 10))
  until answers "$1" "$2"; do
    lives "$(cat "$state/$1.pid")" && [ $((tenths -= 1)) -gt 0 ] || { stop "$1"; return 1; }
    sleep 0.1
  done
  echo "$2"
}

# A zombie counts as dead: in a container its parent may never reap it.
lives() {
  kill -0 "$1" 2>/dev/null && case $(ps -o stat= -p "$1" 2>/dev/null) in Z*) return 1 ;; esac
}

stop() {
  local pid tenths=200
  pid=$(cat "$state/$1.pid" 2>/dev/null) || return 0
  # The process id may have been reused: end only a process that runs this program.
  if ps -o args= -p "$pid" 2>/dev/null | grep -q "$(program "$1")"; then
    kill "$pid" 2>/dev/null || true
    while lives "$pid" && [ $((tenths -= 1)) -gt 0 ]; do sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
    say "$1: stopped"
  fi
  rm -f "$state/$1.pid"
}

# --- Docker Compose ----------------------------------------------------------------------------

# Each state folder has its own Compose project and stores its name, so that one checkout does not
# stop the servers of another.
compose() {
  local project; project=$(cat "$state/composed")
  docker compose --project-name "${project:-codelode-services}" --project-directory "$root" \
    --file "$root/deploy/services.compose.yml" "$@"
}

compose_up() {
  local port url
  docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1 || return 1
  export WEAVIATE_VERSION=$weaviate_version OLLAMA_VERSION=$ollama_version
  # Stored before `up`: a container that does not become ready must be taken down as well.
  [ -e "$state/composed" ] || echo "codelode-services-$(cksum <<<"$state" | sed 's| .*||')" >"$state/composed"
  quietly compose up --detach --wait "$1" || return 1
  forget "$1"
  case $1 in
    weaviate) compose port weaviate 50051 | sed 's/.*://' >"$state/grpc_port"; port=8080 ;;
    ollama) port=11434 ;;
  esac
  url=http://127.0.0.1:$(compose port "$1" $port | sed 's/.*://')
  # A Docker engine on another machine publishes the port there, where it cannot be used.
  answers "$1" "$url" && echo "$url"
}

compose_down() {
  WEAVIATE_VERSION=$weaviate_version OLLAMA_VERSION=$ollama_version \
    quietly compose down --volumes --timeout 20 && return
  say "Docker Compose did not take down what it started (more in $state/log): start Docker, or" \
    "get the right to use it, and run this again; if it is gone for good, remove $state/composed first"
  return 1
}

# --- commands ----------------------------------------------------------------------------------

up() {
  local server failed=0
  require_known "weaviate ollama" "$@"
  claim
  for server in "${@:-weaviate ollama}"; do
    # shellcheck disable=SC2086
    for server in $server; do up_one "$server" || failed=1; done
  done
  [ ! -f "$state/env" ] || say "source $state/env for their addresses"
  return $failed
}

# If Docker Compose fails, `down` keeps the state folder, which has the only record of the project's name.
down() {
  local failed=0
  is_own || refuse
  if [ -f "$state/composed" ]; then compose_down || failed=1; fi
  stop weaviate
  stop ollama
  [ $failed = 1 ] || rm -rf "$state"
  return $failed
}

status() {
  local server url
  for server in weaviate ollama; do
    if url=$(running "$server"); then echo "$server $url"; else echo "$server down"; fi
  done
}

command=${1:-}
shift || true
case $command in
  up) up "$@" ;;
  down) down ;;
  status) status ;;
  versions) echo "weaviate $weaviate_version"; echo "ollama $ollama_version" ;;
  binary)
    require_known "weaviate ollama gitea" "${1:-}"
    claim
    # shellcheck disable=SC2046
    binary "$1" || { nothing_worked "$1" $(tr ' ' '\n' <<<"$ways" | grep -vx -e configured -e compose); exit 1; }
    ;;
  *) sed -n '2,19s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
