/*
 * Three threads that compute with a lock: `locked MS ROUNDS HOW FILE`. Each computes 0.2 ms without it, then MS with it.
 *
 * HOW: mutex; semaphore (that lets one pass); flock, lockf (three processes, which lock FILE; the second gives the lock back by closing it);
 * part, apart (parts of FILE, which have bytes in common, or none); try (again and again until it has the lock).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3 };
static double with_mutex;
static int rounds;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;

static void compute(double ms) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < ms);
}

static void *run(void *with_semaphore) {
    for (int at = 0; at < rounds; at++) {
        compute(0.2);
        if (!with_semaphore) pthread_mutex_lock(&mutex);
        else while (sem_wait(&semaphore)) {}
        compute(with_mutex);
        if (!with_semaphore) pthread_mutex_unlock(&mutex);
        else sem_post(&semaphore);
    }
    return NULL;
}

/* The process of a number has bytes 8 to 11 in common with the others, or none. */
static int lock_part(int fd, int number, const char *how, int kind) {
    struct flock part = {.l_type = kind, .l_whence = SEEK_SET, .l_start = 8 - 4 * number, .l_len = 4 + 4 * number};
    if (!strcmp(how, "apart")) part.l_start = 16 * number;
    if (strcmp(how, "try")) return fcntl(fd, F_SETLKW, &part);
    /* so long that no try comes about when another one gives it back: who comes first would be a matter of microseconds */
    while (fcntl(fd, F_SETLK, &part)) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    return 0;
}

static void run_parts(const char *how, const char *path, int number) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    for (int at = 0; at < rounds; at++) {
        compute(0.2);
        if (lock_part(fd, number, how, F_WRLCK)) abort();
        compute(with_mutex);
        if (lock_part(fd, number, how, F_UNLCK)) abort();
    }
    _exit(0);
}

static void run_process(const char *how, const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    for (int at = 0; at < rounds; at++) {
        compute(0.2);
        if (fd < 0) fd = open(path, O_RDWR);
        if (strcmp(how, "flock") ? lockf(fd, F_LOCK, 0) : flock(fd, LOCK_EX)) abort();
        compute(with_mutex);
        if (strcmp(how, "flock")) {
            close(fd);
            fd = -1;
        } else if (flock(fd, LOCK_UN)) abort();
    }
    _exit(0);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    with_mutex = atof(argv[1]);
    rounds = atoi(argv[2]);
    int in_parts = !strcmp(argv[3], "part") || !strcmp(argv[3], "apart") || !strcmp(argv[3], "try");
    int in_files = in_parts || !strcmp(argv[3], "flock") || !strcmp(argv[3], "lockf");
    void *with_semaphore = strcmp(argv[3], "semaphore") ? NULL : &semaphore;
    sem_init(&semaphore, 0, 1);
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) {
        if (!in_files) pthread_create(&threads[at], NULL, run, with_semaphore);
        else if (fork() == 0) in_parts ? run_parts(argv[3], argv[4], at) : run_process(argv[3], argv[4]);
    }
    for (int at = 0; at < THREADS; at++) {
        if (!in_files) pthread_join(threads[at], NULL);
        else wait(NULL);
    }
    return 0;
}
