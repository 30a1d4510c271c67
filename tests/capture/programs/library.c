/* A library that does I/O when it is loaded, called, and unloaded. */
#include "witness.h"

static void piece(const char *name, int times) {
    int fd = DO("+open", name, ANY, ANY, open(in(name), O_RDWR | O_CREAT, 0666));
    MUST(fd >= 0);
    for (int i = 0; i < times; i++) DO("pwrite", name, i * 512L, 3, pwrite(fd, "abc", 3, i * 512L));
    DO("+close", NULL, ANY, ANY, close(fd));
}
__attribute__((constructor(201))) static void loaded(void) {
    work = getenv("LIBRARY_WORK");
    piece("constructor", 5);
}
__attribute__((destructor)) static void unloaded(void) { piece("destructor", 7); }
void library_piece(const char *directory) { work = directory, piece("library", 11); }
