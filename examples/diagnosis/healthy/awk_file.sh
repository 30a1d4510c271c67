# awk that adds a column.
# prepare: yes
# held: yes
if [ "$1" = prepare ]; then
    seq 3000000 > lines
    exit
fi
awk '{ sum += $1 } END { print sum }' lines
