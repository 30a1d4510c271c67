// Seeks and reads small records through stdio, which reads a whole buffer for each.
// cause: random_stdio
// where: records.dat
// prepare: yes
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    static char block[1 << 20];
    if (count > 1) {
        FILE *file = fopen("records.dat", "w");
        for (int i = 0; i < 64; i++) fwrite(block, 1, sizeof block, file);
        return fclose(file);
    }
    FILE *file = fopen("records.dat", "r");
    for (int i = 0; i < 200000; i++) {
        fseek(file, (long)(rand() % 600000) * 100, SEEK_SET);
        if (fread(block, 100, 1, file) != 1) return 1;
    }
}
