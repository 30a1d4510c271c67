/* An MPI job with file I/O: each rank writes a checkpoint block by block, all wait for each other, then
 * each reads its neighbour's.
 *
 *   mpirun -np N ranks FOLDER BLOCKS ROUNDS
 *
 * Blocks of 64 KiB; between rounds a rank computes on its block, so that a waiting rank has something
 * to wait for.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 64 << 10 };

static void check(int good, const char *what)
{
    if (!good) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4) {
        fprintf(stderr, "usage: ranks FOLDER BLOCKS ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int rank, ranks, blocks = atoi(argv[2]), rounds = atoi(argv[3]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    static unsigned char block[BLOCK];
    char own[4096], other[4096];
    snprintf(own, sizeof own, "%s/rank-%d", argv[1], rank);
    snprintf(other, sizeof other, "%s/rank-%d", argv[1], (rank + 1) % ranks);
    unsigned long sum = 0, all = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCK; i++) block[i] = (unsigned char)(i * 31 + round + rank);
        int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        check(fd >= 0, own);
        for (int i = 0; i < blocks; i++) check(write(fd, block, BLOCK) == BLOCK, own);
        close(fd);
        MPI_Barrier(MPI_COMM_WORLD);
        fd = open(other, O_RDONLY);
        check(fd >= 0, other);
        for (int i = 0; i < blocks; i++) {
            check(pread(fd, block, BLOCK, (off_t)i * BLOCK) == BLOCK, other);
            for (int j = 0; j < BLOCK; j += 64) sum += block[j];
        }
        close(fd);
        MPI_Allreduce(&sum, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%lu\n", all);
    MPI_Finalize();
    return 0;
}
