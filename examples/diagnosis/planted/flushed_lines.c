// Flushes a stream after each line.
// cause: stdio_flush
// where: lines.txt
// held: yes
#include <stdio.h>

int main(void) {
    FILE *lines = fopen("lines.txt", "w");
    for (int i = 0; i < 500000; i++) {
        fprintf(lines, "line %d\n", i);
        fflush(lines);
    }
}
