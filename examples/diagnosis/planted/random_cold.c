// Looks up records at random places of a file that is not cached.
// cause: random_reads
// where: table.db
// prepare: yes
// cold: yes
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    static char block[1 << 20];
    if (count > 1) {
        int table = open("table.db", O_WRONLY | O_CREAT, 0644);
        for (int i = 0; i < 512; i++) {
            for (size_t j = 0; j < sizeof block; j += 64) block[j] = rand();
            if (write(table, block, sizeof block) < 0) return 1;
        }
        return fsync(table);
    }
    int table = open("table.db", O_RDONLY);
    for (int i = 0; i < 6000; i++)
        if (pread(table, block, 8192, (off_t)(rand() % (1 << 16)) * 8192) < 0) return 1;
}
