/* Three threads with known shares of compute, I/O and waiting, measured by themselves.
 *
 * Prints a line a thread: tid, nanoseconds it lived, was in I/O, waited, and could run without getting a CPU (which
 * may fall between its reading of the clock and the recorder's). Time inside each call is measured around it with
 * clock_gettime, so the recorder's answer can be held to it.
 */
#include "witness.h"
#include <poll.h>
#include <pthread.h>

struct share { int compute_us, reads, wait_us; };

static void spin(int microseconds) {
    int64_t until = now() + microseconds * 1000L;
    while (now() < until) continue;
}
/* Nanoseconds that this thread was runnable and had no CPU (proc(5), schedstat). */
static long delayed(void) {
    char text[64] = "";
    int fd = open("/proc/thread-self/schedstat", O_RDONLY);
    MUST(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    long ran, delay;
    MUST(sscanf(text, "%ld %ld", &ran, &delay) == 2);
    return delay;
}
static void *lives(void *arg) {
    struct share *share = arg;
    int64_t born = now(), io = 0, waited = 0, t;
    static char buffers[3][1 << 20];
    char *buffer = buffers[share->wait_us % 3];
    int fd = open(in("data"), O_RDWR);
    for (int round = 0; round < 150; round++) {
        spin(share->compute_us);
        for (int i = 0; i < share->reads; i++) {
            t = now();
            MUST(pread(fd, buffer, 1 << 20, 0) == 1 << 20);
            io += now() - t;
        }
        t = now();
        poll(NULL, 0, share->wait_us / 1000);
        waited += now() - t;
    }
    close(fd);
    long lived = now() - born;
    printf("%ld %ld %ld %ld %ld\n", raw(SYS_gettid, 0, 0, 0, 0, 0, 0), lived, (long)io, (long)waited, delayed());
    return NULL;
}
int main(int argc, char **argv) {
    MUST(argc == 2);
    work = argv[1];
    int fd = open(in("data"), O_RDWR | O_CREAT, 0600);
    static char block[1 << 20];
    MUST(write(fd, block, sizeof block) == sizeof block);
    close(fd);
    struct share shares[3] = {{3000, 2, 1000}, {500, 10, 2000}, {1000, 1, 9000}};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, lives, &shares[i]);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return 0;
}
