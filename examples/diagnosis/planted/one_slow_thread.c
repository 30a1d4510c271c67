// Eight threads share the reading, but one has most of the files.
// cause: slow_thread
// where: part
// options: -pthread
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *work(void *number) {
    static __thread char block[1 << 20];
    char name[32];
    snprintf(name, sizeof name, "part%ld", (long)number);
    int part = open(name, O_RDWR | O_CREAT, 0644);
    int pieces = (long)number == 3 ? 1200 : 60;
    for (int i = 0; i < pieces; i++)
        if (pwrite(part, block, sizeof block, (off_t)i << 20) < 0) exit(1);
    return NULL;
}

int main(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}
