# cp of a large file.
# prepare: yes
if [ "$1" = prepare ]; then
    head -c 300000000 /dev/urandom > big
    exit
fi
cp big copy
