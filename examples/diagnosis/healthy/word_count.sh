# wc of a large file.
# prepare: yes
# held: yes
if [ "$1" = prepare ]; then
    head -c 300000000 /dev/urandom > big
    exit
fi
wc -c < big; wc -l big
