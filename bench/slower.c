// Preloaded below the recorder by `bench/diff.py`: makes pread take longer by a busy wait inside of it.
//
//   SLOWER_NS=200 LD_PRELOAD=./slower.so iotrail record -- PROGRAM
//
// The recorder puts its own library first, so that its wrapper calls this one, which calls the C library's: the wait
// is inside the recorded interval, as a slower kernel or device would be.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <x86intrin.h>

typedef ssize_t (*pread_t)(int, void *, size_t, off_t);
static pread_t below;
// In ticks of the processor's counter: reading the clock costs as much as the wait should take.
static uint64_t extra;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((constructor)) static void start(void) {
    below = (pread_t)dlsym(RTLD_NEXT, "pread");
    const char *text = getenv("SLOWER_NS");
    if (!text) return;
    double since = seconds();
    uint64_t ticks = __rdtsc();
    while (seconds() < since + 0.02) {
    }
    extra = (uint64_t)(1e-9 * atof(text) * (double)(__rdtsc() - ticks) / (seconds() - since));
}

ssize_t pread(int fd, void *buffer, size_t length, off_t pos) {
    ssize_t result = below(fd, buffer, length, pos);
    if (extra > 0)
        for (uint64_t until = __rdtsc() + extra; __rdtsc() < until;) {
        }
    return result;
}

ssize_t pread64(int fd, void *buffer, size_t length, off_t pos) { return pread(fd, buffer, length, pos); }
