#!/bin/bash
# End the store that up.sh started in DIR: unmount it, end its daemons, and merge what was recorded.
#
#   down.sh DIR
#
# With recording, DIR/store.trail is the trail of all runs of all daemons. A recording whose recorder was
# killed is recovered first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=daemons.sh
source "$here/daemons.sh"
iotrail=${IOTRAIL:-$here/../../.venv/bin/iotrail}
dir=${1:?down.sh: expected the directory given to up.sh}
dir=$(cd "$dir" && pwd)
# shellcheck disable=SC1091
source "$dir/config"

failed=0
# end NAME…: ends these daemons together, and waits for them.
end() {
    local name
    for name in "$@"; do
        if running "$name"; then
            kill -TERM "$(<"$dir/$name.pid")"
        elif [[ -e $dir/$name.pid ]]; then
            echo "down.sh: $name had ended before; see $dir/$name.log" >&2
            failed=1
        fi
    done
    for name in "$@"; do
        while running "$name"; do sleep 0.05; done
        rm -f "$dir/$name.pid"
    done
}
# The head first: it writes back to the others what is dirty.
end head
# Only if it was killed.
umount -l "$dir/mnt" 2>/dev/null || true
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
