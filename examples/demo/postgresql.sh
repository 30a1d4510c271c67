#!/bin/bash
# PostgreSQL under load, for half a minute: a new cluster, pgbench's tables, then its mix of transactions.
#
#   postgresql.sh BIN FOLDER
#
# BIN holds initdb, pg_ctl and pgbench; the cluster is made in FOLDER, which must exist and be empty, and
# listens on a socket there and nowhere else. Refused to root by PostgreSQL itself: demo.py sees to that.
set -euo pipefail

bin=$1 folder=$2
export PGHOST=$folder PGUSER=demo PGDATABASE=postgres

"$bin/initdb" -D "$folder/data" --username=$PGUSER --auth=trust --no-sync >"$folder/initdb.log"

# The cache is smaller than the tables, so that they are read again, and a checkpoint falls into the run.
cat >>"$folder/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$folder'
shared_buffers = 32MB
max_wal_size = 64MB
checkpoint_timeout = 30s
END

"$bin/pg_ctl" -D "$folder/data" -l "$folder/server.log" -w start >/dev/null
trap '"$bin/pg_ctl" -D "$folder/data" -m fast -w stop >/dev/null' EXIT

"$bin/pgbench" --initialize --quiet --scale=10 2>"$folder/load.log"
"$bin/pgbench" --client=4 --jobs=2 --time=15 --random-seed=1 --no-vacuum 2>&1 |
    grep -E '^(number of transactions actually|latency average|tps)' || true
