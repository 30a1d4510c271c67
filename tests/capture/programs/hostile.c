/* A program that writes over the memory it is recorded into, beside a fork of itself that keeps its book.
 *
 * argv[2] is what it writes over, argv[3] for how many milliseconds: "slots" fills all slots of its rings again and
 * again with random words, "all" writes random words over all that is populated, "headers" over the headers only,
 * "flood" moves `reserved` on without end, "parent" posts a record of requests without a parent, "cut" truncates its
 * segment. "book" does nothing but keep a book of argv[3] writes.
 * The layout is that of crates/format/src/segment.rs.
 */
#include "witness.h"
#include <sys/wait.h>

enum { PAGE = 4096, RING_TABLE = 4096, STITCHED = 0x6001 };

static uint64_t state = 88172645463325252ull;
static uint64_t next(void) { /* xorshift64, Marsaglia 2003 */
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

/* Where this process's own segment is mapped, how much of it is populated, and its file. */
static uint64_t *segment;
static char segment_path[512];
static uint64_t populated(void) { return segment[9] / 8; } /* next_free */
static void find_segment(void) {
    char line[1024], name[32];
    snprintf(name, sizeof name, "/seg-%08x-", (unsigned)getpid());
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path || !strstr(path, name)) continue;
        segment = (uint64_t *)strtoul(line, NULL, 16);
        path[strcspn(path, "\n")] = 0;
        snprintf(segment_path, sizeof segment_path, "%s", path);
    }
    fclose(maps);
    MUST(segment && segment[0] == 0x3147455352544f49ull); /* IOTRSEG1 */
}

static int rings(uint64_t *at, uint64_t *capacity) {
    int count = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t offset = segment[RING_TABLE / 8 + 2 * i], slots = (uint32_t)segment[RING_TABLE / 8 + 2 * i + 1];
        if (offset) at[count] = offset / 8, capacity[count] = slots, count++;
    }
    return count;
}

/* Until the sealer has taken all that was posted: nothing is posted any more. */
static void wait_until_drained(void) {
    uint64_t at[4], capacity[4];
    int count = rings(at, capacity);
    MUST(count > 0);
    for (int r = 0; r < count; r++) {
        volatile uint64_t *header = segment + at[r]; /* reserved, …, tail */
        while (header[8] != header[0]) raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
}

static void scribble(const char *what, int milliseconds) {
    uint64_t at[4], capacity[4];
    int count = rings(at, capacity);
    MUST(count > 0);
    uint64_t end_words = populated();
    int64_t until = now() + milliseconds * 1000000ll;
    while (now() < until) {
        if (!strcmp(what, "slots") || !strcmp(what, "flood")) {
            for (int r = 0; r < count; r++) {
                uint64_t *slot = segment + at[r] + PAGE / 8;
                for (uint64_t i = 0; i < capacity[r] * 8 && !strcmp(what, "slots"); i++) slot[i] = next();
                segment[at[r]] += capacity[r]; /* reserved */
            }
        } else if (!strcmp(what, "headers")) {
            segment[3 + next() % 20] = next();
            segment[RING_TABLE / 8 + next() % 8] = next();
            for (int r = 0; r < count; r++) segment[at[r] + next() % 16] = next();
        } else {
            for (int i = 0; i < 1000; i++) segment[3 + next() % (end_words - 3)] = next();
        }
    }
}

/* Work with a book: the trail must have exactly this. */
static void keep_book(const char *name, int times) {
    static char buffer[512];
    int fd = DO("+open", name, ANY, ANY, open(in(name), O_RDWR | O_CREAT, 0666));
    MUST(fd >= 0);
    for (int i = 0; i < times; i++) {
        DO("pwrite", name, i * 512L, 512, pwrite(fd, buffer, 512, i * 512L));
        raw(SYS_nanosleep, (long)&(struct timespec){0, 1000000}, 0, 0, 0, 0, 0);
    }
    DO("+close", name, ANY, ANY, close(fd));
}

int main(int argc, char **argv) {
    MUST(argc > 3);
    work = argv[1];
    const char *what = argv[2];
    if (!strcmp(what, "book")) {
        keep_book("kept", atoi(argv[3]));
        return 0;
    }
    int status, ready[2];
    MUST(pipe(ready) == 0);
    pid_t child = fork();
    if (!child) {
        char byte;
        raw(SYS_read, ready[0], (long)&byte, 1, 0, 0, 0); /* the parent goes wrong from now on */
        keep_book("kept", 503);
        exit(0);
    }
    /* Rows of its own, before it goes wrong. */
    for (int i = 0; i < 101; i++) close(open("/dev/null", O_RDONLY));
    find_segment();
    wait_until_drained();
    raw(SYS_write, ready[1], (long)"g", 1, 0, 0, 0);
    if (!strcmp(what, "cut")) {
        raw(SYS_truncate, (long)segment_path, 0, 0, 0, 0, 0);
        raw(SYS_wait4, child, (long)&status, 0, 0, 0, 0);
        raw(SYS_exit_group, 0, 0, 0, 0, 0, 0); /* it can't touch its segment again */
    }
    if (!strcmp(what, "parent")) {
        uint64_t at[4], capacity[4], *header = NULL, place, *slot = NULL;
        for (int r = rings(at, capacity) - 1; r >= 0; r--) {
            if ((uint32_t)segment[at[r] + 3] != 1 || segment[at[r] + 3] >> 32 != (uint64_t)getpid()) continue;
            header = segment + at[r], place = header[0]++; /* the live ring of this thread */
            slot = header + PAGE / 8 + place % capacity[r] * 8;
        }
        MUST(slot);
        slot[1] = segment[3], slot[2] = 0, slot[3] = 77, slot[4] = (uint64_t)ANY, slot[5] = slot[6] = slot[7] = 0;
        __atomic_store_n(slot, STITCHED, __ATOMIC_RELEASE);
        for (int i = 0; i < 103; i++) close(open("/dev/null", O_RDONLY));
    } else {
        scribble(what, atoi(argv[3]));
    }
    raw(SYS_wait4, child, (long)&status, 0, 0, 0, 0);
    raw(SYS_exit_group, status ? 1 : 7, 0, 0, 0, 0, 0);
}
