# tar of a tree of files.
# prepare: yes
if [ "$1" = prepare ]; then
    mkdir -p tree
    for i in $(seq 60); do
        mkdir tree/d$i
        for j in $(seq 25); do seq $((i * j)) $((i * j + 300)) > tree/d$i/f$j.txt; done
    done
    exit
fi
tar cf tree.tar tree
