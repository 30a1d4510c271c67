/* The bare I/O of a replay: preads of 4 KiB at random places of a file, nothing else.
 *
 *   preads FILE CALLS
 *
 * Prints the CPU time of a call in ns, user and system.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static double used(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9
           + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

int main(int argc, char **argv)
{
    static char buffer[4096];
    struct stat attributes;
    int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || fstat(fd, &attributes) < 0) {
        fprintf(stderr, "usage: preads FILE CALLS\n");
        return 2;
    }
    uint64_t seed = 88172645463325252u; /* xorshift64, Marsaglia 2003 */
    uint64_t blocks = attributes.st_size / sizeof buffer;
    long calls = atol(argv[2]);
    double before = used();
    for (long i = 0; i < calls; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        if (pread(fd, buffer, sizeof buffer, seed % blocks * sizeof buffer) != sizeof buffer) return 1;
    }
    printf("%.1f\n", (used() - before) / calls);
    return 0;
}
