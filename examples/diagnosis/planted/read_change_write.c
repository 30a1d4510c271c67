// Updates counters in place: reads a block, changes it, writes it back.
// cause: read_modify_write
// where: counters.db
// held: yes
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    static char block[4096];
    int counters = open("counters.db", O_RDWR | O_CREAT, 0644);
    if (ftruncate(counters, 16 << 20)) return 1;
    for (int i = 0; i < 150000; i++) {
        off_t at = (off_t)(rand() % 4096) * 4096;
        if (pread(counters, block, 4096, at) < 0) return 1;
        block[rand() % 4096]++;
        if (pwrite(counters, block, 4096, at) < 0) return 1;
    }
}
