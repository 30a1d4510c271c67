/*
 * Hands things over between threads or processes, and logs each hand-over itself: `handover HOW COUNT LOG`.
 *
 * HOW: ahead, behind (semaphores; the giver, or the taker, is slower), condition (the taker waits each time), barrier (three threads),
 * pipe (two processes), join (each thread is waited for and starts the next).
 * Lines of LOG, times of CLOCK_MONOTONIC in ns:
 *   G number tid before after    gave: just before, and when the call had returned
 *   T number tid before after    took: just before the call that waited, and when it had returned
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int count, fd;
static sem_t full;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, taken = PTHREAD_COND_INITIALIZER;
static int held, waits;
static pthread_barrier_t barrier;
static int giver_us, taker_us;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void note(char what, int number, long before, long after) {
    char line[128];
    int length = snprintf(line, sizeof line, "%c %d %d %ld %ld\n", what, number, gettid(), before, after);
    if (write(fd, line, length) != length) abort();
}

static void rest(int us) {
    long end = now() + us * 1000L;
    while (now() < end) {}
}

static void *take_semaphores(void *unused) {
    for (int at = 0; at < count; at++) {
        rest(taker_us);
        long before = now();
        while (sem_wait(&full)) {}
        note('T', at, before, now());
    }
    return unused;
}

static void give_semaphores(void) {
    pthread_t taker;
    sem_init(&full, 0, 0);
    pthread_create(&taker, NULL, take_semaphores, NULL);
    for (int at = 0; at < count; at++) {
        rest(giver_us);
        long before = now();
        sem_post(&full);
        note('G', at, before, now());
    }
    pthread_join(taker, NULL);
}

static void *take_conditions(void *unused) {
    for (int at = 0; at < count; at++) {
        long before = now();
        pthread_mutex_lock(&mutex);
        waits = 1;
        while (!held) pthread_cond_wait(&filled, &mutex);
        held = 0;
        waits = 0;
        pthread_mutex_unlock(&mutex);
        note('T', at, before, now());
    }
    return unused;
}

static void give_conditions(void) {
    pthread_t taker;
    pthread_create(&taker, NULL, take_conditions, NULL);
    for (int at = 0; at < count; at++) {
        for (;;) {
            pthread_mutex_lock(&mutex);
            if (waits && !held) break;
            pthread_mutex_unlock(&mutex);
            usleep(50);
        }
        held = 1;
        long before = now();
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
        note('G', at, before, now());
    }
    pthread_join(taker, NULL);
}

static void *meet(void *rank) {
    for (int at = 0; at < count; at++) {
        rest(((long)rank * 7 + at * 13) % 5 * 100);
        long before = now();
        pthread_barrier_wait(&barrier);
        long after = now();
        note('G', at, before, after);
        note('T', at, before, after);
    }
    return NULL;
}

static void pass_barriers(void) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 3);
    for (long at = 0; at < 2; at++) pthread_create(&threads[at], NULL, meet, (void *)(at + 1));
    meet(NULL);
    for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
}

static void write_pipes(void) {
    int ends[2], number;
    if (pipe(ends)) abort();
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        for (;;) {
            long before = now();
            ssize_t got = read(ends[0], &number, sizeof number);
            if (got != sizeof number) break;
            note('T', number, before, now());
            rest(number % 3 * 100);
        }
        _exit(0);
    }
    close(ends[0]);
    for (number = 0; number < count; number++) {
        rest(number % 5 * 60);
        long before = now();
        if (write(ends[1], &number, sizeof number) != sizeof number) abort();
        note('G', number, before, now());
    }
    close(ends[1]);
    waitpid(child, NULL, 0);
}

static long created;

static void *run(void *number) {
    note('T', 2 * (int)(long)number, created, now());
    rest(100);
    /* its end, soon after, lets who joins it go on */
    note('G', 2 * (int)(long)number + 1, now(), now() + 10000000);
    return NULL;
}

static void join_threads(void) {
    for (long at = 0; at < count; at++) {
        pthread_t thread;
        long before = created = now();
        pthread_create(&thread, NULL, run, (void *)at);
        note('G', 2 * at, before, now());
        before = now();
        pthread_join(thread, NULL);
        note('T', 2 * at + 1, before, now());
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    count = atoi(argv[2]);
    fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (!strcmp(argv[1], "ahead")) taker_us = 200, give_semaphores();
    else if (!strcmp(argv[1], "behind")) giver_us = 200, give_semaphores();
    else if (!strcmp(argv[1], "condition")) give_conditions();
    else if (!strcmp(argv[1], "barrier")) pass_barriers();
    else if (!strcmp(argv[1], "pipe")) write_pipes();
    else if (!strcmp(argv[1], "join")) join_threads();
    else return 2;
    return 0;
}
