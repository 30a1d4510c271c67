/* An MPI program: every rank writes and reads its part of one file between barriers. */
#include "witness.h"
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, size;
    char name[32], block[4096];
    MUST(argc == 2);
    work = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(block, 'a' + rank, sizeof block);
    int fd = DO("+open", "shared", ANY, ANY, open(in("shared"), O_RDWR | O_CREAT, 0666));
    for (int i = 0; i < 13; i++) {
        int64_t at = (i * size + rank) * 4096L;
        DO("pwrite", "shared", at, 4096, pwrite(fd, block, 4096, at));
        DO_AS("MPI_Barrier", NULL, ANY, ANY, MPI_Barrier(MPI_COMM_WORLD), 0);
    }
    int64_t at = (rank + 1) % size * 4096L;
    for (int i = 0; i < 11; i++) {
        DO("pread", "shared", at, 4096, pread(fd, block, 4096, at));
        MUST(block[0] == 'a' + (rank + 1) % size);
    }
    DO("+close", NULL, ANY, ANY, close(fd));
    int mine = rank, sum = 0;
    for (int i = 0; i < 7; i++) DO_AS("MPI_Allreduce", NULL, ANY, ANY, MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), 0);
    snprintf(name, sizeof name, "rank-%d", rank);
    MPI_Finalize();
    if (rank == 0) printf("%d ranks, sum %d\n", size, sum);
    return 0;
}
