// The same work each time, for `bench/diff.py`: run it twice and nothing may differ but the machine's mood.
//
//   twin FILE ROUNDS
//
// Each round reads 4 KiB and 64 KiB at seeded random places of FILE, writes 4 KiB in order, asks for its size and
// computes a little; each 256th makes the writes durable. Page cache and 64 MiB of file: the latencies are those of
// the kernel, which scheduling, caches and neighbours disturb.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 4096, LARGE = 65536, BLOCKS = 16384 };

static uint64_t seed = 20240229;

// splitmix64 (Steele, Lea, Flood 2014)
static uint64_t next(void) {
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void must(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: twin FILE ROUNDS\n");
        return 2;
    }
    static char buffer[LARGE];
    long rounds = atol(argv[2]);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    must(fd >= 0, argv[1]);
    struct stat stat;
    must(fstat(fd, &stat) == 0, "fstat");
    for (long at = stat.st_size; at < (long)BLOCK * BLOCKS; at += LARGE)
        must(pwrite(fd, buffer, LARGE, at) == LARGE, "pwrite");
    volatile uint64_t sum = 0;
    for (long i = 0; i < rounds; i++) {
        for (int k = 0; k < 4; k++)
            must(pread(fd, buffer, BLOCK, (off_t)(next() % BLOCKS) * BLOCK) == BLOCK, "pread");
        must(lseek(fd, (off_t)(next() % (BLOCKS - 16)) * BLOCK, SEEK_SET) >= 0, "lseek");
        must(read(fd, buffer, LARGE) == LARGE, "read");
        must(pwrite(fd, buffer, BLOCK, (i % BLOCKS) * BLOCK) == BLOCK, "pwrite");
        must(fstat(fd, &stat) == 0, "fstat");
        for (int k = 0; k < 2000; k++) sum += next();
        if (i % 256 == 255) must(fdatasync(fd) == 0, "fdatasync");
    }
    must(close(fd) == 0, "close");
    return 0;
}
