# make with nothing to do.
# prepare: yes
if [ "$1" = prepare ]; then
    for i in $(seq 600); do echo "int f$i(void) { return $i; }" > f$i.c; touch f$i.o; done
    { printf 'all:'; for i in $(seq 600); do printf ' f%d.o' $i; done; echo; } > Makefile
    exit
fi
make -s all
