/*
 * Two threads that compute, write durably and meet, in rounds: `in_step FOLDER ROUNDS LOOPS`. All computing is in one line, so that Coz can ask what
 * it would bring if that line took less time; with COZ, each round is progress.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef COZ
#include <coz.h>
#else
#define COZ_PROGRESS
#endif

static const char *folder;
static int rounds, loops;
static pthread_barrier_t barrier;
static volatile double sink;

static void *run(void *number) {
    long me = (long)number;
    char path[4096], block[4096] = {0};
    snprintf(path, sizeof path, "%s/%ld", folder, me);
    int fd = open(path, O_CREAT | O_WRONLY | O_DSYNC, 0644);
    for (int round = 0; round < rounds; round++) {
        double x = 1;
        for (int at = 0; at < loops; at++) x = x * 1.0000001 + 0.5;
        sink = x;
        if (pwrite(fd, block, sizeof block, 0) != sizeof block) abort();
        pthread_barrier_wait(&barrier);
        if (me == 0) {
            COZ_PROGRESS;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    folder = argv[1], rounds = atoi(argv[2]), loops = atoi(argv[3]);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t threads[2];
    for (long at = 0; at < 2; at++) pthread_create(&threads[at], NULL, run, (void *)at);
    for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
    return 0;
}
