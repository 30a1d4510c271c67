/*
 * Three threads that compute with a mutex: `locked MS ROUNDS`. Each computes 0.2 ms without it, then MS with it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 3 };
static double with_mutex;
static int rounds;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void compute(double ms) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < ms);
}

static void *run(void *unused) {
    for (int at = 0; at < rounds; at++) {
        compute(0.2);
        pthread_mutex_lock(&mutex);
        compute(with_mutex);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    with_mutex = atof(argv[1]);
    rounds = atoi(argv[2]);
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, run, NULL);
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    return 0;
}
