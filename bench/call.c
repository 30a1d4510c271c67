/* Time every one of many cached preads: what a recorder adds to one call, and to the slowest ones.
 *
 *   call FILE BYTES THREADS CALLS
 *
 * Each thread reads BYTES at pseudo-random multiples of BYTES from its own descriptor of FILE, which
 * the caller has read before, so that it is in the page cache. The time of a call is the difference of
 * two counter readings around it, put into an array that was allocated and touched beforehand: while
 * it measures, the program makes no other call. The first tenth of the calls warms up and isn't
 * counted. Prints one line of JSON, nanoseconds: the distribution over all threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static const char *path;
static size_t bytes;
static size_t calls;
static pthread_barrier_t start;

static void fail(const char *what)
{
    fprintf(stderr, "call: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Serialised against what stands before and after it (Intel SDM vol. 2, RDTSCP and LFENCE). */
static inline uint64_t counter(void)
{
    unsigned cpu;
    _mm_lfence();
    uint64_t ticks = __rdtscp(&cpu);
    _mm_lfence();
    return ticks;
}

static void *reader(void *out)
{
    uint32_t *ticks = out;
    int fd = open(path, O_RDONLY);
    struct stat attributes;
    if (fd < 0 || fstat(fd, &attributes) < 0) fail(path);
    uint64_t blocks = attributes.st_size / bytes;
    char *buffer = aligned_alloc(4096, bytes);
    memset(buffer, 1, bytes);
    uint64_t seed = 88172645463325252u; /* xorshift64, Marsaglia 2003 */
    pthread_barrier_wait(&start);
    size_t warm = calls / 10;
    for (size_t i = 0; i < warm + calls; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        off_t pos = seed % blocks * bytes;
        uint64_t before = counter();
        ssize_t got = pread(fd, buffer, bytes, pos);
        uint64_t took = counter() - before;
        if (got != (ssize_t)bytes) fail("pread");
        if (i >= warm) ticks[i - warm] = took < UINT32_MAX ? took : UINT32_MAX;
    }
    close(fd);
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: call FILE BYTES THREADS CALLS\n");
        return 2;
    }
    path = argv[1];
    bytes = strtoull(argv[2], NULL, 10);
    size_t threads = strtoull(argv[3], NULL, 10);
    calls = strtoull(argv[4], NULL, 10);

    size_t total = threads * calls;
    uint32_t *ticks = mmap(NULL, total * sizeof *ticks, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (ticks == MAP_FAILED) fail("mmap");
    pthread_t *ids = calloc(threads, sizeof *ids);
    pthread_barrier_init(&start, NULL, threads + 1);
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, reader, ticks + i * calls)) fail("pthread_create");

    /* The counter's rate, over the whole run. */
    pthread_barrier_wait(&start);
    uint64_t ticks0 = counter(), ns0 = clock_ns();
    for (size_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    uint64_t ticks1 = counter(), ns1 = clock_ns();
    double ns_per_tick = (double)(ns1 - ns0) / (ticks1 - ticks0);

    qsort(ticks, total, sizeof *ticks, ascending);
    struct { const char *name; double p; } wanted[] = {
        {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};
    printf("{\"calls\": %zu, \"wall_ns\": %llu", total, (unsigned long long)(ns1 - ns0));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t rank = (size_t)(wanted[i].p * total);
        printf(", \"%s\": %.1f", wanted[i].name, ticks[rank < total ? rank : total - 1] * ns_per_tick);
    }
    printf("}\n");
    return 0;
}
