// Four threads that compute, on fewer cores than threads.
// cause: storage_idle
// options: -pthread -lm
// held: yes
#include <math.h>
#include <pthread.h>
#include <stdio.h>

static void *work(void *sum) {
    for (int i = 0; i < 15000000; i++) *(double *)sum += sin(i);
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    double sums[32] = {0};
    FILE *log = fopen("log.txt", "w");
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, &sums[8 * i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    fprintf(log, "%f\n", sums[0]);
}
