/* Run a command and write what CPU time it and its descendants took.
 *
 *   usage FILE COMMAND…
 *
 * Stands between a recorder and the program, so that the program's own CPU time is known apart from
 * that of a recorder that runs beside it (strace, iotrail's sealer). Writes one line of JSON to FILE:
 * seconds of user and system time of all descendants, and of wall time. Exits as COMMAND does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double seconds(struct timeval time)
{
    return time.tv_sec + time.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: usage FILE COMMAND…\n");
        return 2;
    }
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        fprintf(stderr, "usage: %s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        perror("usage");
        return 1;
    }
    double wall = now() - start;
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    FILE *out = fopen(argv[1], "w");
    if (!out) {
        perror(argv[1]);
        return 1;
    }
    fprintf(out, "{\"user\": %.6f, \"system\": %.6f, \"wall\": %.6f}\n", seconds(used.ru_utime),
            seconds(used.ru_stime), wall);
    fclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
