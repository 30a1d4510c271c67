// Looks up records at random places of a mapped file that is not cached.
// cause: mapped_files
// where: index.map
// prepare: yes
// cold: yes
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **arguments) {
    static char block[1 << 20];
    size_t size = 512ul << 20;
    if (count > 1) {
        int map = open("index.map", O_WRONLY | O_CREAT, 0644);
        for (int i = 0; i < 512; i++) {
            for (size_t j = 0; j < sizeof block; j += 64) block[j] = rand();
            if (write(map, block, sizeof block) < 0) return 1;
        }
        return fsync(map);
    }
    int map = open("index.map", O_RDONLY);
    volatile char *data = mmap(NULL, size, PROT_READ, MAP_SHARED, map, 0);
    madvise((void *)data, size, MADV_RANDOM);
    long sum = 0;
    for (int i = 0; i < 8000; i++) sum += data[(size_t)(rand() % (1 << 17)) * 4096];
    printf("%ld\n", sum);
}
