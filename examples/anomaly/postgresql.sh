#!/bin/sh
# A PostgreSQL server for postgresql.toml, on a socket in $PGHOST and nowhere else.
#
#   export PGHOST=/tmp/iotrail-postgresql PGUSER=sweep PGDATABASE=postgres
#   postgresql.sh up        make a cluster in $PGHOST with a table, and start the server
#   postgresql.sh restart   after a change of what only a start reads
#   postgresql.sh down      stop the server and remove $PGHOST
set -eu

bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
# PostgreSQL refuses root.
if [ "$(id -u)" = 0 ]; then
    server() { setpriv --reuid=nobody --regid=nogroup --clear-groups -- "$bin/$@"; }
else
    server() { "$bin/$@"; }
fi
start() { server pg_ctl -D "$PGHOST/data" -l "$PGHOST/log" -w "$1" >"$PGHOST/start" </dev/null; }

case $1 in
up)
    mkdir "$PGHOST"
    [ "$(id -u)" != 0 ] || chown nobody:nogroup "$PGHOST"
    server initdb -D "$PGHOST/data" --username="$PGUSER" --auth=trust --no-sync >"$PGHOST/initdb.log"
    cat >>"$PGHOST/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$PGHOST'
max_parallel_workers_per_gather = 0
jit = off
END
    start start
    # Rows with a key lie anywhere in the table.
    psql -q <<END
CREATE TABLE item AS SELECT n AS key, repeat('x', 100) AS filler FROM generate_series(1, 500000) n ORDER BY random();
CREATE INDEX item_key ON item (key);
VACUUM ANALYZE item;
END
    ;;
restart)
    start restart
    ;;
down)
    server pg_ctl -D "$PGHOST/data" -m immediate -w stop >/dev/null
    rm -r "$PGHOST"
    ;;
esac
