/* A program with its own malloc, which itself does I/O: a recorder that allocated would recurse. */
#include "witness.h"
#include <pthread.h>
#include <stdatomic.h>

static char arena[64 << 20];
static _Atomic size_t next;
static int journal = -1;
static __thread int inside;

static void *take(size_t size) {
    size_t at = atomic_fetch_add(&next, (size + 31) & ~15UL) + 16;
    if (at + size > sizeof arena) return NULL;
    *(size_t *)(arena + (at & ~15UL) - 8) = size;
    if (journal >= 0 && !inside) {
        inside = 1;
        DO("write", "journal", ANY, 8, write(journal, &size, 8));
        inside = 0;
    }
    return arena + (at & ~15UL);
}
void *malloc(size_t size) { return take(size); }
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return take(n * size); }
void *realloc(void *old, size_t size) {
    void *p = take(size);
    if (p && old) memcpy(p, old, ((size_t *)old)[-1] < size ? ((size_t *)old)[-1] : size);
    return p;
}
static void *allocates(void *arg) {
    for (int i = 0; i < 101; i++) MUST(malloc(100));
    return arg;
}
int main(int argc, char **argv) {
    MUST(argc == 2);
    work = argv[1];
    journal = DO("+open", "journal", ANY, ANY, open(in("journal"), O_RDWR | O_CREAT | O_APPEND, 0666));
    allocates(NULL);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, allocates, NULL);
        DO("+join", NULL, ANY, ANY, pthread_join(thread, NULL));
    }
    FILE *f = DO_AS("fopen", "stream", ANY, ANY, fopen(in("stream"), "w"), fileno(r)); /* allocates its buffer here */
    DO("fputs", "stream", ANY, ANY, fputs("text", f));
    DO("fclose", "stream", ANY, ANY, fclose(f));
    return 0;
}
