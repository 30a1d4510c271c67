/* I/O where C++ hides it: thread_local destructors, static objects, exceptions on the way. */
#include "witness.h"
#include <stdexcept>
#include <thread>

static void piece(const char *name, int times) {
    int fd = DO("+open", name, ANY, ANY, open(in(name), O_RDWR | O_CREAT, 0666));
    MUST(fd >= 0);
    for (int i = 0; i < times; i++) DO("pwrite", name, i * 512L, 3, pwrite(fd, "abc", 3, i * 512L));
    DO("+close", NULL, ANY, ANY, close(fd));
}
struct Ends {
    const char *name;
    ~Ends() { piece(name, 5); }
};
static Ends at_exit{"static"};
static thread_local Ends of_thread{"thread_local"};

int main(int argc, char **argv) {
    MUST(argc == 2);
    work = argv[1];
    for (int i = 0; i < 7; i++) {
        std::thread thread([] {
            of_thread.name = "thread_local"; /* the first use registers its destructor */
            piece("thread", 3);
        });
        /* std::thread::join calls pthread_join inside libstdc++: a row, but not one of ours */
        thread.join();
    }
    for (int i = 0; i < 11; i++) {
        try {
            Ends unwound{"unwound"};
            throw std::runtime_error("out");
        } catch (const std::runtime_error &) {
            piece("caught", 2);
        }
    }
    return 0;
}
