// Reads a log from its end to its beginning, block by block, not cached.
// cause: backward_reads
// where: history.log
// prepare: yes
// cold: yes
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    static char block[1 << 20];
    off_t size = 128 << 20;
    if (count > 1) {
        int log = open("history.log", O_WRONLY | O_CREAT, 0644);
        for (off_t i = 0; i < size; i += sizeof block) {
            for (size_t j = 0; j < sizeof block; j += 64) block[j] = rand();
            if (write(log, block, sizeof block) < 0) return 1;
        }
        return fsync(log);
    }
    int log = open("history.log", O_RDONLY);
    for (off_t at = size - 4096; at >= 0; at -= 4096)
        if (pread(log, block, 4096, at) < 0) return 1;
}
