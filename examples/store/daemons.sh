# shellcheck shell=bash
# For up.sh and down.sh, which set $dir.

# Whether a daemon runs. One that ended may still be a zombie: nobody here is its parent.
running() {
    [[ -e $dir/$1.pid ]] && grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(<"$dir/$1.pid")/status"
}
