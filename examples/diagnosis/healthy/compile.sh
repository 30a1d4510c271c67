# gcc that compiles a program.
# prepare: yes
if [ "$1" = prepare ]; then
cat > program.c <<END
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <sys/mman.h>
int main(void) { printf("%f\\n", sin(1)); return 0; }
END
    exit
fi
gcc -O2 -o program program.c -lm
