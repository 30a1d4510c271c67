/* The log of hand-overs that handover.c and woken.c write: a line with what, number, thread and two times, of CLOCK_MONOTONIC in ns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int fd;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void note(char what, int number, long before, long after) {
    char line[128];
    int length = snprintf(line, sizeof line, "%c %d %d %ld %ld\n", what, number, gettid(), before, after);
    if (write(fd, line, length) != length) abort();
}

/* Whether a thread sleeps. */
static inline int sleeps(int tid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    char *state = length ? strrchr(text, ')') : NULL;
    return state && state[2] == 'S';
}
