/* What a test program knows about its own calls, kept where no recorder sees it and no kill loses it.
 *
 * Every call under test goes through DO(): it runs the expression and notes the form called, what
 * it returned, errno, and when it began and ended, in a file mapped shared and named by $WITNESS.
 * The book is opened and written with system calls in assembler, so that it never passes through
 * the libc whose calls are being recorded. It survives SIGKILL, is inherited by fork, is shared
 * with a vfork child and is found again after exec. recording.py reads it.
 */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* "Not noted": recording.py compares only what a program noted. */
#define ANY INT64_MIN
/* errno before each call: a call that succeeds must leave it alone. */
#define UNTOUCHED 77

struct note {
    int64_t began, ended; /* CLOCK_MONOTONIC, ns */
    int64_t result, pos, length;
    int32_t pid, tid, error;
    char form[20]; /* function called; a leading + is preparation, whose count is no prime */
    char path[56]; /* last component of the file acted on */
};
static_assert(sizeof(struct note) == 128, "recording.py reads notes of 128 bytes");

struct book {
    int64_t used;
    int64_t fill[15];
    struct note notes[1];
};
static struct book *witness_book;
static int64_t witness_room;

static inline long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
static inline void raw_stop(const char *why) {
    raw(SYS_write, 2, (long)why, (long)strlen(why), 0, 0, 0);
    raw(SYS_exit_group, 99, 0, 0, 0, 0, 0);
}

__attribute__((constructor(101))) static void witness_open(void) {
    const char *path = getenv("WITNESS");
    struct stat about;
    if (witness_book || !path) return;
    long fd = raw(SYS_open, (long)path, O_RDWR, 0, 0, 0, 0);
    if (fd < 0 || raw(SYS_fstat, fd, (long)&about, 0, 0, 0, 0) < 0) raw_stop("witness: cannot open the book\n");
    long map = raw(SYS_mmap, 0, about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    if (map < 0 && map > -4096) raw_stop("witness: cannot map the book\n");
    witness_book = (struct book *)map;
    witness_room = about.st_size / (int64_t)sizeof(struct note) - 1;
}

static inline int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A text cut to its place; the book begins as zeroes. */
static inline void witness_copy(char *into, const char *text, int room) {
    for (int i = 0; i < room - 1 && text[i]; i++) into[i] = text[i];
}

__attribute__((noinline, unused)) static void witness(const char *form, const char *path, int64_t pos, int64_t length, int64_t result,
                           int error, int64_t began, int64_t ended) {
    if (!witness_book) return; /* run without $WITNESS: by hand, under strace */
    int64_t i = __atomic_fetch_add(&witness_book->used, 1, __ATOMIC_RELAXED);
    if (i >= witness_room) raw_stop("witness: the book is full\n");
    struct note *n = &witness_book->notes[i];
    n->result = result, n->pos = pos, n->length = length, n->error = error;
    n->pid = (int32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0), n->tid = (int32_t)raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
    witness_copy(n->form, form, sizeof n->form);
    if (path) witness_copy(n->path, path, sizeof n->path);
    n->began = began;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    n->ended = ended; /* last: a note with an end is complete */
}

/* Run a call and note it, with the value `as` says (it may use `r`) as its result. */
#define DO_AS(form, path, pos, length, expr, as) ({ \
    const char *path_ = (path); \
    int64_t began_ = now(); \
    errno = UNTOUCHED; \
    __typeof__(expr) r = (expr); \
    int error_ = errno; \
    int64_t ended_ = now(); \
    witness(form, path_, pos, length, (int64_t)(as), error_, began_, ended_); \
    errno = error_; \
    r; })
#define DO(form, path, pos, length, expr) DO_AS(form, path, pos, length, expr, r)

/* Repeat the next statement a prime number of times, another prime at each use. */
static inline int next_prime(void) {
    static int last = 1;
    for (;;) {
        int divisor = 2;
        last++;
        while (divisor * divisor <= last && last % divisor) divisor++;
        if (divisor * divisor > last) return last;
    }
}
#define TIMES for (int left_ = next_prime(); left_ > 0; left_--)

/* Path of a name in the directory the test gave, argv[1] of every program. */
static const char *work = ".";
static inline const char *in(const char *name) {
    static __thread char path[8][512];
    static __thread int turn;
    char *p = path[turn++ % 8];
    size_t a = strlen(work), b = strlen(name);
    memcpy(p, work, a), p[a] = '/', memcpy(p + a + 1, name, b + 1);
    return p;
}

static inline void must(int holds, const char *what) {
    if (holds) return;
    raw(SYS_write, 2, (long)"failed: ", 8, 0, 0, 0);
    raw(SYS_write, 2, (long)what, (long)strlen(what), 0, 0, 0);
    raw_stop("\n");
}
#define MUST(condition) must(!!(condition), #condition)
