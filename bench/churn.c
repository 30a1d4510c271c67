// The same work each time, on names and durability, for `bench/diff.py`: run it twice and only the machine differs.
//
//   churn FOLDER ROUNDS
//
// Each round creates a file, writes 4 KiB to it, asks for its attributes, reads it again, and removes the file of 32
// rounds before; each fourth makes its file durable. On a disk fsync takes hundreds of microseconds and varies with
// everything else the disk does; on tmpfs it takes less than one.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 4096, KEPT = 32 };

static void must(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: churn FOLDER ROUNDS\n");
        return 2;
    }
    must(chdir(argv[1]) == 0, argv[1]);
    static char buffer[BLOCK];
    char name[32];
    long rounds = atol(argv[2]);
    for (long i = 0; i < rounds + KEPT; i++) {
        if (i < rounds) {
            snprintf(name, sizeof name, "f%05ld", i);
            int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
            must(fd >= 0, "open");
            must(pwrite(fd, buffer, BLOCK, 0) == BLOCK, "pwrite");
            if (i % 4 == 0) must(fsync(fd) == 0, "fsync");
            must(close(fd) == 0, "close");
            struct stat about;
            must(stat(name, &about) == 0, "stat");
            fd = open(name, O_RDONLY);
            must(fd >= 0, "open");
            must(pread(fd, buffer, BLOCK, 0) == BLOCK, "pread");
            must(close(fd) == 0, "close");
        }
        if (i >= KEPT) {
            snprintf(name, sizeof name, "f%05ld", i - KEPT);
            must(unlink(name) == 0, "unlink");
        }
    }
    return 0;
}
