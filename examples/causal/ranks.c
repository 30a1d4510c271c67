/*
 * MPI programs whose ranks wait for each other and for storage: `ranks KIND BLOCKS BYTES DIRECTORY`.
 *
 * | KIND | what it does |
 * |---|---|
 * | plain | all ranks write a checkpoint into one file, interleaved, meet once, and read their blocks back |
 * | sync | the same, and they meet after each write |
 * | compute | as sync, and they compute on each block that they read |
 * | turns | each rank reads its part of a file after the rank before it |
 * | solver | builds a mesh (reads and writes at random), rank 0 collects and writes it, then all compute steps and write their state now and then |
 *
 * The first four are the shapes of the pseudo-applications and the reader of Mesnier et al., "//TRACE" (FAST 2007), section 5.1, the last that
 * of its solver. Writes are durable (O_DSYNC) and into blocks that the files have, reads bypass the page cache where the file system
 * can (O_DIRECT). COMPUTE=F in the environment multiplies all computing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, ranks, blocks;
static size_t bytes;
static char *block;

static double factor = 1.0;

static void compute(double ms) {
    struct timespec start, now;
    ms *= factor;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < ms);
}

static void fail(const char *what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int open_in(const char *directory, const char *name, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, flags, 0644);
    if (fd < 0 && errno == EINVAL) fd = open(path, flags & ~O_DIRECT, 0644);
    if (fd < 0) fail(path);
    return fd;
}

static void put(int fd, long at) {
    if (pwrite(fd, block, bytes, at * (long)bytes) != (ssize_t)bytes) fail("pwrite");
}

/* A file of so many blocks, which it has before they are written durably: how much a file system writes where a file gets blocks is chance. */
static void fill(const char *directory, const char *name, long count) {
    int fd = open_in(directory, name, O_WRONLY | O_CREAT | O_DIRECT);
    for (long at = 0; at < count; at++) put(fd, at);
    if (fsync(fd) || close(fd)) fail(name);
}

static void get(int fd, long at) {
    if (pread(fd, block, bytes, at * (long)bytes) != (ssize_t)bytes) fail("pread");
}

static void checkpoint(const char *directory, int meets, double ms) {
    if (rank == 0) fill(directory, "checkpoint", (long)blocks * ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    int fd = open_in(directory, "checkpoint", O_WRONLY | O_DSYNC | O_DIRECT);
    for (int at = 0; at < blocks; at++) {
        put(fd, (long)at * ranks + rank);
        if (meets) MPI_Barrier(MPI_COMM_WORLD);
    }
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
    fd = open_in(directory, "checkpoint", O_RDONLY | O_DIRECT);
    for (int at = 0; at < blocks; at++) {
        get(fd, (long)at * ranks + rank);
        if (ms > 0) compute(ms);
        if (meets && ms > 0) MPI_Barrier(MPI_COMM_WORLD);
    }
    close(fd);
}

static void read_in_turns(const char *directory) {
    char token = 0;
    if (rank == 0) fill(directory, "input", (long)blocks * ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    int fd = open_in(directory, "input", O_RDONLY | O_DIRECT);
    if (rank > 0) MPI_Recv(&token, 1, MPI_CHAR, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int at = 0; at < blocks; at++) get(fd, (long)rank * blocks + at);
    if (rank < ranks - 1) MPI_Send(&token, 1, MPI_CHAR, rank + 1, 0, MPI_COMM_WORLD);
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void solve(const char *directory) {
    char name[64];
    snprintf(name, sizeof name, "mesh.%d", rank);
    unsigned seed = rank + 1;
    fill(directory, name, blocks);
    int fd = open_in(directory, name, O_RDWR | O_DIRECT);
    for (int at = 0; at < blocks; at++) {
        long where = rand_r(&seed) % blocks;
        get(fd, where);
        compute(0.2 + 0.1 * rank);
        put(fd, where);
    }
    fsync(fd);
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        fill(directory, "mesh", (long)blocks * (ranks - 1));
        fd = open_in(directory, "mesh", O_WRONLY | O_DSYNC | O_DIRECT);
        for (int at = 0; at < blocks * (ranks - 1); at++) {
            MPI_Recv(block, (int)bytes, MPI_CHAR, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            put(fd, at);
        }
        close(fd);
    } else {
        for (int at = 0; at < blocks; at++) {
            compute(0.1);
            MPI_Send(block, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(name, sizeof name, "state.%d", rank);
    fill(directory, name, (blocks + 3) / 4);
    MPI_Barrier(MPI_COMM_WORLD);
    fd = open_in(directory, name, O_WRONLY | O_DSYNC | O_DIRECT);
    double mine = rank, all;
    for (int at = 0; at < blocks; at++) {
        compute((at + rank) % ranks == 0 ? 2 : 0.5);
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (at % 4 == 3) put(fd, at / 4);
    }
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5) {
        fprintf(stderr, "usage: ranks plain|sync|compute|turns|solver BLOCKS BYTES DIRECTORY\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    blocks = atoi(argv[2]);
    bytes = strtoul(argv[3], NULL, 10);
    if (posix_memalign((void **)&block, 4096, bytes)) fail("memory");
    memset(block, rank + 1, bytes);
    if (getenv("COMPUTE")) factor = atof(getenv("COMPUTE"));
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(argv[1], "plain")) checkpoint(argv[4], 0, 0);
    else if (!strcmp(argv[1], "sync")) checkpoint(argv[4], 1, 0);
    else if (!strcmp(argv[1], "compute")) checkpoint(argv[4], 1, 2);
    else if (!strcmp(argv[1], "turns")) read_in_turns(argv[4]);
    else if (!strcmp(argv[1], "solver")) solve(argv[4]);
    else MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Finalize();
    return 0;
}
