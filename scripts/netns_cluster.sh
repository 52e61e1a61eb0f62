#!/usr/bin/env bash
# A cluster in a box: network namespaces as nodes, joined by links of a given rate and delay, so that multi-node runs meet a real
# slow network on one machine. Needs root, Linux network namespaces and /dev/net/tun; no netem.
#   scripts/netns_cluster.sh up --nodes 2 --rate 1gbit --delay 200us [--name NAME] [--mtu 9000]
#   scripts/netns_cluster.sh run --ranks 4 [--name NAME] [--] PROGRAM [ARG...]     ranks are dealt to the nodes in blocks
#   scripts/netns_cluster.sh status [--name NAME]
#   scripts/netns_cluster.sh down [--name NAME]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
relay=${NETNS_RELAY:-$root/build/bin/netns_relay}
runs=${NETNS_STATE:-/run/shardbench-netns}

fail() { echo "netns_cluster: $*" >&2; exit 2; }
usage() { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# Prints why this machine cannot do it; nothing when it can.
missing() {
  [ "$(id -u)" = 0 ] || { echo "not root"; return; }
  command -v ip >/dev/null || { echo "no 'ip' command (package iproute2)"; return; }
  command -v unshare >/dev/null || { echo "no 'unshare' command (package util-linux)"; return; }
  [ -c /dev/net/tun ] || { echo "no /dev/net/tun"; return; }
  ip netns add "sbtry$$" 2>/dev/null || { echo "network namespaces are not allowed here"; return; }
  ip netns del "sbtry$$"
  [ -x "$relay" ] || echo "no $relay (scripts/build.sh makes it)"
}

# "1gbit", "250mbit", "1000000" -> bits a second; "200us", "2ms" -> microseconds.
rate_bits() {
  [[ $1 =~ ^([0-9]+(\.[0-9]+)?)(gbit|mbit|kbit|)$ ]] || fail "--rate: '$1' is not a number with gbit, mbit or kbit"
  local scale=1
  case ${BASH_REMATCH[3]} in gbit) scale=1000000000 ;; mbit) scale=1000000 ;; kbit) scale=1000 ;; esac
  awk -v x="${BASH_REMATCH[1]}" -v s="$scale" 'BEGIN { printf "%.0f", x * s }'
}
delay_us() {
  [[ $1 =~ ^([0-9]+(\.[0-9]+)?)(us|ms)$ ]] || fail "--delay: '$1' is not a number with us or ms"
  awk -v x="${BASH_REMATCH[1]}" -v u="${BASH_REMATCH[3]}" 'BEGIN { print u == "ms" ? x * 1000 : x }'
}

up() {
  local why i
  [[ $nodes =~ ^[0-9]+$ ]] && [ "$nodes" -ge 2 ] && [ "$nodes" -le 200 ] || fail "--nodes: '$nodes' is not an integer from 2 to 200"
  local bits us
  bits=$(rate_bits "$rate")
  us=$(delay_us "$delay")
  why=$(missing)
  [ -z "$why" ] || fail "cannot make a cluster here: $why"
  [ ! -e "$state" ] || fail "'$name' is up already; netns_cluster.sh down --name $name"
  mkdir -p "$state"
  trap 'down >/dev/null 2>&1 || true' ERR
  local names=()
  for ((i = 0; i < nodes; ++i)); do names+=("$name$i"); done
  printf '%s\n' "${names[@]}" >"$state/nodes"
  for i in "${names[@]}"; do
    ip netns add "$i"
    ip -n "$i" link set lo up
    mkdir -p "/etc/netns/$i"
    { echo "127.0.0.1 localhost"; for ((k = 0; k < nodes; ++k)); do echo "10.77.0.$((k + 1)) $name$k"; done; } >"/etc/netns/$i/hosts"
  done
  "$relay" "$bits" "$us" "$mtu" "${names[@]}" >"$state/log" 2>&1 </dev/null &
  echo $! >"$state/pid"
  for ((i = 0; i < 100; ++i)); do
    grep -q '^up$' "$state/log" && break
    kill -0 "$(cat "$state/pid")" 2>/dev/null || break
    sleep 0.05
  done
  if ! grep -q '^up$' "$state/log"; then
    why=$(tail -1 "$state/log")
    down >/dev/null
    fail "the link does not come up: $why"
  fi
  echo "$nodes nodes, $rate, $delay one way, MTU $mtu" >"$state/what"
  trap - ERR
  echo "up: $(cat "$state/what")"
}

down() {
  [ -d "$state" ] || { echo "'$name' is not up"; return 0; }
  if [ -s "$state/pid" ] && grep -qa netns_relay "/proc/$(cat "$state/pid")/cmdline" 2>/dev/null; then
    kill "$(cat "$state/pid")" 2>/dev/null || true
  fi
  local node
  while read -r node; do
    ip netns del "$node" 2>/dev/null || true
    rm -rf "/etc/netns/$node"
  done <"$state/nodes"
  rm -rf "$state"
  echo "down"
}

status() {
  [ -d "$state" ] || { echo "'$name' is not up"; return 1; }
  echo "$(cat "$state/what") ($(tr '\n' ' ' <"$state/nodes")link $(kill -0 "$(cat "$state/pid")" 2>/dev/null && echo up || echo DOWN))"
}

run() {
  [ -d "$state" ] || fail "'$name' is not up; netns_cluster.sh up first"
  [[ $ranks =~ ^[0-9]+$ ]] && [ "$ranks" -ge 1 ] || fail "--ranks: '$ranks' is not an integer >= 1"
  [ $# -gt 0 ] || fail "run: no program given"
  local count first hosts per
  count=$(wc -l <"$state/nodes")
  first=$(head -1 "$state/nodes")
  per=$(((ranks + count - 1) / count))
  hosts=$(sed "s/\$/:$per/" "$state/nodes" | paste -sd,)
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
  # No binding, and idle ranks yield: every node believes that it has all cores for itself. Shared memory within a node, TCP
  # between them; a rank learns its node's name from its UTS namespace.
  exec ip netns exec "$first" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$first" \
    mpirun --quiet --mca plm_rsh_agent "${BASH_SOURCE[0]} agent" --host "$hosts" -np "$ranks" --bind-to none --map-by slot --oversubscribe \
    --mca pml ob1 --mca btl tcp,vader,self --mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
    -x OPENBLAS_NUM_THREADS "$@"
}

# mpirun's remote shell: [options] HOST COMMAND...
agent() {
  while [[ ${1:-} == -* ]]; do shift; done
  local node=$1
  shift
  exec ip netns exec "$node" unshare --uts sh -c "hostname $node; $*"
}

[ $# -gt 0 ] || { usage; exit 2; }
command=$1
shift
case $command in
  agent) agent "$@" ;;
  -h | --help | help) usage; exit 0 ;;
  -*) fail "unknown flag '$command'; allowed first: up, run, status, down, check, --help" ;;
esac
nodes=2 rate=1gbit delay=200us mtu=9000 name=sbnode ranks=2
while [ $# -gt 0 ]; do
  case $1 in
    --nodes | --rate | --delay | --mtu | --name | --ranks) [ $# -gt 1 ] || fail "$1: a value is missing"; declare "${1#--}=$2"; shift 2 ;;
    --) shift; break ;;
    -*) fail "unknown flag '$1'; allowed: --nodes --rate --delay --mtu --name --ranks" ;;
    *) break ;;
  esac
done
[[ $name =~ ^[a-z][a-z0-9]{0,20}$ ]] || fail "--name: '$name' is not a lower-case word of at most 21 letters and digits"
[[ $mtu =~ ^[0-9]+$ ]] || fail "--mtu: '$mtu' is not an integer"
state=$runs/$name
case $command in
  up) up ;;
  down) down ;;
  status) status ;;
  run) run "$@" ;;
  check) why=$(missing); [ -z "$why" ] || { echo "cannot: $why"; exit 1; }; echo "can" ;;
  *) fail "unknown command '$command'; allowed: up, run, status, down, check" ;;
esac
