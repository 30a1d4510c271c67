// Eight threads that take one lock and sleep in it.
// cause: lock_waits
// where: contended_mutex
// options: -pthread
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *nothing) {
    for (int i = 0; i < 40; i++) {
        pthread_mutex_lock(&lock);
        usleep(5000);
        pthread_mutex_unlock(&lock);
        usleep(100);
    }
    return nothing;
}

int main(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}
