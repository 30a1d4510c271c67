# sort of a file of a million lines.
# prepare: yes
if [ "$1" = prepare ]; then
    seq 1000000 | shuf > lines
    exit
fi
sort lines > sorted
