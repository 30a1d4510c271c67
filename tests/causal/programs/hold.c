/*
 * Four threads that meet after each round: `hold HOW ROUNDS FILE`.
 *
 * HOW: alike (all compute 1 ms), compute (one of them computes 4 ms more), io (one of them also writes FILE, durably, 20 times),
 * lock (no meeting: one of them holds a mutex meanwhile, the others hold it for next to nothing).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, SLOW = 2 };
static int rounds, file;
static const char *how;
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void compute(double ms) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < ms);
}

static void put(void) {
    char block[4096] = {0};
    for (int at = 0; at < 20; at++)
        if (pwrite(file, block, sizeof block, at * 4096L) != sizeof block) abort();
}

static void *run(void *number) {
    int slow = (long)number == SLOW;
    for (int at = 0; at < rounds; at++) {
        compute(1);
        if (!strcmp(how, "lock")) {
            pthread_mutex_lock(&mutex);
            if (slow) put();
            else compute(0.02);
            pthread_mutex_unlock(&mutex);
            continue;
        }
        if (slow && !strcmp(how, "compute")) compute(4);
        if (slow && !strcmp(how, "io")) put();
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    how = argv[1];
    rounds = atoi(argv[2]);
    file = open(argv[3], O_WRONLY | O_CREAT | O_DSYNC, 0644);
    if (file < 0) return 1;
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t threads[THREADS];
    for (long at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, run, (void *)at);
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    return 0;
}
