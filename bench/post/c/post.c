/* `post KIND COUNT`: as src/main.rs, for libraries of C: iotrail's, or LTTng-UST's with -DLTTNG. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#ifdef LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "lttng-post.h"
#define INSTANT(n) lttng_ust_tracepoint(post, read_hit, 7, n, 4096)
#define SCOPE(n)                                         \
    do {                                                 \
        lttng_ust_tracepoint(post, begin, 7, n, 4096);   \
        lttng_ust_tracepoint(post, end, 0);              \
    } while (0)
#else
#include <iotrail.h>
static iotrail_symbol_t storage, blocks, op_write;
static iotrail_crumb_t crumb;
#define INSTANT(n) iotrail_buffer(storage, blocks, IOTRAIL_READ_HIT, crumb, 7, n, 4096)
#define SCOPE(n)                                                                                       \
    do {                                                                                               \
        iotrail_record_t service = iotrail_service_begin(IOTRAIL_SERVER, storage, op_write, crumb);    \
        iotrail_service_about(&service, 7, n, 4096);                                                   \
        iotrail_service_end(&service, 0, 0);                                                           \
    } while (0)
#endif

enum { BUCKETS = 1 << 20, EACH = 16384 };

static uint64_t empty[BUCKETS], taken[BUCKETS];

static void note(uint64_t *buckets, uint64_t ticks) { buckets[ticks < BUCKETS ? ticks : BUCKETS - 1]++; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static uint64_t quantile(const uint64_t *buckets, double q)
{
    uint64_t all = 0, at = 0, left;
    for (int i = 0; i < BUCKETS; i++)
        all += buckets[i];
    left = all * q;
    for (; at < BUCKETS && buckets[at] <= left; at++)
        left -= buckets[at];
    return at;
}

#define MEASURE(POST)                                                      \
    for (uint64_t turn = 0; turn < turns; turn++) {                        \
        for (uint64_t n = 0; n < EACH; n++) {                              \
            uint64_t before = __rdtsc();                                   \
            POST(turn * EACH + n);                                         \
            note(taken, __rdtsc() - before);                               \
        }                                                                  \
        double began = now();                                              \
        for (uint64_t n = 0; n < EACH; n++)                                \
            POST(turn * EACH + n);                                         \
        whole += now() - began;                                            \
        nanosleep(&(struct timespec){0, 15000000}, NULL);                  \
    }

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    uint64_t turns = strtoull(argv[2], NULL, 10) / EACH / 2;
    double began = now(), whole = 0;
    uint64_t first = __rdtsc();
    while (now() - began < 50e6)
        ;
    double rate = (__rdtsc() - first) / (now() - began);
    for (uint64_t n = 0; n < turns * EACH / 8; n++) {
        uint64_t before = __rdtsc();
        __asm__ volatile("" ::: "memory");
        note(empty, __rdtsc() - before);
    }
#ifndef LTTNG
    iotrail_init();
    storage = iotrail_symbol("storage"), blocks = iotrail_symbol("blocks"), op_write = iotrail_symbol("write");
    crumb = iotrail_crumb_new();
#endif
    if (strcmp(argv[1], "instant") == 0)
        MEASURE(INSTANT)
    else
        MEASURE(SCOPE)
    uint64_t own = quantile(empty, 0.5);
    double q[3] = {0.5, 0.99, 0.999};
    for (int i = 0; i < 3; i++) {
        uint64_t at = quantile(taken, q[i]);
        q[i] = (at > own ? at - own : 0) / rate;
    }
    printf("{\"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"mean\": %.1f, \"posted\": %lu}\n", q[0], q[1], q[2],
           whole / (EACH * turns), EACH * turns * 2);
    return 0;
}
