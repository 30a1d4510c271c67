// Preloaded below the recorder by `bench/diff.py`: makes one call take longer by a busy wait inside of it.
//
//   SLOWER_CALL=fsync SLOWER_NS=30000 LD_PRELOAD=./slower.so iotrail record -- PROGRAM
//
// Calls: pread, fsync, unlink. The recorder puts its own library first, so that its wrapper calls this one, which calls
// the C library's: the wait is inside the recorded interval, as a slower kernel or device would be.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <x86intrin.h>

static ssize_t (*real_pread)(int, void *, size_t, off_t);
static int (*real_fsync)(int);
static int (*real_unlink)(const char *);
// In ticks of the processor's counter: reading the clock costs as much as the shortest wait should take.
static uint64_t pread_ticks, fsync_ticks, unlink_ticks;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((constructor)) static void start(void) {
    real_pread = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_unlink = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
    const char *call = getenv("SLOWER_CALL"), *ns = getenv("SLOWER_NS");
    if (!call || !ns) return;
    double since = seconds();
    uint64_t first = __rdtsc();
    while (seconds() < since + 0.02) {
    }
    uint64_t ticks = (uint64_t)(1e-9 * atof(ns) * (double)(__rdtsc() - first) / (seconds() - since));
    if (!strcmp(call, "pread")) pread_ticks = ticks;
    if (!strcmp(call, "fsync")) fsync_ticks = ticks;
    if (!strcmp(call, "unlink")) unlink_ticks = ticks;
}

static void spin(uint64_t ticks) {
    if (ticks > 0)
        for (uint64_t until = __rdtsc() + ticks; __rdtsc() < until;) {
        }
}

ssize_t pread(int fd, void *buffer, size_t length, off_t pos) {
    ssize_t result = real_pread(fd, buffer, length, pos);
    spin(pread_ticks);
    return result;
}

ssize_t pread64(int fd, void *buffer, size_t length, off_t pos) { return pread(fd, buffer, length, pos); }

int fsync(int fd) {
    int result = real_fsync(fd);
    spin(fsync_ticks);
    return result;
}

int unlink(const char *path) {
    int result = real_unlink(path);
    spin(unlink_ticks);
    return result;
}
