# gzip of a large file.
# prepare: yes
# held: yes
if [ "$1" = prepare ]; then
    seq 4000000 > lines
    exit
fi
gzip -k lines
