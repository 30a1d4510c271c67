/* Threads whose CPU time, page faults and waits are known, one story a run: times DIR STORY [N].
 *
 * Prints a line a thread: tid, nanoseconds it lived, nanoseconds on a CPU, major page faults. Both are the kernel's
 * numbers for the thread (CLOCK_THREAD_CPUTIME_ID, getrusage), read by the thread at its end.
 */
#include "witness.h"
#include <pthread.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

static int64_t cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void burn(int64_t milliseconds) {
    int64_t until = cpu() + milliseconds * 1000000;
    while (cpu() < until)
        for (volatile int i = 0; i < 20000; i++) continue;
}
static void tell(int64_t born) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    char line[120];
    int length = snprintf(line, sizeof line, "%ld %ld %ld %ld\n", raw(SYS_gettid, 0, 0, 0, 0, 0, 0),
                          (long)(now() - born), (long)cpu(), usage.ru_majflt);
    MUST(write(1, line, length) == length);
}
static int64_t amount;

static void *burns(void *arg) {
    int64_t born = now();
    burn(amount);
    tell(born);
    return arg;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static int word;
static volatile int done;

static void *parks(void *arg) {
    int64_t born = now();
    pthread_mutex_lock(&mutex);
    while (!done) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    tell(born);
    return arg;
}
/* As Rust's std::thread::park, and with it mpsc::recv: a futex through syscall(), 0xffffffff for parked. */
static void *parks_at_a_futex(void *arg) {
    int64_t born = now();
    __atomic_store_n(&word, -1, __ATOMIC_SEQ_CST);
    while (!done) syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, -1, NULL, NULL, -1);
    tell(born);
    return arg;
}
/* What no recorder in the program sees: the system call made directly. */
static void *sleeps_unseen(void *arg) {
    int64_t born = now();
    struct timespec time = {amount / 1000, amount % 1000 * 1000000};
    raw(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
    tell(born);
    return arg;
}
static void *spins(void *arg) {
    int64_t born = now();
    pthread_spin_lock(&spin);
    pthread_spin_unlock(&spin);
    tell(born);
    return arg;
}
/* Reads pages of a file that is not in the page cache, in a random order, without a call. */
static void *faults(void *arg) {
    int fd = open(in("mapped"), O_RDONLY);
    int64_t size = lseek(fd, 0, SEEK_END), sum = 0;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const volatile char *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    MUST(bytes != MAP_FAILED);
    madvise((void *)bytes, size, MADV_RANDOM);
    int64_t born = now();
    uint64_t at = 1;
    for (int i = 0; i < amount; i++) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        sum += bytes[(at >> 33) % size];
    }
    tell(born);
    close(fd);
    return sum == -1 ? NULL : arg;
}

int main(int argc, char **argv) {
    MUST(argc == 5);
    work = argv[1];
    const char *story = argv[2];
    amount = atol(argv[3]);
    int count = atoi(argv[4]);
    void *(*run)(void *) = !strcmp(story, "burn") || !strcmp(story, "kill") ? burns : !strcmp(story, "park") ? parks
        : !strcmp(story, "futex") ? parks_at_a_futex : !strcmp(story, "unseen") ? sleeps_unseen
        : !strcmp(story, "spin") ? spins : faults;
    pthread_spin_init(&spin, 0);
    if (run == spins) pthread_spin_lock(&spin);
    pthread_t threads[16];
    for (int i = 0; i < count; i++) MUST(pthread_create(&threads[i], NULL, run, NULL) == 0);
    if (!strcmp(story, "kill")) {
        usleep(amount * 1000 / 2);
        kill(getpid(), SIGKILL);
    }
    if (run == parks || run == parks_at_a_futex || run == spins) {
        burn(amount);
        done = 1;
        pthread_mutex_lock(&mutex);
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
        __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 16);
        if (run == spins) pthread_spin_unlock(&spin);
    }
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 0;
}
