/* The calls a program waits in, each a prime number of times, every wait a real one where it can be.
 *
 * argv[2] chooses the group: channels (pipes, sockets, poll, select, epoll), threads (locks,
 * conditions, barriers, semaphores, join), processes (wait, signals, sleep, file locks).
 */
#include "witness.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

static char buffer[4096];
static volatile size_t some = 509;

static void shut(int fd) { DO("+close", NULL, ANY, ANY, close(fd)); }

static void channels(void) {
    int ends[2];
    MUST(pipe(ends) == 0);
    TIMES {
        DO("write:pipe", NULL, ANY, 509, write(ends[1], buffer, some));
        DO("+read:pipe", NULL, ANY, 509, read(ends[0], buffer, some));
    }
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 409}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    TIMES {
        DO("send", NULL, ANY, 509, send(ends[1], buffer, some, 0));
        DO("+recv", NULL, ANY, 509, recv(ends[0], buffer, some, 0));
    }
    TIMES {
        DO("+send", NULL, ANY, 509, send(ends[1], buffer, some, 0));
        DO("recv", NULL, ANY, 509, recv(ends[0], buffer, some, 0));
    }
    TIMES {
        DO("sendto", NULL, ANY, 509, sendto(ends[1], buffer, some, 0, NULL, 0));
        DO("+recvfrom", NULL, ANY, 509, recvfrom(ends[0], buffer, some, 0, NULL, NULL));
    }
    TIMES {
        DO("sendmsg", NULL, ANY, ANY, sendmsg(ends[1], &message, 0));
        DO("+recvmsg", NULL, ANY, ANY, recvmsg(ends[0], &message, 0));
    }
    TIMES {
        DO("+write:sock", NULL, ANY, 509, write(ends[1], buffer, some));
        DO("read:sock", NULL, ANY, 509, read(ends[0], buffer, some));
    }
    TIMES {
        DO("writev:sock", NULL, ANY, 509, writev(ends[1], parts, 2));
        DO("+readv:sock", NULL, ANY, 509, readv(ends[0], parts, 2));
    }
    DO("+send", NULL, ANY, 1, send(ends[1], buffer, 1, 0)); /* one end stays ready */
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    struct timespec second = {1, 0};
    TIMES DO("poll", NULL, ANY, ANY, poll(&ready, 1, 1000));
    TIMES DO("ppoll", NULL, ANY, ANY, ppoll(&ready, 1, &second, NULL));
    TIMES {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        DO("select", NULL, ANY, ANY, select(ends[0] + 1, &set, NULL, NULL, &(struct timeval){1, 0}));
    }
    TIMES {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        DO("pselect", NULL, ANY, ANY, pselect(ends[0] + 1, &set, NULL, NULL, &second, NULL));
    }
    int several = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(several, EPOLL_CTL_ADD, ends[0], &event) == 0);
    TIMES DO("epoll_wait", NULL, ANY, ANY, epoll_wait(several, &event, 1, 1000));
    TIMES DO("epoll_pwait", NULL, ANY, ANY, epoll_pwait(several, &event, 1, 1000, NULL));
    TIMES DO("epoll_pwait2", NULL, ANY, ANY, epoll_pwait2(several, &event, 1, &second, NULL));
    shut(several);

    int counter = eventfd(0, 0);
    uint64_t one = 1;
    TIMES {
        DO("write:event", NULL, ANY, 8, write(counter, &one, 8));
        DO("+read:event", NULL, ANY, 8, read(counter, &one, 8));
    }

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    MUST(bind(server, (void *)&address, length) == 0 && listen(server, 64) == 0);
    MUST(getsockname(server, (void *)&address, &length) == 0);
    TIMES {
        int client = socket(AF_INET, SOCK_STREAM, 0);
        MUST(DO("connect", NULL, ANY, ANY, connect(client, (void *)&address, sizeof address)) == 0);
        int peer = DO("accept", NULL, ANY, ANY, accept(server, NULL, NULL));
        DO("+write:tcp", NULL, ANY, 509, write(client, buffer, some));
        DO("+read:tcp", NULL, ANY, 509, read(peer, buffer, some));
        shut(client), shut(peer);
    }
    TIMES {
        int client = socket(AF_INET, SOCK_STREAM, 0);
        MUST(DO("+connect", NULL, ANY, ANY, connect(client, (void *)&address, sizeof address)) == 0);
        shut(DO("accept4", NULL, ANY, ANY, accept4(server, NULL, NULL, SOCK_CLOEXEC)));
        shut(client);
    }
}

/* -- threads: a helper holds what the main thread wants until that one sleeps in it -- */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static _Atomic int held, asleep_tid;
static char want;

/* Whether thread `tid` sleeps, from /proc, by raw calls. */
static int sleeps(int tid) {
    char path[64], stat[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    long fd = raw(SYS_open, (long)path, O_RDONLY, 0, 0, 0, 0);
    long n = raw(SYS_read, fd, (long)stat, sizeof stat - 1, 0, 0, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    stat[n > 0 ? n : 0] = 0;
    char *end = strrchr(stat, ')');
    return end && end[2] == 'S';
}
static void relax(void) { raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0); }

/* Take what `want` says, let the main thread run into it, release it once that one sleeps. */
static void *holder(void *arg) {
    (void)arg;
    if (want == 'm') pthread_mutex_lock(&mutex);
    if (want == 'r' || want == 't') pthread_rwlock_wrlock(&rwlock);
    if (want == 'w') pthread_rwlock_rdlock(&rwlock);
    held = 1;
    while (!asleep_tid || !sleeps(asleep_tid)) relax();
    if (want == 'm') pthread_mutex_unlock(&mutex);
    if (want == 'r' || want == 'w' || want == 't') pthread_rwlock_unlock(&rwlock);
    if (want == 's') sem_post(&semaphore);
    if (want == 'c') {
        pthread_mutex_lock(&mutex);
        held = 2;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}
static pthread_t contend(char what) {
    pthread_t thread;
    want = what, held = asleep_tid = 0;
    MUST(pthread_create(&thread, NULL, holder, NULL) == 0);
    while (!held) relax();
    asleep_tid = (int)raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
    return thread;
}
static void *at_barrier(void *arg) {
    DO("+barrier_wait", NULL, ANY, ANY, pthread_barrier_wait(&barrier));
    return arg;
}

static void threads(void) {
    pthread_t thread;
    struct timespec later = {1 << 30, 0}; /* far in the future of every clock */
    later.tv_sec = time(NULL) + 3600;
    #define JOIN DO("+join", NULL, ANY, ANY, pthread_join(thread, NULL))
    TIMES { thread = contend('m'); DO("mutex_lock", NULL, ANY, ANY, pthread_mutex_lock(&mutex)); pthread_mutex_unlock(&mutex); JOIN; }
    TIMES { thread = contend('m'); DO("mutex_timedlock", NULL, ANY, ANY, pthread_mutex_timedlock(&mutex, &later)); pthread_mutex_unlock(&mutex); JOIN; }
    TIMES { thread = contend('r'); DO("rwlock_rdlock", NULL, ANY, ANY, pthread_rwlock_rdlock(&rwlock)); pthread_rwlock_unlock(&rwlock); JOIN; }
    TIMES { thread = contend('w'); DO("rwlock_wrlock", NULL, ANY, ANY, pthread_rwlock_wrlock(&rwlock)); pthread_rwlock_unlock(&rwlock); JOIN; }
    sem_init(&semaphore, 0, 0);
    TIMES { thread = contend('s'); DO("sem_wait", NULL, ANY, ANY, sem_wait(&semaphore)); JOIN; }
    TIMES { thread = contend('s'); DO("sem_timedwait", NULL, ANY, ANY, sem_timedwait(&semaphore, &later)); JOIN; }
    TIMES {
        pthread_mutex_lock(&mutex);
        thread = contend('c');
        while (held != 2) DO("cond_wait", NULL, ANY, ANY, pthread_cond_wait(&condition, &mutex));
        pthread_mutex_unlock(&mutex);
        JOIN;
    }
    TIMES {
        pthread_mutex_lock(&mutex);
        thread = contend('c');
        while (held != 2) DO("cond_timedwait", NULL, ANY, ANY, pthread_cond_timedwait(&condition, &mutex, &later));
        pthread_mutex_unlock(&mutex);
        JOIN;
    }
    TIMES {
        pthread_mutex_lock(&mutex);
        DO("cond_timedwait:out", NULL, ANY, ANY, pthread_cond_timedwait(&condition, &mutex, &(struct timespec){1, 0}));
        pthread_mutex_unlock(&mutex);
    }
    pthread_barrier_init(&barrier, NULL, 2);
    TIMES {
        MUST(pthread_create(&thread, NULL, at_barrier, NULL) == 0);
        DO("barrier_wait", NULL, ANY, ANY, pthread_barrier_wait(&barrier));
        DO("join", NULL, ANY, ANY, pthread_join(thread, NULL));
    }
    /* Without contention: no row, however often. */
    for (int i = 0; i < 1009; i++) {
        pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex);
        pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock);
        sem_post(&semaphore), sem_wait(&semaphore);
    }
}

static void on_signal(int number) { (void)number; }

static void processes(void) {
    int status;
    siginfo_t info;
    #define CHILD ({ pid_t p_ = fork(); if (p_ == 0) raw(SYS_exit_group, 7, 0, 0, 0, 0, 0); p_; })
    TIMES { pid_t child = CHILD; MUST(DO("waitpid", NULL, ANY, ANY, waitpid(child, &status, 0)) == child); }
    TIMES { CHILD; DO("wait", NULL, ANY, ANY, wait(&status)); }
    TIMES { CHILD; DO("wait3", NULL, ANY, ANY, wait3(&status, 0, NULL)); }
    TIMES { pid_t child = CHILD; DO("wait4", NULL, ANY, ANY, wait4(child, &status, 0, NULL)); }
    TIMES { pid_t child = CHILD; DO("waitid", NULL, ANY, ANY, waitid(P_PID, child, &info, WEXITED)); }
    TIMES DO("waitpid:none", NULL, ANY, ANY, waitpid(-1, &status, 0));

    struct timespec brief = {0, 10007};
    TIMES DO("nanosleep", NULL, ANY, 10007, nanosleep(&brief, NULL));
    TIMES DO("clock_nanosleep", NULL, ANY, 10007, clock_nanosleep(CLOCK_MONOTONIC, 0, &brief, NULL));
    TIMES DO("usleep", NULL, ANY, 10000, usleep(10));

    sigset_t usr, empty, got;
    sigemptyset(&empty), sigemptyset(&usr), sigaddset(&usr, SIGUSR1);
    signal(SIGUSR1, on_signal);
    sigprocmask(SIG_BLOCK, &usr, &got);
    int number;
    TIMES { raise(SIGUSR1); DO("sigsuspend", NULL, ANY, ANY, sigsuspend(&empty)); }
    TIMES { raise(SIGUSR1); DO("sigwait", NULL, ANY, ANY, sigwait(&usr, &number)); }
    TIMES { raise(SIGUSR1); DO("sigwaitinfo", NULL, ANY, ANY, sigwaitinfo(&usr, &info)); }
    TIMES { raise(SIGUSR1); DO("sigtimedwait", NULL, ANY, ANY, sigtimedwait(&usr, &info, &(struct timespec){5, 0})); }

    int fd = DO("+open", "locked", ANY, ANY, open(in("locked"), O_RDWR | O_CREAT, 0600));
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    TIMES DO("flock", NULL, ANY, ANY, flock(fd, LOCK_EX));
    TIMES DO("lockf", NULL, ANY, ANY, lockf(fd, F_LOCK, 10));
    TIMES DO("fcntl:lock", NULL, ANY, ANY, fcntl(fd, F_SETLKW, &whole));
    shut(fd);

    int sems = semget(IPC_PRIVATE, 1, 0600);
    TIMES DO("semop", NULL, ANY, ANY, semop(sems, &(struct sembuf){0, 1, 0}, 1));
    semctl(sems, 0, IPC_RMID);
}

int main(int argc, char **argv) {
    MUST(argc == 3);
    work = argv[1];
    if (argv[2][0] == 'c') channels();
    if (argv[2][0] == 't') threads();
    if (argv[2][0] == 'p') processes();
    return 0;
}
