# Copies the same data from a slow file system and from a fast one.
# cause: slow_mount
# where: slow
# prepare: yes
# needs: slowfs
if [ "$1" = prepare ]; then
    mkdir -p backing slow fast
    head -c 16777216 /dev/urandom > backing/data
    for part in 1 2 3; do cp backing/data fast/part$part; done
    slowfs backing slow
    exit
fi
cat fast/part1 fast/part2 fast/part3 > fast/copy
cat slow/data > fast/again
