/* What happens to programs while they do I/O: one function a scenario, chosen by argv[2].
 *
 * Each notes its calls like any test program; the tests hold the trail to the notes.
 */
#include "witness.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

extern char **environ;
static char buffer[65536];
static char **arguments;
static const char *self;

static int opened(const char *name, int flags) {
    int fd = DO("+open", name, ANY, ANY, open(in(name), flags, 0666));
    MUST(fd >= 0);
    return fd;
}
static void shut(int fd) { DO("+close", NULL, ANY, ANY, close(fd)); }

/* A file of its own for every piece of work: that many writes at known places, that many reads back. */
static void piece(const char *name, int times) {
    int fd = opened(name, O_RDWR | O_CREAT);
    for (int i = 0; i < times; i++) DO("pwrite", name, i * 512L, 512, pwrite(fd, buffer, 512, i * 512L));
    for (int i = 0; i < times; i++) DO("pread", name, i * 512L, 512, pread(fd, buffer, 512, i * 512L));
    shut(fd);
}
static void await(pid_t child) {
    int status;
    MUST(DO("+waitpid", NULL, ANY, ANY, waitpid(child, &status, 0)) == child);
}
static void *piece_of_thread(void *number) {
    char name[32];
    snprintf(name, sizeof name, "thread-%ld", (long)number);
    piece(name, 7);
    return NULL;
}
static void thread_does_a_piece(long number) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, piece_of_thread, (void *)number) == 0);
    DO("+join", NULL, ANY, ANY, pthread_join(thread, NULL));
}

/* -- ends -- */

static _Atomic int rounds;
static void *writes_for_ever(void *number) {
    char name[32];
    snprintf(name, sizeof name, "endless-%ld", (long)number);
    int fd = opened(name, O_RDWR | O_CREAT);
    for (int64_t i = 0;; i++) {
        DO("pwrite", name, i % 1000 * 64, 64, pwrite(fd, buffer, 64, i % 1000 * 64));
        rounds++;
    }
    return NULL;
}
static int silent[2];
static _Atomic int reader;
static void *reads_a_silent_pipe(void *arg) {
    reader = (int)raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
    DO("+read", NULL, ANY, 10, read(silent[0], buffer, 10)); /* never returns */
    return arg;
}
static void until_it_reads(void) { /* until the latest reader sleeps: seen by raw calls only */
    char path[64], stat[512], *end = NULL;
    int tid;
    do {
        raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
        if (!(tid = reader)) continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        long fd = raw(SYS_open, (long)path, O_RDONLY, 0, 0, 0, 0);
        long n = raw(SYS_read, fd, (long)stat, sizeof stat - 1, 0, 0, 0);
        raw(SYS_close, fd, 0, 0, 0, 0, 0);
        stat[n > 0 ? n : 0] = 0;
        end = strrchr(stat, ')');
    } while (!tid || !end || end[2] != 'S');
    reader = 0;
}

static void killed(void) {
    pthread_t thread;
    MUST(pipe(silent) == 0);
    pthread_create(&thread, NULL, reads_a_silent_pipe, NULL);
    until_it_reads();
    for (long i = 0; i < 3; i++) pthread_create(&thread, NULL, writes_for_ever, (void *)i);
    while (rounds < 5003) raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    raw(SYS_kill, getpid(), SIGKILL, 0, 0, 0, 0);
}
static void endless(void) { /* until somebody else kills it */
    pthread_t thread;
    pthread_create(&thread, NULL, writes_for_ever, (void *)1);
    writes_for_ever(NULL);
}
static void _exits(void) {
    piece("before", 101);
    FILE *f = DO_AS("+fopen", "unflushed", ANY, ANY, fopen(in("unflushed"), "w"), fileno(r));
    fputs("lost, as without a recorder", f);
    _exit(3);
}
static void exits_among_threads(void) {
    pthread_t thread;
    MUST(pipe(silent) == 0);
    for (int i = 0; i < 5; i++) {
        pthread_create(&thread, NULL, reads_a_silent_pipe, NULL);
        until_it_reads();
    }
    piece("main", 11);
    exit(0);
}
static void main_thread_ends_first(void) {
    pthread_t thread;
    piece("main", 11);
    pthread_create(&thread, NULL, piece_of_thread, (void *)1);
    pthread_exit(NULL);
}
static void aborts(void) { piece("before", 11); abort(); }
static void faults(void) { piece("before", 11); *(volatile int *)8 = 1; }
static void quick(void) { piece("before", 11); quick_exit(5); }
static void at_exit_piece(void) { piece("atexit", 13); }
static void at_exit(void) { piece("main", 11); atexit(at_exit_piece); }

/* -- programs that start programs -- */

static void execs(void) {
    int left = arguments[3] ? atoi(arguments[3]) : 7;
    char name[32], next[16];
    snprintf(name, sizeof name, "exec-%d", left);
    snprintf(next, sizeof next, "%d", left - 1);
    piece(name, 5 + left);
    if (left == 0) return;
    execl("/does/not/exist", "x", NULL); /* a failed exec goes on */
    piece("failed-exec", 2);
    char *const argv[] = {(char *)self, (char *)work, "execs", next, NULL};
    if (left % 2) execv(self, argv);
    execve(self, argv, environ);
}
static void *thread_execs(void *arg) {
    piece("thread", 5);
    execl(self, self, work, "atexit", NULL);
    return arg;
}
static void exec_from_thread(void) {
    pthread_t thread;
    piece("main", 3);
    pthread_create(&thread, NULL, thread_execs, NULL);
    for (;;) raw(SYS_pause, 0, 0, 0, 0, 0, 0);
}
static void forks(void) {
    char name[32];
    int shared = opened("shared", O_RDWR | O_CREAT);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            snprintf(name, sizeof name, "child-%d", i);
            piece(name, 17);
            DO("pwrite", "shared", i, 1, pwrite(shared, buffer, 1, i)); /* an inherited descriptor has its path */
            pid_t grandchild = fork();
            if (grandchild == 0) {
                thread_does_a_piece(100 + i);
                _exit(0);
            }
            await(grandchild);
            exit(0);
        }
        piece("parent", 3);
        await(child);
    }
    shut(shared);
}
static void vforks(void) {
    for (volatile int i = 0; i < 13; i++) {
        pid_t child = vfork();
        if (child == 0) {
            int fd = DO("+open", "from-vfork", ANY, ANY, open(in("from-vfork"), O_RDWR | O_CREAT, 0666));
            DO("+dup", NULL, ANY, ANY, dup2(fd, 60));
            DO("+close", NULL, ANY, ANY, close(fd));
            if (i % 3 == 0) _exit(0);
            execl(self, self, work, "small", NULL);
            _exit(9);
        }
        await(child);
        piece("parent", 2);
    }
}
static void small(void) { piece("small", 3); }
static void spawns(void) {
    char command[2048];
    snprintf(command, sizeof command, "'%s' '%s' small", self, work);
    char *const argv[] = {(char *)self, (char *)work, "small", NULL};
    for (int i = 0; i < 7; i++) {
        pid_t child;
        MUST(posix_spawn(&child, self, NULL, NULL, argv, environ) == 0);
        await(child);
    }
    for (int i = 0; i < 5; i++) MUST(DO("system", NULL, ANY, ANY, system(command)) == 0);
    for (int i = 0; i < 3; i++) {
        FILE *from = popen(command, "r");
        MUST(from && pclose(from) == 0);
    }
}
static void processes(void) {
    for (int i = 0; i < 500; i++) {
        pid_t child = fork();
        if (child == 0) {
            piece("short", 1);
            _exit(0);
        }
        await(child);
    }
}
static void crowd(void) { /* 80 processes at once, each of which does a piece, waits for all, and does another */
    pid_t children[80];
    int gate[2];
    char name[32], byte;
    MUST(raw(SYS_pipe, (long)gate, 0, 0, 0, 0, 0) == 0);
    for (int i = 0; i < 80; i++) {
        if ((children[i] = fork()) == 0) {
            raw(SYS_close, gate[1], 0, 0, 0, 0, 0);
            snprintf(name, sizeof name, "crowd-%d", i);
            piece(name, 5);
            raw(SYS_read, gate[0], (long)&byte, 1, 0, 0, 0);
            piece(name, 7);
            _exit(0);
        }
    }
    raw(SYS_close, gate[1], 0, 0, 0, 0, 0);
    for (int i = 0; i < 80; i++) await(children[i]);
}
static void daemonises(void) {
    int ends[2];
    MUST(pipe(ends) == 0);
    pid_t middle = fork();
    if (middle == 0) {
        setsid();
        if (fork()) _exit(0);
        for (int fd = 0; fd < 3; fd++) shut(fd);
        DO("+chdir", NULL, ANY, ANY, chdir("/"));
        piece("daemon", 19);
        DO("+write", NULL, ANY, 1, write(ends[1], "x", 1));
        _exit(0);
    }
    await(middle);
    DO("+read", NULL, ANY, 1, read(ends[0], buffer, 1));
    piece("main", 2);
}

/* -- threads -- */

static void short_threads(void) {
    for (long i = 0; i < 200; i++) thread_does_a_piece(i);
}
static void many_threads(void) {
    pthread_t thread[101];
    for (long i = 0; i < 101; i++) MUST(pthread_create(&thread[i], NULL, piece_of_thread, (void *)i) == 0);
    for (long i = 0; i < 101; i++) DO("+join", NULL, ANY, ANY, pthread_join(thread[i], NULL));
}
static pthread_key_t key;
static int again;
static void destructor(void *value) {
    piece("destructor", 5);
    if (++again % 4) pthread_setspecific(key, value); /* once more, after others have run */
}
static void *sets_key(void *arg) { pthread_setspecific(key, arg); return piece_of_thread((void *)1); }
static void tls_destructors(void) {
    pthread_key_create(&key, destructor);
    for (int i = 0; i < 7; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, sets_key, &key);
        DO("+join", NULL, ANY, ANY, pthread_join(thread, NULL));
    }
}
static void cleanup(void *arg) { (void)arg; piece("cleanup", 3); }
static void *is_cancelled(void *arg) {
    pthread_cleanup_push(cleanup, NULL);
    reads_a_silent_pipe(arg);
    pthread_cleanup_pop(0);
    return NULL;
}
static sem_t never_busy;
static void *loops_on_a_semaphore(void *arg) { /* sem_wait ends a cancelled thread even when it need not wait */
    for (;;) {
        sem_post(&never_busy);
        sem_wait(&never_busy);
    }
    return arg;
}
static void cancels(void) {
    MUST(pipe(silent) == 0);
    for (int i = 0; i < 11; i++) {
        pthread_t thread;
        void *ended;
        pthread_create(&thread, NULL, is_cancelled, NULL);
        until_it_reads();
        pthread_cancel(thread);
        DO("+join", NULL, ANY, ANY, pthread_join(thread, &ended));
        MUST(ended == PTHREAD_CANCELED);
    }
    pthread_t thread;
    sem_init(&never_busy, 0, 0);
    pthread_create(&thread, NULL, loops_on_a_semaphore, NULL);
    pthread_cancel(thread);
    DO("+join", NULL, ANY, ANY, pthread_join(thread, NULL));
    piece("main", 3);
}

/* -- descriptors -- */

static void closes_all(void) {
    int fd = opened("before", O_RDWR | O_CREAT);
    DO("pwrite", "before", 0, 10, pwrite(fd, buffer, 10, 0));
    for (int i = 3; i < 1024; i++) DO("close:all", NULL, ANY, ANY, close(i));
    piece("after", 31);
    fd = opened("before", O_RDWR);
    DO("close_range", NULL, ANY, ANY, close_range(3, ~0U, 0));
    DO("+pread:closed", NULL, ANY, ANY, pread(fd, buffer, 10, 0));
    piece("after", 37);
    thread_does_a_piece(1);
    DO_AS("closefrom", NULL, ANY, ANY, (closefrom(3), 0), 0);
    piece("after", 41);
    pid_t child = fork();
    if (child == 0) {
        piece("child", 5);
        _exit(0);
    }
    await(child);
}
static void dups_over(void) {
    int a = opened("a", O_RDWR | O_CREAT), b = opened("b", O_RDWR | O_CREAT);
    DO("write", "a", 0, 10, write(a, buffer, 10));
    DO("write", "b", 0, 20, write(b, buffer, 20));
    DO("+dup", NULL, ANY, ANY, dup2(a, b)); /* b is a now, and shares its position */
    DO("write", "a", 10, 10, write(b, buffer, 10));
    DO("write", "a", 20, 10, write(a, buffer, 10));
    shut(a);
    DO("write", "a", 30, 10, write(b, buffer, 10));
    int c = opened("c", O_RDWR | O_CREAT);
    DO("+dup", NULL, ANY, ANY, dup3(c, b, O_CLOEXEC));
    DO("write", "c", 0, 10, write(b, buffer, 10));
    DO("+dup", NULL, ANY, ANY, dup2(b, b)); /* nothing happens */
    DO("write", "c", 10, 10, write(c, buffer, 10));
    DO("+dup", NULL, ANY, ANY, dup2(c, 1));
    DO("write", "c", 20, 10, write(1, buffer, 10));
    DO("+dup", NULL, ANY, ANY, dup2(c, 2000000));
}
static void few_descriptors(void) {
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){16, 16});
    int fd;
    while ((fd = DO("+open", "many", ANY, ANY, open(in("many"), O_RDWR | O_CREAT, 0666))) >= 0)
        DO("pwrite", "many", fd, 1, pwrite(fd, buffer, 1, fd));
    for (int i = 0; i < 101; i++) DO("pread", "many", 0, 10, pread(15, buffer, 10, 0));
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 103; i++) DO("pread", "many", 0, 10, pread(15, buffer, 10, 0));
        shut(15); /* the loader needs one to start a program at all */
        execl(self, self, work, "inherits", NULL);
        _exit(9);
    }
    await(child);
}
static void *reads_the_last(void *arg) {
    for (int i = 0; i < 109; i++) DO("pread", "many", 0, 10, pread(15, buffer, 10, 0));
    return arg;
}
static void inherits(void) { /* a program that starts with one descriptor left */
    MUST(opened("many", O_RDWR) == 15);
    for (int i = 0; i < 107; i++) DO("pread", "many", 0, 10, pread(15, buffer, 10, 0));
    pthread_t thread;
    pthread_create(&thread, NULL, reads_the_last, NULL);
    DO("+join", NULL, ANY, ANY, pthread_join(thread, NULL));
}
static void closes_standard(void) {
    for (int fd = 0; fd < 3; fd++) shut(fd);
    DO_AS("+open", "zero", ANY, ANY, open(in("zero"), O_RDWR | O_CREAT, 0666), r);
    DO("write", "zero", 0, 10, write(0, buffer, 10));
    piece("after", 31);
    thread_does_a_piece(1);
}

/* -- signals -- */

static int ticking, ticks;
static void on_tick(int number) {
    (void)number;
    int saved = errno;
    DO("pwrite", "ticks", ticks * 8L, 8, pwrite(ticking, buffer, 8, ticks * 8L));
    ticks++;
    errno = saved;
}
/* argv[3] may put the handler on a stack of its own: "below" the interrupted stack, or "above" it,
 * where a recorder that tells left calls by their stack address could be misled. */
static void *reads_while_ticking(void *alternate) {
    int fd = opened("steady", O_RDWR | O_CREAT);
    if (alternate) sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = 65536}, NULL);
    DO("+pwrite", "steady", 0, 65536, pwrite(fd, buffer, 65536, 0));
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART | (alternate ? SA_ONSTACK : 0)};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; ticks < 101 || i < 10007; i++)
        DO("pread", "steady", 0, 65536, pread(fd, buffer, 65536, 0));
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    return NULL;
}
static void signals(void) {
    static char low[1 << 20] __attribute__((aligned(4096)));
    ticking = opened("ticks", O_RDWR | O_CREAT);
    if (!arguments[3]) reads_while_ticking(NULL);
    else if (arguments[3][0] == 'b') reads_while_ticking(low);
    else {
        void *high = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST((char *)high > low);
        pthread_t thread;
        pthread_attr_t attributes;
        sigset_t alarm;
        sigemptyset(&alarm), sigaddset(&alarm, SIGALRM);
        pthread_attr_init(&attributes);
        MUST(pthread_attr_setstack(&attributes, low, sizeof low) == 0);
        MUST(pthread_create(&thread, &attributes, reads_while_ticking, high) == 0);
        pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* ticks go to the thread */
        DO("+join", NULL, ANY, ANY, pthread_join(thread, NULL));
    }
}
/* A signal at each instruction of a call and of what the recorder does before and after it: its parent steps the one that reads so far, a step
 * further each time. With argv[3] the handler has a stack of its own, below the interrupted one. */
static void reads_while_stepped(volatile int *reading, bool alternate) {
    static char low[65536] __attribute__((aligned(4096)));
    raw(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0, 0, 0);
    ticking = opened("ticks", O_RDWR | O_CREAT);
    int fd = opened("steady", O_RDWR | O_CREAT);
    if (alternate) sigaltstack(&(stack_t){.ss_sp = low, .ss_size = sizeof low}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_tick, .sa_flags = SA_RESTART | (alternate ? SA_ONSTACK : 0)}, NULL);
    DO("+pwrite", "steady", 0, 512, pwrite(fd, buffer, 512, 0));
    for (int times = 0; *reading >= 0; times++) {
        *reading = 1;
        __asm__ volatile("int3");
        DO("pread", "steady", 0, 512, pread(fd, buffer, 512, 0));
        if (*reading > 0) *reading = 0;
        MUST(ticks == times + 1);
    }
}
static void goes_on(pid_t child, long how, long signal) {
    int status;
    MUST(raw(SYS_ptrace, how, child, 0, signal, 0, 0) == 0);
    MUST(raw(SYS_wait4, child, (long)&status, 0, 0, 0, 0) == child);
    MUST(WIFSTOPPED(status) ? WSTOPSIG(status) == SIGTRAP : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
static void stepped(void) {
    volatile int *reading = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cpu_set_t one; /* on one CPU a step takes a tenth of the time */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    MUST(sched_setaffinity(0, sizeof one, &one) == 0);
    pid_t child = fork();
    if (child == 0) {
        reads_while_stepped(reading, arguments[3] != NULL);
        _exit(0);
    }
    int status;
    MUST(raw(SYS_wait4, child, (long)&status, 0, 0, 0, 0) == child && WIFSTOPPED(status));
    int steps = 0;
    for (; *reading >= 0; steps++) {
        int left = steps;
        while (left > 0 && *reading == 1) goes_on(child, PTRACE_SINGLESTEP, 0), left--;
        if (*reading == 0) *reading = -1;
        goes_on(child, PTRACE_CONT, SIGUSR1);
    }
    MUST(steps > 200); /* it stepped through the call, not past it */
}
static sigjmp_buf out;
static void leaves(int number) { (void)number; siglongjmp(out, 1); }
static void longjmps(void) {
    MUST(pipe(silent) == 0);
    signal(SIGALRM, leaves);
    for (volatile int i = 0; i < 23; i++) {
        if (sigsetjmp(out, 1) == 0) {
            struct itimerval soon = {{0, 0}, {0, 3000}};
            setitimer(ITIMER_REAL, &soon, NULL);
            reads_a_silent_pipe(NULL);
        }
        piece("between", 2);
    }
}
static void nothing(int number) { (void)number; }
static void interrupted(void) { /* EINTR, not restarted */
    MUST(pipe(silent) == 0);
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    for (int i = 0; i < 19; i++) {
        struct itimerval soon = {{0, 0}, {0, 3000}};
        setitimer(ITIMER_REAL, &soon, NULL);
        MUST(DO("read", NULL, ANY, 10, read(silent[0], buffer, 10)) == -1 && errno == EINTR);
    }
}

/* -- surroundings -- */

static void drops(void) { /* root becomes nobody, then needs new memory for threads and programs */
    piece("root", 11);
    MUST(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    piece("nobody", 13);
    thread_does_a_piece(1);
    pid_t child = fork();
    if (child == 0) {
        piece("child", 5);
        execl(self, self, work, "small", NULL);
        _exit(9);
    }
    await(child);
}
static void chroots(void) { /* no /dev/shm and no /proc from here on */
    piece("outside", 11);
    MUST(DO("+chdir", NULL, ANY, ANY, chdir(work)) == 0);
    MUST(DO("+chdir", NULL, ANY, ANY, chroot(".")) == 0);
    work = "";
    piece("inside", 13);
    thread_does_a_piece(1);
    pid_t child = fork();
    if (child == 0) {
        piece("child", 5);
        _exit(0);
    }
    await(child);
}
static void little_address_space(void) {
    setrlimit(RLIMIT_AS, &(struct rlimit){400 << 20, 400 << 20});
    piece("limited", 101);
    thread_does_a_piece(1);
    pid_t child = fork();
    if (child == 0) {
        piece("child", 5);
        _exit(0);
    }
    await(child);
}
static void raw_calls(void) {
    int fd = opened("raw", O_RDWR | O_CREAT);
    for (int i = 0; i < 101; i++) DO("write", "raw", i * 10L, 10, syscall(SYS_write, fd, buffer, 10));
    for (int i = 0; i < 103; i++) DO("pread", "raw", i * 9L, 9, syscall(SYS_pread64, fd, buffer, 9, i * 9L));
    DO("+lseek", "raw", ANY, ANY, syscall(SYS_lseek, fd, 0, SEEK_SET));
    for (int i = 0; i < 97; i++) DO("read", "raw", i * 9L, 9, syscall(SYS_read, fd, buffer, 9));
    for (int i = 0; i < 5; i++) DO("fsync", "raw", ANY, ANY, syscall(SYS_fsync, fd));
    DO("+close", "raw", ANY, ANY, syscall(SYS_close, fd));
}
static void bad_paths(void) { /* EFAULT is the kernel's to say */
    const char *const bad[] = {NULL, (char *)8, (char *)-1, (char *)-14};
    struct stat attributes;
    for (int i = 0; i < 4; i++) {
        const char *volatile path = bad[i];
        for (int j = 0; j < 7; j++) {
            DO("open", NULL, ANY, ANY, open(path, O_RDONLY));
            MUST(errno == EFAULT);
        }
        for (int j = 0; j < 5; j++) DO("stat", NULL, ANY, ANY, stat(path, &attributes));
        for (int j = 0; j < 3; j++) DO("rename", NULL, ANY, ANY, rename(path, path));
    }
}
static void loads_library(void) {
    piece("main", 3);
    for (int i = 0; i < 5; i++) {
        void *library = dlopen(getenv("LATE_LIBRARY"), RTLD_NOW);
        MUST(library);
        void (*its_piece)(const char *) = (void (*)(const char *))dlsym(library, "library_piece");
        MUST(its_piece);
        its_piece(work);
        dlclose(library);
    }
    piece("main", 3);
}
static void status(void) { piece("main", 3); exit(atoi(arguments[3])); }
static void waits_for_signal(void) { /* says it is there, then waits to be interrupted */
    piece("main", 53);
    DO("+open", "ready", ANY, ANY, open(in("ready"), O_RDWR | O_CREAT, 0666));
    for (;;) DO("pause", NULL, ANY, ANY, pause());
}
static void leaves_child(void) { /* the program ends, a child of it goes on */
    piece("main", 3);
    if (fork() == 0) {
        for (int fd = 0; fd < 3; fd++) close(fd);
        int fd = opened("orphan", O_RDWR | O_CREAT);
        for (int i = 0; i < 300; i++) {
            pwrite(fd, buffer, 8, i * 8L);
            raw(SYS_nanosleep, (long)&(struct timespec){0, 1000000}, 0, 0, 0, 0, 0);
        }
        _exit(0);
    }
}
static void writes_much(void) { /* more than small places hold */
    int times = arguments[3] ? atoi(arguments[3]) : 200000;
    int fd = opened("much", O_RDWR | O_CREAT);
    for (int i = 0; i < times; i++) MUST(pwrite(fd, buffer, 8, i % 1000 * 8L) == 8);
    shut(fd);
    thread_does_a_piece(1);
    puts("unharmed");
}

static const struct { const char *name; void (*run)(void); } scenarios[] = {
    {"killed", killed}, {"endless", endless}, {"_exit", _exits}, {"exit-among-threads", exits_among_threads},
    {"main-ends-first", main_thread_ends_first}, {"abort", aborts}, {"fault", faults}, {"quick_exit", quick},
    {"atexit", at_exit}, {"execs", execs}, {"exec-from-thread", exec_from_thread}, {"forks", forks},
    {"vforks", vforks}, {"small", small}, {"spawns", spawns}, {"processes", processes}, {"crowd", crowd},
    {"daemon", daemonises}, {"short-threads", short_threads}, {"many-threads", many_threads},
    {"tls-destructors", tls_destructors}, {"cancel", cancels}, {"close-all", closes_all}, {"dup-over", dups_over},
    {"few-descriptors", few_descriptors}, {"inherits", inherits}, {"close-standard", closes_standard},
    {"signals", signals}, {"stepped", stepped}, {"longjmp", longjmps}, {"interrupted", interrupted}, {"drop", drops},
    {"chroot", chroots}, {"little-address-space", little_address_space}, {"raw", raw_calls},
    {"bad-paths", bad_paths},
    {"dlopen", loads_library}, {"status", status}, {"wait", waits_for_signal}, {"leaves-child", leaves_child},
    {"much", writes_much},
};

int main(int argc, char **argv) {
    MUST(argc >= 3);
    self = argv[0], work = argv[1], arguments = argv;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp(argv[2], scenarios[i].name)) {
            scenarios[i].run();
            return 0;
        }
    must(0, argv[2]);
}
