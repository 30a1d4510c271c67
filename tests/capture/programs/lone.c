/* An MPI program in which the ranks wait for the first one: rank 0 computes ARGV[1] ms of CPU time before a barrier.
   MPI's waits spin. Each rank prints "RANK PID CPU WAITED SPUN", ns: its CPU time outside of MPI, its time and CPU time in the barrier. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    int rank;
    if (argc != 2) return 2;
    long long first = now(CLOCK_THREAD_CPUTIME_ID);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long long computed = now(CLOCK_THREAD_CPUTIME_ID);
    while (rank == 0 && now(CLOCK_THREAD_CPUTIME_ID) - computed < atoll(argv[1]) * 1000000);
    computed = now(CLOCK_THREAD_CPUTIME_ID) - computed + first;
    long long entered = now(CLOCK_MONOTONIC), spun = now(CLOCK_THREAD_CPUTIME_ID);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("%d %d %lld %lld %lld\n", rank, getpid(), computed, now(CLOCK_MONOTONIC) - entered,
           now(CLOCK_THREAD_CPUTIME_ID) - spun);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
