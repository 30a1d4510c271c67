/*
 * Threads that write durably, one after the other or in step: `turns HOW THREADS WRITES DIRECTORY`.
 *
 * HOW: turns (each begins when the one before it has written all), rounds (one of them writes, then all meet, and it is the next
 * one's turn), shared (all write at once and share a lock meanwhile, one of them once more and has it alone, then all meet), one (all write the
 * same block, one at a time by a mutex, and never meet). Each writes 4 KiB
 * blocks of a file of its own with O_DSYNC, and computes before each. The files have their blocks before: how many requests a file
 * system needs to allocate one differs from run to run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16 };
static int in_turns, shared, one, threads, writes;
static const char *directory;
static sem_t turn[MOST + 1];
static pthread_barrier_t barrier;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void compute(double ms) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < ms);
}

static void *run(void *rank) {
    long me = (long)rank;
    char path[4096], block[4096];
    memset(block, 1, sizeof block);
    snprintf(path, sizeof path, "%s/%ld", directory, me);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) abort();
    for (int at = 0; at < writes; at++)
        if (pwrite(fd, block, sizeof block, at * 4096L) != sizeof block) abort();
    if (fsync(fd) || close(fd)) abort();
    if (one) pthread_barrier_wait(&barrier);
    if (one) snprintf(path, sizeof path, "%s/0", directory);
    fd = open(path, O_WRONLY | O_DSYNC);
    if (fd < 0) abort();
    if (in_turns) while (sem_wait(&turn[me])) {}
    for (int at = 0; one && at < writes; at++) {
        compute(0.05 + 0.05 * ((at * 7 + me * 3) % 10));
        pthread_mutex_lock(&mutex);
        if (pwrite(fd, block, sizeof block, 0) != sizeof block) abort();
        pthread_mutex_unlock(&mutex);
    }
    for (int at = 0; !one && at < writes; at++) {
        int mine = in_turns || shared || at % threads == me;
        compute(mine ? 0.3 : 0.05);
        if (shared) pthread_rwlock_rdlock(&lock);
        if (mine && pwrite(fd, block, sizeof block, at * 4096L) != sizeof block) abort();
        if (shared) pthread_rwlock_unlock(&lock);
        if (shared && at % threads == me) {
            pthread_rwlock_wrlock(&lock);
            if (pwrite(fd, block, sizeof block, at * 4096L) != sizeof block) abort();
            pthread_rwlock_unlock(&lock);
        }
        if (!in_turns) pthread_barrier_wait(&barrier);
    }
    if (in_turns) sem_post(&turn[me + 1]);
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    in_turns = !strcmp(argv[1], "turns");
    shared = !strcmp(argv[1], "shared");
    one = !strcmp(argv[1], "one");
    threads = atoi(argv[2]);
    writes = atoi(argv[3]);
    directory = argv[4];
    if (threads < 1 || threads > MOST) return 2;
    pthread_t started[MOST];
    for (int at = 0; at <= threads; at++) sem_init(&turn[at], 0, at == 0);
    pthread_barrier_init(&barrier, NULL, threads);
    for (long at = 0; at < threads; at++) pthread_create(&started[at], NULL, run, (void *)at);
    for (int at = 0; at < threads; at++) pthread_join(started[at], NULL);
    return 0;
}
