# PostgreSQL with a commit for each inserted row.
# cause: fsync_per_write, fsync_bound
# where: pg_wal
# advice: commit_delay|synchronous_commit|transaction
# prepare: yes
# user: postgres
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
if [ "$1" = prepare ]; then
    "$bin/initdb" -D data -A trust -U postgres > initdb.log
    for i in $(seq 400); do echo "INSERT INTO sale VALUES ($i, 'article');"; done > inserts.sql
    exit
fi
"$bin/postgres" -D data -k "$PWD" -c listen_addresses= -c autovacuum=off > log 2>&1 &
server=$!
until "$bin/psql" -h "$PWD" -U postgres -qc 'CREATE TABLE sale (id int, what text)' 2> /dev/null; do sleep 0.05; done
"$bin/psql" -h "$PWD" -U postgres -qf inserts.sql
kill -INT $server
wait $server
