#!/bin/bash
# End the store that up.sh started in DIR: unmount it, end its daemons, and merge what was recorded.
#
#   down.sh DIR
#
# With recording, DIR/store.trail is the trail of all runs of all daemons. A recording whose recorder was
# killed is recovered first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
iotrail=${IOTRAIL:-$here/../../.venv/bin/iotrail}
dir=${1:?down.sh: expected the directory given to up.sh}
dir=$(cd "$dir" && pwd)
# shellcheck disable=SC1091
source "$dir/config"

failed=0
# end NAME…: ends these daemons together, and waits for them.
end() {
    local name pid pids=()
    for name in "$@"; do
        [[ -e $dir/$name.pid ]] || continue
        pid=$(<"$dir/$name.pid")
        rm "$dir/$name.pid"
        if kill -TERM "$pid" 2>/dev/null; then
            pids+=("$pid")
        else
            echo "down.sh: $name had ended before; see $dir/$name.log" >&2
            failed=1
        fi
    done
    for pid in "${pids[@]}"; do
        tail --pid="$pid" -s 0.05 -f /dev/null
    done
}
# The head first: it writes back to the others what is dirty.
end head
if mountpoint -q "$dir/mnt"; then umount -l "$dir/mnt"; fi
readarray -t others < <(seq -f 'node-%g' "$nodes")
end mds "${others[@]}"

if $trace; then
    shopt -s nullglob
    trails=("$dir"/head*.trail "$dir"/mds*.trail "$dir"/node-*.trail)
    for trail in "${trails[@]}"; do
        "$iotrail" trail check "$trail" >>"$dir/check.log" || { echo "down.sh: see $dir/check.log" >&2 && failed=1; }
    done
    "$iotrail" trail merge --force -o "$dir/store.trail" "${trails[@]}"
fi
exit $failed
