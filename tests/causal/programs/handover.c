/*
 * Hands things over between threads or processes, and logs each hand-over itself: `handover HOW COUNT LOG`.
 *
 * HOW: ahead, behind (semaphores; the giver, or the taker, is slower), condition (the taker waits each time), barrier (three threads),
 * pipe, poll, pair, unix, tcp, event, counter (two processes; a pipe, one that is polled first, sockets, event counters), join (each thread is waited for and starts the next),
 * shared, meeting (processes; a semaphore, a barrier), signalfd, sigwait, sigwaitinfo, latch (processes; signals that are read, or waited for, or whose handler sends the one that is read).
 * Lines of LOG, times of CLOCK_MONOTONIC in ns:
 *   G number tid before after    gave: just before, and when the call had returned
 *   T number tid before after    took: just before the call that waited, and when it had returned
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

static int count;
static sem_t full;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int held, waits;
static pthread_barrier_t barrier;
static int giver_us, taker_us;

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

/* The ends of a channel, and whether who takes looks first whether something is there. */
static int give_end, take_end, polls, is_event;

static void wait_for_something(void) {
    if (polls == 1) {
        struct pollfd one = {.fd = take_end, .events = POLLIN};
        while (poll(&one, 1, -1) != 1) {}
    } else if (polls == 2) {
        static int set;
        struct epoll_event event = {.events = EPOLLIN};
        if (!set) {
            set = epoll_create1(0);
            epoll_ctl(set, EPOLL_CTL_ADD, take_end, &event);
        }
        while (epoll_wait(set, &event, 1, -1) != 1) {}
    }
}

static void take(void) {
    int next = 0;
    for (;;) {
        unsigned long value;
        int number;
        long before = now();
        wait_for_something();
        ssize_t got = is_event ? read(take_end, &value, sizeof value) : read(take_end, &number, sizeof number);
        if (got <= 0) break;
        long after = now();
        if (!is_event) note('T', number, before, after);
        /* an event counter says how many */
        for (unsigned long at = 0; is_event && at < value; at++) note('T', next++, before, after);
        if (is_event && next == count) break;
        rest(next % 3 * 100);
    }
}

static void give(void) {
    for (int number = 0; number < count; number++) {
        rest(number % 5 * 60);
        unsigned long one = 1;
        long before = now();
        if (is_event) {
            if (write(give_end, &one, sizeof one) != sizeof one) abort();
        } else if (write(give_end, &number, sizeof number) != sizeof number) abort();
        note('G', number, before, now());
    }
    close(give_end);
}

/* From a process to its child. */
static void pass(void) {
    pid_t child = fork();
    if (child == 0) {
        if (give_end != take_end) close(give_end);
        take();
        _exit(0);
    }
    if (give_end != take_end) close(take_end);
    give();
    waitpid(child, NULL, 0);
}

static void pass_pipe(void) {
    int ends[2];
    if (pipe(ends)) abort();
    take_end = ends[0], give_end = ends[1];
    pass();
}

static void pass_pair(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) abort();
    take_end = ends[0], give_end = ends[1];
    pass();
}

static void pass_event(int flags) {
    is_event = 1;
    give_end = take_end = eventfd(0, flags);
    pass();
}

/* A process takes what another one, which connects, gives. */
static void pass_connection(int domain) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in internet = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *address = domain == AF_UNIX ? (struct sockaddr *)&local : (struct sockaddr *)&internet;
    socklen_t length = domain == AF_UNIX ? sizeof local : sizeof internet;
    snprintf(local.sun_path + 1, sizeof local.sun_path - 1, "handover.%d", getpid());
    int listener = socket(domain, SOCK_STREAM, 0);
    if (bind(listener, address, length) || listen(listener, 5) || getsockname(listener, address, &length)) abort();
    pid_t child = fork();
    if (child == 0) {
        close(listener);
        rest(2000);
        give_end = socket(domain, SOCK_STREAM | (domain == AF_UNIX ? 0 : SOCK_NONBLOCK), 0);
        long before = now();
        if (connect(give_end, address, length) && errno != EINPROGRESS) abort();
        note('G', -1, before, now());
        struct pollfd one = {.fd = give_end, .events = POLLOUT};
        while (poll(&one, 1, -1) != 1) {}
        give();
        _exit(0);
    }
    long before = now();
    take_end = accept(listener, NULL, NULL);
    note('T', -1, before, now());
    take();
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

/* What processes share. */
static struct shared {
    sem_t full;
    pthread_barrier_t barrier;
    volatile int taken;
} *shared;

static void pass_shared(void) {
    sem_init(&shared->full, 1, 0);
    pid_t child = fork();
    for (int at = 0; at < count; at++) {
        /* now the one is ahead, now the other */
        rest((child == 0) == (at / 8 % 2) ? 200 : 20);
        long before = now();
        if (child) sem_post(&shared->full);
        else if (at % 3 || sem_trywait(&shared->full)) while (sem_wait(&shared->full)) {}
        note(child ? 'G' : 'T', at, before, now());
    }
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
}

static void meet_processes(void) {
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, 3);
    long rank = fork() ? fork() ? 0 : 1 : 2;
    for (int at = 0; at < count; at++) {
        rest((rank * 7 + at * 13) % 5 * 100);
        long before = now();
        pthread_barrier_wait(&shared->barrier);
        long after = now();
        note('G', at, before, after);
        note('T', at, before, after);
    }
    if (rank) _exit(0);
    for (int at = 0; at < 2; at++) wait(NULL);
}

static void send_own(int unused) {
    (void)unused;
    kill(getpid(), SIGURG);
}

/* Signals from a process to its child, each after the one before it was taken; `how` is s (sigwait), i (sigwaitinfo), f (signalfd), l (the same by a handler). */
static void pass_signals(char how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR1, send_own);
    pid_t child = fork();
    if (child == 0) {
        struct signalfd_siginfo of[8];
        siginfo_t information;
        int number;
        take_end = signalfd(-1, &set, SFD_NONBLOCK);
        for (int at = 0; at < count; at++) {
            rest(at / 8 % 2 ? 300 : 0);
            long before = now();
            if (how == 's') sigwait(&set, &number);
            else if (how == 'i') while (sigwaitinfo(&set, &information) < 0) {}
            else {
                struct pollfd one = {.fd = take_end, .events = POLLIN};
                while (poll(&one, 1, -1) != 1) {}
                while (read(take_end, of, sizeof of) == sizeof of) {}
            }
            note('T', at, before, now());
            shared->taken = at + 1;
        }
        _exit(0);
    }
    for (int at = 0; at < count; at++) {
        rest(at / 8 % 2 ? 0 : 300);
        /* a handler is told by the call that it interrupts */
        while (how == 'l' && !sleeps(child)) usleep(50);
        long before = now();
        kill(child, how == 'l' ? SIGUSR1 : SIGURG);
        note('G', at, before, now());
        while (shared->taken <= at) usleep(20);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    count = atoi(argv[2]);
    fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0644);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(argv[1], "ahead")) taker_us = 200, give_semaphores();
    else if (!strcmp(argv[1], "behind")) giver_us = 200, give_semaphores();
    else if (!strcmp(argv[1], "condition")) give_conditions();
    else if (!strcmp(argv[1], "barrier")) pass_barriers();
    else if (!strcmp(argv[1], "pipe")) pass_pipe();
    else if (!strcmp(argv[1], "poll")) polls = 1, pass_pipe();
    else if (!strcmp(argv[1], "pair")) pass_pair();
    else if (!strcmp(argv[1], "unix")) pass_connection(AF_UNIX);
    else if (!strcmp(argv[1], "tcp")) polls = 2, pass_connection(AF_INET);
    else if (!strcmp(argv[1], "event")) pass_event(EFD_SEMAPHORE);
    else if (!strcmp(argv[1], "counter")) polls = 1, pass_event(0);
    else if (!strcmp(argv[1], "join")) join_threads();
    else if (!strcmp(argv[1], "shared")) pass_shared();
    else if (!strcmp(argv[1], "meeting")) meet_processes();
    else if (!strcmp(argv[1], "signalfd")) pass_signals('f');
    else if (!strcmp(argv[1], "sigwait")) pass_signals('s');
    else if (!strcmp(argv[1], "sigwaitinfo")) pass_signals('i');
    else if (!strcmp(argv[1], "latch")) pass_signals('l');
    else return 2;
    return 0;
}
