#!/bin/bash
# PostgreSQL under load, for half a minute: pgbench's tables, then its mix of transactions.
#
#   postgresql.sh create BIN FOLDER     make a cluster in FOLDER, which exists and is empty
#   postgresql.sh run BIN FOLDER        start the server, load it, stop it
#
# BIN holds initdb, pg_ctl and pgbench. The server listens on a socket in FOLDER and nowhere else.
# PostgreSQL refuses root: demo.py sees to that.
set -euo pipefail

bin=$2 folder=$3
export PGHOST=$folder PGUSER=demo PGDATABASE=postgres

if [[ $1 == create ]]; then
    "$bin/initdb" -D "$folder/data" --username=$PGUSER --auth=trust --no-sync >"$folder/initdb.log"

    # The cache is smaller than the tables, so that they are read again, and a checkpoint falls into the run.
    cat >>"$folder/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$folder'
shared_buffers = 32MB
max_wal_size = 64MB
checkpoint_timeout = 30s
END
    exit
fi

"$bin/pg_ctl" -D "$folder/data" -l "$folder/server.log" -w start >/dev/null
trap '"$bin/pg_ctl" -D "$folder/data" -m fast -w stop >/dev/null' EXIT

"$bin/pgbench" --initialize --quiet --scale=10 2>"$folder/load.log"
"$bin/pgbench" --client=4 --jobs=2 --time=15 --random-seed=1 --no-vacuum 2>&1 |
    grep -E '^(number of transactions actually|latency average|tps)' || true
