/* Workers that wait for each other without a call that shows it, and log it: unseen PATTERN MEDIUM WORKERS ROUNDS DIR LOG [ODD]
 *
 * PATTERN: pingpong (two take turns), chain (each after the one before it), barrier (all after each round), none.
 * MEDIUM:  flag (threads spin on memory), mapping (processes spin on a shared mapping), file (processes poll for files with access()),
 *          open (as file, with open()).
 * ODD:     what goes wrong in runs after the first: stray (another number of writes), fail (status 3), hang; a file in DIR counts runs.
 *
 * A line of LOG: thread that gave, operations it had done by then, thread that took, operations it had done; of one length, so that runs
 * write as much. Later ones write LOG.later.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, ROUNDS = 512 };

struct given { atomic_int is; int tid, ops; };
struct taken { int giver, given, taker, ops; };
static struct shared {
    struct given flags[ROUNDS][MOST];
    atomic_int count;
    struct taken taken[ROUNDS * MOST * MOST];
} *shared;

static const char *pattern, *medium, *dir, *odd = "";
static int workers, rounds, is_later;
static _Thread_local int ops;

static int by_files(void) { return !strcmp(medium, "file") || !strcmp(medium, "open"); }

static void path_of(char *path, int round, int worker) { snprintf(path, 256, "%s/given-%d-%d", dir, round, worker); }

static void compute(long us)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

static void give(int round, int worker)
{
    struct given *flag = &shared->flags[round][worker];
    flag->tid = gettid();
    if (by_files()) {
        char path[256];
        path_of(path, round, worker);
        flag->ops = ops + 1;
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        ops++;
        close(fd);
        ops++;
    } else {
        flag->ops = ops;
        atomic_store(&flag->is, 1);
    }
}

static void take(int round, int worker)
{
    struct given *flag = &shared->flags[round][worker];
    int before = ops;
    if (by_files()) {
        char path[256];
        path_of(path, round, worker);
        if (!strcmp(medium, "open")) {
            int fd;
            while ((fd = open(path, O_RDONLY)) < 0)
                usleep(200);
            ops++;
            close(fd);
            ops++;
        } else {
            while (access(path, F_OK))
                usleep(200);
        }
    } else {
        while (!atomic_load(&flag->is))
            ;
    }
    shared->taken[atomic_fetch_add(&shared->count, 1)] = (struct taken){flag->tid, flag->ops, gettid(), before};
}

static void *work(void *argument)
{
    int me = (int)(long)argument;
    char path[256], data[512] = {0};
    snprintf(path, sizeof path, "%s/data-%d", dir, me);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ops++;
    for (int round = 0; round < rounds; round++) {
        int turn = !strcmp(pattern, "pingpong");
        if (turn && (me == 1 || round > 0))
            take(me == 1 ? round : round - 1, !me);
        if (!strcmp(pattern, "chain") && me > 0)
            take(round, me - 1);
        compute(100 + 50 * me);
        int writes = 1 + (is_later && me == 1 && round == 3 && !strcmp(odd, "stray"));
        for (int n = 0; n < writes; n++) {
            if (pwrite(fd, data, sizeof data, round * sizeof data) != sizeof data)
                abort();
            ops++;
        }
        if (turn || (!strcmp(pattern, "chain") && me < workers - 1) || !strcmp(pattern, "barrier"))
            give(round, me);
        if (!strcmp(pattern, "barrier"))
            for (int other = 0; other < workers; other++)
                if (other != me)
                    take(round, other);
        if (is_later && round == rounds / 2 && !strcmp(odd, "hang"))
            for (;;)
                pause();
    }
    close(fd);
    ops++;
    return NULL;
}

int main(int count, char **words)
{
    if (count < 7)
        return 2;
    pattern = words[1], medium = words[2], workers = atoi(words[3]), rounds = atoi(words[4]), dir = words[5];
    if (count > 7)
        odd = words[7];
    if (workers > MOST || rounds > ROUNDS)
        return 2;
    char path[256];
    snprintf(path, sizeof path, "%s/ran", dir);
    is_later = access(path, F_OK) == 0;
    close(open(path, O_CREAT | O_WRONLY, 0600));
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(medium, "flag")) {
        pthread_t threads[MOST];
        for (long worker = 0; worker < workers; worker++)
            pthread_create(&threads[worker], NULL, work, (void *)worker);
        for (int worker = 0; worker < workers; worker++)
            pthread_join(threads[worker], NULL);
    } else {
        for (long worker = 0; worker < workers; worker++)
            if (fork() == 0) {
                work((void *)worker);
                exit(0);
            }
        while (wait(NULL) > 0)
            ;
    }
    // as many operations in each run
    for (int round = 0; round < rounds; round++)
        for (int worker = 0; worker < workers; worker++) {
            path_of(path, round, worker);
            if (!access(path, F_OK) && unlink(path))
                return 4;
        }
    snprintf(path, sizeof path, "%s%s", words[6], is_later ? ".later" : "");
    FILE *log = fopen(path, "w");
    for (int at = 0; at < atomic_load(&shared->count); at++) {
        struct taken *one = &shared->taken[at];
        fprintf(log, "%10d %10d %10d %10d\n", one->giver, one->given, one->taker, one->ops);
    }
    fclose(log);
    return is_later && !strcmp(odd, "fail") ? 3 : 0;
}
