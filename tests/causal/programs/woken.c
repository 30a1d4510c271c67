/*
 * Lets a thread or process that sleeps go on by what only the kernel shows, and logs it itself: `woken HOW COUNT LOG`.
 *
 * HOW: signal (another thread), kill (another process), queue (POSIX messages), messages (System V), datagram (a pair of UNIX sockets),
 * futex (by syscall()), shared (a semaphore of two processes); alone (two threads that wait for timers and each for a file of its own).
 * Lines of LOG as of handover.c. Who gives waits until the other sleeps.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

/* What both know. */
static struct shared {
    volatile int waits; /* for this number, from 1 */
    volatile int taker;
    int word;
    sem_t semaphore;
} *shared;
static int count, id, pair[2], is_process;
static mqd_t queue;
static pthread_t thread;
static const char *how;

struct message {
    long type;
    char byte;
};

static void take(void) {
    char bytes[16];
    struct message message;
    sigset_t set;
    int signal;
    if (!strcmp(how, "signal") || !strcmp(how, "kill")) {
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        if (sigwait(&set, &signal)) abort();
    } else if (!strcmp(how, "queue")) {
        if (mq_receive(queue, bytes, sizeof bytes, NULL) != 1) abort();
    } else if (!strcmp(how, "messages")) {
        if (msgrcv(id, &message, 1, 0, 0) != 1) abort();
    } else if (!strcmp(how, "datagram")) {
        if (recv(pair[0], bytes, sizeof bytes, 0) != 1) abort();
    } else if (!strcmp(how, "futex")) {
        while (!__atomic_exchange_n(&shared->word, 0, __ATOMIC_SEQ_CST))
            syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, NULL, NULL, 0);
    } else {
        while (sem_wait(&shared->semaphore)) {}
    }
}

static void give(void) {
    struct message message = {1, 'x'};
    if (!strcmp(how, "signal")) {
        pthread_kill(thread, SIGUSR1);
    } else if (!strcmp(how, "kill")) {
        kill(shared->taker, SIGUSR1);
    } else if (!strcmp(how, "queue")) {
        if (mq_send(queue, "x", 1, 0)) abort();
    } else if (!strcmp(how, "messages")) {
        if (msgsnd(id, &message, 1, 0)) abort();
    } else if (!strcmp(how, "datagram")) {
        if (send(pair[1], "x", 1, 0) != 1) abort();
    } else if (!strcmp(how, "futex")) {
        __atomic_store_n(&shared->word, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0);
    } else {
        sem_post(&shared->semaphore);
    }
}

static void *take_all(void *unused) {
    shared->taker = gettid();
    for (int at = 0; at < count; at++) {
        shared->waits = at + 1;
        long before = now();
        take();
        note('T', at, before, now());
    }
    return unused;
}

static void give_all(void) {
    for (int at = 0; at < count; at++) {
        while (shared->waits != at + 1 || !sleeps(shared->taker)) usleep(200);
        long before = now();
        give();
        note('G', at, before, now());
    }
}

/* Writes a file of its own: the kernel has a lock of each, which those who write it wait for. */
static void *work_alone(void *path) {
    struct timespec time = {0, 300000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int own = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (own < 0) abort();
    for (int at = 0; at < count; at++) {
        sigtimedwait(&set, NULL, &time);
        usleep(100);
        if (write(own, "N\n", 2) != 2) abort();
        fdatasync(own);
    }
    return path;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    how = argv[1];
    count = atoi(argv[2]);
    fd = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (fd < 0) return 1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&shared->semaphore, 1, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    char name[64];
    snprintf(name, sizeof name, "/iotrail-woken-%d", getpid());
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 16};
    queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
    mq_unlink(name);
    id = msgget(IPC_PRIVATE, 0600);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 1;
    if (!strcmp(how, "alone")) {
        char other[4096];
        snprintf(other, sizeof other, "%s.other", argv[3]);
        pthread_create(&thread, NULL, work_alone, other);
        work_alone(argv[3]);
        pthread_join(thread, NULL);
    } else if (!strcmp(how, "signal") || !strcmp(how, "queue") || !strcmp(how, "datagram") || !strcmp(how, "futex")) {
        pthread_create(&thread, NULL, take_all, NULL);
        give_all();
        pthread_join(thread, NULL);
    } else {
        is_process = fork();
        if (!is_process) {
            take_all(NULL);
            return 0;
        }
        give_all();
        waitpid(is_process, NULL, 0);
    }
    msgctl(id, IPC_RMID, NULL);
    return 0;
}
