/* A client of user UID that counts what it asks for. Half of it, then it waits for a line, then the rest:
 *
 *     client UID DIRECTORY ROUNDS
 *
 * prints "half" when it waits, and at the end its calls as "OP COUNT" lines, in the head's words.
 * Writes don't overlap: each is part of what is written back. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CREATE, OPEN, WRITE, READ, COMMIT, SETATTR, RENAME, MKDIR, RMDIR, REMOVE, CLOSE, OPS };
static const char *const names[OPS] = {"create", "open",   "write", "read",  "commit", "setattr",
                                       "rename", "mkdir",  "rmdir", "remove", "close"};
static long counts[OPS];
static char data[40000];

#define DO(op, call) \
    do { \
        counts[op]++; \
        if ((call) < 0) { \
            perror(#call); \
            exit(1); \
        } \
    } while (0)

static void round_of(int n) {
    char path[64], other[64];
    int fd;
    snprintf(path, sizeof path, "file-%d", n);
    snprintf(other, sizeof other, "dir-%d", n);
    DO(MKDIR, mkdir(other, 0777));
    DO(CREATE, fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0666));
    memset(data, 'a' + n % 26, sizeof data);
    for (int at = 0; at < 7; at++) /* neighbours, which are coalesced: 1,000 bytes each */
        DO(WRITE, pwrite(fd, data, 1000, at * 1000));
    for (int at = 0; at < 3; at++) /* apart */
        DO(WRITE, pwrite(fd, data, 5000, 100000 + at * 20000));
    if (n % 4 == 0)
        DO(COMMIT, fsync(fd));
    for (int at = 0; at < 5; at++)
        DO(READ, pread(fd, data, 4096, at * 2000));
    memset(data, 'a' + n % 26, sizeof data);
    DO(WRITE, pwrite(fd, data, sizeof data, 400000));
    DO(CLOSE, close(fd));
    snprintf(other, sizeof other, "dir-%d/moved", n);
    DO(RENAME, rename(path, other));
    DO(OPEN, fd = open(other, O_RDWR));
    DO(READ, pread(fd, data, 20000, 110000));
    DO(SETATTR, ftruncate(fd, 450000));
    DO(CLOSE, close(fd));
    if (n % 3 == 0) {
        snprintf(path, sizeof path, "dir-%d/empty", n);
        DO(CREATE, fd = creat(path, 0666));
        DO(CLOSE, close(fd));
        DO(REMOVE, unlink(path));
        snprintf(path, sizeof path, "dir-%d/none", n);
        DO(MKDIR, mkdir(path, 0777));
        DO(RMDIR, rmdir(path));
    }
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    /* The directory may be below ones that only root may enter. */
    if (chdir(argv[2]) < 0 || setgid(atoi(argv[1])) < 0 || setuid(atoi(argv[1])) < 0) {
        perror(argv[2]);
        return 1;
    }
    int rounds = atoi(argv[3]);
    for (int n = 0; n < rounds; n++) {
        if (n == rounds / 2) {
            puts("half");
            fflush(stdout);
            getchar();
        }
        round_of(n);
    }
    for (int n = 0; n < rounds; n++) { /* old ones: no longer in all caches */
        char path[64];
        int fd;
        snprintf(path, sizeof path, "dir-%d/moved", n);
        DO(OPEN, fd = open(path, O_RDONLY));
        DO(READ, pread(fd, data, 30000, 402000));
        if (data[0] != 'a' + n % 26 || data[29999] != data[0]) {
            fprintf(stderr, "%s: not what was written\n", path);
            return 1;
        }
        DO(CLOSE, close(fd));
    }
    for (int op = 0; op < OPS; op++)
        printf("%s %ld\n", names[op], counts[op]);
    return 0;
}
