#!/bin/bash
# Start a store on this machine, or those of its daemons that don't run.
#
#   up.sh [--nodes N] [--replicas R] [--trace|--no-trace] [--record ARG]
#         [--head ARG] [--mds ARG] [--node ARG] DIR
#
# One metadata service, N storage nodes and a head on loopback, mounted on DIR/mnt. With --trace (the default)
# each runs under its own `iotrail record --node NAME`, as on a machine of its own. --record hands an argument
# to that, such as --record --kernel; --head, --mds and --node hand one to that daemon, such as
# --head --cache=1M. Options are kept in DIR/config, with the data: a later `up.sh DIR` starts the same store.
# IOTRAIL and STORE name the programs, where they aren't in this checkout. For each daemon, DIR has NAME.pid,
# NAME.log, NAME.trail (NAME-2.trail of its second run, …).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
# shellcheck source=daemons.sh
source "$here/daemons.sh"

die() {
    printf 'up.sh: error: %s\n' "$@" >&2
    exit 1
}

nodes=3 replicas=2 trace=true record_args=() head_args=() mds_args=() node_args=() dir=
while (($#)); do
    case $1 in
        --nodes) nodes=$2 && shift 2 ;;
        --replicas) replicas=$2 && shift 2 ;;
        --trace) trace=true && shift ;;
        --no-trace) trace=false && shift ;;
        --record) record_args+=("$2") && shift 2 ;;
        --head) head_args+=("$2") && shift 2 ;;
        --mds) mds_args+=("$2") && shift 2 ;;
        --node) node_args+=("$2") && shift 2 ;;
        -*) die "no option $1; the first lines of $0 say which there are" ;;
        *) dir=$1 && shift ;;
    esac
done
[[ -n $dir ]] || die "expected a directory: up.sh [OPTIONS] DIR"
[[ $(id -u) == 0 ]] || die "mounting needs root" "  hint: sudo $0 …"
[[ -c /dev/fuse ]] || die "no /dev/fuse here" "  hint: modprobe fuse"

iotrail=${IOTRAIL:-$root/.venv/bin/iotrail}
store=$(realpath -q "${STORE:-$root/target/release/store}") || die "no store" "  hint: make, or set STORE"
[[ -x $store ]] || die "$store is missing" "  hint: make, or set STORE"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
# What a head that was killed left can't even be looked at.
running head || umount -l "$dir/mnt" 2>/dev/null || true
mkdir -p "$dir/mnt"
if [[ -e $dir/config ]]; then
    # shellcheck disable=SC1091
    source "$dir/config"
else
    # Below the ports that the kernel gives to outgoing connections, so that a daemon finds its own free again.
    ports=($(python3 - $((nodes + 2)) <<'EOF'
import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", random.randrange(20000, 32000)))
        held.append(s)
    except OSError:
        pass
print(*(s.getsockname()[1] for s in held))
EOF
    ))
    declare -p nodes replicas trace record_args head_args mds_args node_args ports >"$dir/config"
fi
if $trace; then
    [[ -x $iotrail ]] || die "$iotrail is missing" "  hint: make, set IOTRAIL, or --no-trace"
fi

# start NAME PORT ARGUMENTS…: unless it runs.
start() {
    local name=$1 port=$2 trail=$dir/$1.trail number=1 recorder=() said=0
    shift 2
    running "$name" && return
    while [[ -e $trail ]]; do
        trail=$dir/$name-$((++number)).trail
    done
    if $trace; then recorder=("$iotrail" record --node "$name" --memory 128M -o "$trail" "${record_args[@]}" --); fi
    if [[ -e $dir/$name.log ]]; then said=$(stat -c %s "$dir/$name.log"); fi
    # A session of its own: Ctrl-C at the terminal is not for the daemons.
    setsid "${recorder[@]}" "$store" "$@" </dev/null >>"$dir/$name.log" 2>&1 &
    echo $! >"$dir/$name.pid"
    until tail -c "+$((said + 1))" "$dir/$name.log" 2>/dev/null | grep -q 'listening on'; do
        running "$name" || die "$name ended early; the end of $dir/$name.log:" "$(tail -n 20 "$dir/$name.log")"
        sleep 0.05
    done
    echo "$name: pid $(<"$dir/$name.pid"), 127.0.0.1:$port"
}

names=() peers=()
for ((at = 1; at <= nodes; at++)); do
    names+=(--node "node-$at")
    peers+=(--node "node-$at=127.0.0.1:${ports[at + 1]}")
    start "node-$at" "${ports[at + 1]}" node --name "node-$at" --dir "$dir/node-$at" \
        --listen "127.0.0.1:${ports[at + 1]}" "${node_args[@]}"
done
start mds "${ports[0]}" mds --dir "$dir/mds" --replicas "$replicas" "${names[@]}" \
    --listen "127.0.0.1:${ports[0]}" "${mds_args[@]}"
start head "${ports[1]}" head "$dir/mnt" --mds "127.0.0.1:${ports[0]}" "${peers[@]}" \
    --listen "127.0.0.1:${ports[1]}" "${head_args[@]}"
until mountpoint -q "$dir/mnt"; do
    running head || die "head ended early; the end of $dir/head.log:" "$(tail -n 20 "$dir/head.log")"
    sleep 0.05
done
echo "mounted on $dir/mnt"
