/*
 * Threads and processes that hand work to each other and write durably: `workers KIND COUNT BYTES DIRECTORY`.
 *
 * | KIND | what it does |
 * |---|---|
 * | queue | two producers log each item, then put it into a queue with room for four; two consumers take items, compute, and write them |
 * | table | four threads change a table that one at a time may change, and log it to files of their own |
 * | rpc | a server with a thread for each of three clients logs their requests, one at a time, and answers; the clients, processes of their own, compute in between |
 *
 * Writes are durable (O_DSYNC), into blocks that the files have already. COMPUTE=F in the environment multiplies all computing, HELD=F
 * what is computed with the table's lock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 4, WORKERS = 2, CLIENTS = 3 };
static int count;
static size_t bytes;
static const char *directory;
static char *block;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double factor(const char *variable) {
    const char *text = getenv(variable);
    return text ? atof(text) : 1.0;
}

static double all, held;

static void compute(double ms) {
    struct timespec start, now;
    ms *= all;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < ms);
}

static void put(int fd, long at) {
    if (pwrite(fd, block, bytes, at * (long)bytes) != (ssize_t)bytes) fail("pwrite");
}

/* A file of so many blocks, to be written durably. */
static int file(const char *name, int number, int blocks) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d", directory, name, number);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) fail(path);
    for (int at = 0; at < blocks; at++) put(fd, at);
    if (fsync(fd) || close(fd)) fail(path);
    fd = open(path, O_WRONLY | O_DSYNC);
    if (fd < 0) fail(path);
    return fd;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int queued, producers = WORKERS;

static void *produce(void *number) {
    int fd = file("log", (int)(long)number, count);
    for (int at = 0; at < count; at++) {
        compute(0.2);
        put(fd, at);
        pthread_mutex_lock(&mutex);
        while (queued == ROOM) pthread_cond_wait(&emptied, &mutex);
        queued++;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
    }
    pthread_mutex_lock(&mutex);
    producers--;
    pthread_cond_broadcast(&filled);
    pthread_mutex_unlock(&mutex);
    close(fd);
    return NULL;
}

static void *consume(void *number) {
    int fd = file("items", (int)(long)number, WORKERS * count);
    for (int at = 0;; at++) {
        pthread_mutex_lock(&mutex);
        while (!queued && producers) pthread_cond_wait(&filled, &mutex);
        int is_over = !queued;
        queued -= !is_over;
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&mutex);
        if (is_over) break;
        compute(1.0);
        put(fd, at);
    }
    close(fd);
    return NULL;
}

static void run_queue(void) {
    pthread_t threads[2 * WORKERS];
    for (long at = 0; at < WORKERS; at++) {
        pthread_create(&threads[2 * at], NULL, produce, (void *)at);
        pthread_create(&threads[2 * at + 1], NULL, consume, (void *)at);
    }
    for (int at = 0; at < 2 * WORKERS; at++) pthread_join(threads[at], NULL);
}

static void *change(void *number) {
    int fd = file("log", (int)(long)number, count);
    for (int at = 0; at < count; at++) {
        compute(0.3);
        pthread_mutex_lock(&mutex);
        compute(0.8 * held);
        pthread_mutex_unlock(&mutex);
        put(fd, at);
    }
    close(fd);
    return NULL;
}

static void run_table(void) {
    pthread_t threads[2 * WORKERS];
    for (long at = 0; at < 2 * WORKERS; at++) pthread_create(&threads[at], NULL, change, (void *)at);
    for (int at = 0; at < 2 * WORKERS; at++) pthread_join(threads[at], NULL);
}

static int logged, log_fd;

static void *serve(void *connection) {
    int fd = (int)(long)connection;
    char byte;
    while (read(fd, &byte, 1) == 1) {
        pthread_mutex_lock(&mutex);
        put(log_fd, logged++);
        pthread_mutex_unlock(&mutex);
        if (write(fd, &byte, 1) != 1) fail("answer");
    }
    close(fd);
    return NULL;
}

static void ask(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address)) fail("connect");
    for (int at = 0; at < count; at++) {
        char byte = 0;
        compute(0.5);
        if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1) fail("request");
    }
    close(fd);
}

static void run_rpc(void) {
    pthread_t threads[CLIENTS];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "workers-%d", getpid());
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, CLIENTS)) fail("listen");
    log_fd = file("log", 0, CLIENTS * count);
    for (int at = 0; at < CLIENTS; at++) {
        if (!fork()) {
            close(listening);
            ask(&address);
            exit(0);
        }
    }
    for (int at = 0; at < CLIENTS; at++) {
        long fd = accept(listening, NULL, NULL);
        if (fd < 0 || pthread_create(&threads[at], NULL, serve, (void *)fd)) fail("accept");
    }
    for (int at = 0; at < CLIENTS; at++) pthread_join(threads[at], NULL);
    while (wait(NULL) > 0) {}
    close(log_fd);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } kinds[] = {{"queue", run_queue}, {"table", run_table}, {"rpc", run_rpc}};
    void (*run)(void) = NULL;
    for (size_t at = 0; argc == 5 && at < sizeof kinds / sizeof *kinds; at++)
        if (!strcmp(argv[1], kinds[at].name)) run = kinds[at].run;
    if (!run) {
        fprintf(stderr, "usage: workers queue|table|rpc COUNT BYTES DIRECTORY\n");
        return 2;
    }
    count = atoi(argv[2]);
    bytes = (size_t)atol(argv[3]);
    directory = argv[4];
    block = calloc(1, bytes);
    if (!block) fail("memory");
    all = factor("COMPUTE");
    held = factor("HELD");
    run();
    return 0;
}
