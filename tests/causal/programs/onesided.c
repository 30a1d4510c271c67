/*
 * Ranks that wait for each other's windows: `onesided HOW ROUNDS LOG [MS]`, and log it (log.h).
 *
 * | HOW | each round |
 * |---|---|
 * | quiet | each rank lets all others access its window, accesses theirs, and waits until they have ended that |
 * | test | the same, with MPI_Win_test again and again |
 * | post | as quiet; one rank, in turn, sleeps 60 ms before it lets the others access its window |
 * | complete | as quiet; one rank, in turn, sleeps 60 ms before it ends its accesses, which are none: some implementations would wait for it to take part |
 * | ring | all meet; then each rank lets the last one access its window, and accesses that of the next one; one, in turn, sleeps 60 ms before |
 * | exclusive, shared | each rank but the first computes 0.5 ms, then MS with the lock of the first one's window |
 *
 * Numbers in the log are of what is waited for: (2 * round + 0 or 1) * ranks + rank that waits, 0 until it is let, 1 until others have ended.
 */
#include <fcntl.h>
#include <mpi.h>

#include "log.h"

enum { SLEEP = 60000 };
static int me, size, with_test, with_data;
static MPI_Win window;

static void compute(double ms) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < ms);
}

/* A line for each rank of a group, or for this one. */
static void note_each(char what, int round, int ends, const int *ranks, int count, long before, long after) {
    for (int i = 0; i < count; i++) note(what, (2 * round + ends) * size + ranks[i], before, after);
}

/* Lets `origins` access the window, and accesses those of `targets`. */
static void exchange(int round, const int *origins, int from, const int *targets, int to, int before_post, int before_complete) {
    int flag = 0, last = size > 1 ? targets[to - 1] : 0;
    MPI_Group all, these, those;
    MPI_Win_get_group(window, &all);
    MPI_Group_incl(all, from, origins, &these);
    MPI_Group_incl(all, to, targets, &those);
    if (before_post) usleep(SLEEP);
    long posting = now();
    MPI_Win_post(these, 0, window);
    long posted = now();
    MPI_Win_start(those, 0, window);
    if (with_data) MPI_Put(&me, 1, MPI_INT, last, me, 1, MPI_INT, window);
    if (before_complete) usleep(SLEEP);
    long completing = now();
    MPI_Win_complete(window);
    long completed = now();
    if (with_test) do MPI_Win_test(window, &flag);
        while (!flag);
    else MPI_Win_wait(window);
    long waited = now();
    note_each('G', round, 0, origins, from, posting, posted);
    note_each('T', round, 0, &me, 1, posted, completed);
    note_each('G', round, 1, targets, to, completing, completed);
    note_each('T', round, 1, &me, 1, completed, waited);
    MPI_Group_free(&all), MPI_Group_free(&these), MPI_Group_free(&those);
}

static void take_turns(const char *how, int rounds) {
    int others[64], count = 0, next = (me + 1) % size, last = (me + size - 1) % size;
    for (int rank = 0; rank < size; rank++)
        if (rank != me) others[count++] = rank;
    for (int round = 0; round < rounds; round++) {
        int late = round % size == me;
        if (!strcmp(how, "ring")) MPI_Barrier(MPI_COMM_WORLD), exchange(round, &last, 1, &next, 1, late, 0);
        else exchange(round, others, count, others, count, late && !strcmp(how, "post"), late && !strcmp(how, "complete"));
    }
}

static void lock(int kind, int rounds, double ms) {
    for (int round = 0; round < rounds && me; round++) {
        compute(0.5);
        MPI_Win_lock(kind, 0, 0, window);
        MPI_Put(&me, 1, MPI_INT, 0, me, 1, MPI_INT, window);
        MPI_Win_flush(0, window);
        compute(ms);
        MPI_Win_unlock(0, window);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 2);
    fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0644);
    int *memory, rounds = atoi(argv[2]);
    MPI_Win_allocate(64 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    with_test = !strcmp(argv[1], "test");
    with_data = strcmp(argv[1], "complete");
    if (!strcmp(argv[1], "exclusive")) lock(MPI_LOCK_EXCLUSIVE, rounds, atof(argv[4]));
    else if (!strcmp(argv[1], "shared")) lock(MPI_LOCK_SHARED, rounds, atof(argv[4]));
    else take_turns(argv[1], rounds);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
