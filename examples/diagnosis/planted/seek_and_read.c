// Sets the position before each small read, though the reads follow each other.
// cause: seek_per_access, small_reads
// where: table.bin
#include <fcntl.h>
#include <unistd.h>

int main(void) {
    static char block[4096];
    int table = open("table.bin", O_RDWR | O_CREAT, 0644);
    if (ftruncate(table, 64 << 20)) return 1;
    for (off_t at = 0; at < 32 << 20; at += 64) {
        lseek(table, at, SEEK_SET);
        if (read(table, block, 64) < 0) return 1;
    }
}
