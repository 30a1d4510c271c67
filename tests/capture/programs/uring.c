/* Sets up rings and enters them, a prime number of times each, through syscall() as liburing-free programs do. */
#include "witness.h"
#include <linux/io_uring.h>

int main(void) {
    struct io_uring_params parameters;
    for (int i = 0; i < 3; i++) {
        memset(&parameters, 0, sizeof parameters);
        long ring = syscall(SYS_io_uring_setup, 4, &parameters);
        if (ring < 0) return 77; /* refused by this machine's administrator */
        for (int j = 0; j < 13; j++) syscall(SYS_io_uring_enter, ring, 0, 0, 0, NULL, 0);
        close((int)ring);
    }
    return 0;
}
