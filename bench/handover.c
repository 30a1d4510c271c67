/* What a call costs by which threads wait for each other: pairs of them that never have to wait.
 *
 *   handover KIND PAIRS
 *
 * KIND is mutex, semaphore, condition, eventfd, pipe or mpi (a message to itself). Prints ns of a call: the median of
 * batches of 500 pairs, each of two calls.
 */
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 500 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int ends[2], counter;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void by_mutex(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void by_semaphore(void)
{
    sem_post(&semaphore);
    sem_wait(&semaphore);
}

static void by_condition(void)
{
    pthread_cond_signal(&condition);
    pthread_cond_broadcast(&condition);
}

static void by_eventfd(void)
{
    uint64_t one = 1;
    if (write(counter, &one, sizeof one) != sizeof one || read(counter, &one, sizeof one) != sizeof one) exit(1);
}

static void by_pipe(void)
{
    char block[64] = {0};
    if (write(ends[1], block, sizeof block) != sizeof block || read(ends[0], block, sizeof block) != sizeof block) exit(1);
}

static void by_mpi(void)
{
    char block[64] = {0};
    MPI_Send(block, sizeof block, MPI_CHAR, 0, 1, MPI_COMM_SELF);
    MPI_Recv(block, sizeof block, MPI_CHAR, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*pair)(void);
} kinds[] = {{"mutex", by_mutex},     {"semaphore", by_semaphore}, {"condition", by_condition},
             {"eventfd", by_eventfd}, {"pipe", by_pipe},           {"mpi", by_mpi}};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    void (*pair)(void) = NULL;
    for (size_t i = 0; argc == 3 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0) pair = kinds[i].pair;
    int batches = argc == 3 ? atoi(argv[2]) / BATCH : 0;
    if (!pair || batches < 1) {
        fprintf(stderr, "usage: handover KIND PAIRS\n");
        return 2;
    }
    sem_init(&semaphore, 0, 0);
    counter = eventfd(0, 0);
    if (counter < 0 || pipe(ends) < 0) {
        perror("handover");
        return 1;
    }
    if (pair == by_mpi) MPI_Init(NULL, NULL);
    double *took = malloc(batches * sizeof *took);
    for (int batch = 0; batch < batches; batch++) {
        double before = now();
        for (int i = 0; i < BATCH; i++) pair();
        took[batch] = (now() - before) / (2 * BATCH);
    }
    if (pair == by_mpi) MPI_Finalize();
    qsort(took, batches, sizeof *took, by_size);
    printf("%.2f\n", took[batches / 2]);
    return 0;
}
