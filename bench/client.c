/* Load on a mounted store, as in the evaluation of Stardust (SIGMETRICS 2006, section 5.1):
 *
 *   client postmark DIR FILES TRANSACTIONS
 *   client stream DIR MEGABYTES
 *   client append DIR WRITES
 *   client open-loop DIR RATE SECONDS
 *
 * A seeded, fixed amount of work. Each operation is timed by who asks for it. Prints one line of JSON: operations,
 * seconds, bytes, and the latencies' mean, p50 and p99 in ns.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char data[1 << 16];
static uint64_t seed = 88172645463325252u; /* xorshift64, Marsaglia 2003 */
static int64_t *latencies, bytes;
static long operations;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* One of `count`. */
static long pick(long count)
{
    return next(&seed) % count;
}

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "client: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static void room(long count)
{
    latencies = calloc(count, sizeof *latencies);
    check(latencies != NULL, "memory");
}

static void timed(int64_t began)
{
    latencies[operations++] = now() - began;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void say(int64_t took)
{
    double sum = 0;
    for (long i = 0; i < operations; i++) sum += latencies[i];
    qsort(latencies, operations, sizeof *latencies, ascending);
    printf("{\"operations\": %ld, \"seconds\": %.6f, \"bytes\": %ld, \"mean\": %.0f, \"p50\": %ld, \"p99\": %ld}\n",
           operations, took / 1e9, (long)bytes, sum / operations, (long)latencies[operations / 2],
           (long)latencies[operations * 99 / 100]);
}

/* Postmark 1.5 (Katcher, NetApp TR3022, 1997) with its defaults: files of 500 to 9,770 bytes, blocks of 512, stdio,
 * as many reads as appends and creations as deletions. A transaction is one of either pair. */
enum { LEAST = 500, MOST = 9770, BLOCK = 512, DIRECTORIES = 10 };
static long created, live, *names, *sizes;

static char *path(long name)
{
    static char text[64];
    snprintf(text, sizeof text, "s%ld/%ld", name % DIRECTORIES, name);
    return text;
}

static void put(const char *name, const char *mode, long length)
{
    FILE *file = fopen(name, mode);
    check(file != NULL, name);
    for (long left = length; left > 0; left -= BLOCK)
        check(fwrite(data, left < BLOCK ? left : BLOCK, 1, file) == 1, name);
    check(fclose(file) == 0, name);
    bytes += length;
}

static void create(void)
{
    names[live] = created++;
    sizes[live] = LEAST + pick(MOST - LEAST + 1);
    put(path(names[live]), "w", sizes[live]);
    live++;
}

static void postmark(long files, long transactions)
{
    room(transactions);
    names = calloc(files + transactions, sizeof *names);
    sizes = calloc(files + transactions, sizeof *sizes);
    check(names && sizes, "memory");
    for (long i = 0; i < DIRECTORIES; i++) {
        snprintf(data, sizeof data, "s%ld", i);
        check(mkdir(data, 0777) == 0, data);
    }
    while (live < files) create();
    int64_t start = now();
    for (long i = 0; i < transactions; i++) {
        int64_t began = now();
        long which = pick(live);
        if (pick(2)) {
            FILE *file = fopen(path(names[which]), "r");
            check(file != NULL, "read");
            for (size_t got; (got = fread(data, 1, BLOCK, file)) > 0;) bytes += got;
            fclose(file);
        } else if (sizes[which] < MOST) {
            long more = 1 + pick(MOST - sizes[which]);
            put(path(names[which]), "a", more);
            sizes[which] += more;
        }
        if (pick(2)) {
            create();
        } else {
            which = pick(live);
            check(unlink(path(names[which])) == 0, "delete");
            names[which] = names[--live];
            sizes[which] = sizes[live];
        }
        timed(began);
    }
    say(now() - start);
}

/* IOzone's: one file, written and read in order by 64 KiB. */
static void stream(long megabytes)
{
    long blocks = megabytes * 16;
    room(2 * blocks);
    int64_t start = now();
    for (int reading = 0; reading < 2; reading++) {
        int fd = open("stream", reading ? O_RDONLY : O_WRONLY | O_CREAT, 0666);
        check(fd >= 0, "open");
        for (long i = 0; i < blocks; i++) {
            int64_t began = now();
            ssize_t moved = reading ? read(fd, data, sizeof data) : write(fd, data, sizeof data);
            check(moved == sizeof data, reading ? "read" : "write");
            bytes += moved;
            timed(began);
        }
        check(reading || fsync(fd) == 0, "fsync");
        close(fd);
    }
    say(now() - start);
}

/* S1 and V0: results of queries of 48 to 92 bytes, appended to a file each of 8 queries, then synced. */
static void append(long writes)
{
    int fds[8];
    char name[16];
    room(writes);
    int64_t start = now();
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "query-%d", i);
        check((fds[i] = open(name, O_WRONLY | O_CREAT | O_APPEND, 0666)) >= 0, "open");
    }
    for (long i = 0; i < writes; i++) {
        long length = 48 + pick(45);
        int64_t began = now();
        check(write(fds[i % 8], data, length) == length, "write");
        timed(began);
        bytes += length;
    }
    for (int i = 0; i < 8; i++) check(fsync(fds[i]) == 0 && close(fds[i]) == 0, "fsync");
    say(now() - start);
}

/* Arrivals at random (Poisson) whether or not those before are served, as NFS servers see: the operations of SPEC
 * SFS97_R1 V3 in its proportions, those left out that a mount doesn't ask for. A latency counts from the arrival. */
enum { THREADS = 32, FILES = 64, FILE_SIZE = 1 << 16 };
static int64_t *arrivals;
static long planned;
static atomic_long taken;

static void serve(long number)
{
    char name[64], own[8192];
    struct stat attributes;
    uint64_t state = (number + 1) * 0x9e3779b97f4a7c15u; /* far apart: Steele, SplitMix, 2014 */
    long kind = next(&state) % 77, which = next(&state) % FILES;
    long pos = next(&state) % (FILE_SIZE / sizeof own) * sizeof own;
    snprintf(name, sizeof name, "file-%ld", which);
    if (kind < 38) { /* LOOKUP 27, GETATTR 11 */
        check(stat(name, &attributes) == 0, "stat");
    } else if (kind < 65) { /* READ 18, WRITE 9 */
        int reading = kind < 56, fd = open(name, reading ? O_RDONLY : O_WRONLY);
        check(fd >= 0, "open");
        ssize_t moved = reading ? pread(fd, own, sizeof own, pos) : pwrite(fd, data, sizeof own, pos);
        check(moved == sizeof own, reading ? "read" : "write");
        close(fd);
    } else if (kind < 70) { /* COMMIT 5 */
        int fd = open(name, O_WRONLY);
        check(fd >= 0 && fsync(fd) == 0, "fsync");
        close(fd);
    } else if (kind < 75) { /* CREATE 1, REMOVE 1, SETATTR 1, READDIRPLUS 2 and such */
        snprintf(name, sizeof name, "new-%ld", number);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
        check(fd >= 0 && fchmod(fd, 0600) == 0, "create");
        close(fd);
        check(unlink(name) == 0, "remove");
    } else {
        DIR *directory = opendir(".");
        check(directory != NULL, "readdir");
        while (readdir(directory)) {}
        closedir(directory);
    }
}

static void *server(void *unused)
{
    (void)unused;
    for (long at; (at = taken++) < planned;) {
        struct timespec due = {arrivals[at] / 1000000000, arrivals[at] % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) {}
        serve(at);
        latencies[at] = now() - arrivals[at];
    }
    return NULL;
}

static void open_loop(double rate, double seconds)
{
    pthread_t threads[THREADS];
    char name[16];
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "file-%d", i);
        int fd = open(name, O_WRONLY | O_CREAT, 0666);
        check(fd >= 0 && write(fd, data, FILE_SIZE) == FILE_SIZE && close(fd) == 0, "file");
    }
    planned = rate * seconds;
    room(planned);
    arrivals = calloc(planned, sizeof *arrivals);
    check(arrivals != NULL, "memory");
    int64_t start = now() + 10000000;
    double at = start;
    for (long i = 0; i < planned; i++) {
        arrivals[i] = at;
        at -= log((pick(1 << 30) + 1.0) / (1 << 30)) * 1e9 / rate;
    }
    for (int i = 0; i < THREADS; i++) check(pthread_create(&threads[i], NULL, server, NULL) == 0, "thread");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    operations = planned;
    say(now() - start);
}

int main(int argc, char **argv)
{
    if (argc < 4 || chdir(argv[2]) < 0) {
        fprintf(stderr, "usage: client WORKLOAD DIR ARGUMENT…\n");
        return 2;
    }
    double first = atof(argv[3]), second = argc > 4 ? atof(argv[4]) : 0;
    if (!strcmp(argv[1], "postmark") && second > 0) postmark(first, second);
    else if (!strcmp(argv[1], "stream")) stream(first);
    else if (!strcmp(argv[1], "append")) append(first);
    else if (!strcmp(argv[1], "open-loop") && second > 0) open_loop(first, second);
    else return fprintf(stderr, "client: no workload %s with these arguments\n", argv[1]), 2;
    return 0;
}
