/* An MPI program for four ranks that says what its rows must be when it is recorded with --causal: ARGV[1]/rank-N has a line
   a row, "CALL COMMUNICATOR PEER TAG LENGTH SEQ RESULT [FLAGS]", where "-" is null and "*" whatever it is. A communicator is a name
   that is the same in all its ranks. "last RANK TAG" is what the program saw of the row before. With "threads" for ARGV[2] two
   threads of each rank send at once instead. */
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONE LONG_MIN
#define ANY (LONG_MIN + 1)
#define CHECK(call) check(call, __LINE__)

struct comm {
    MPI_Comm comm;
    const char *name;
    long next;     /* collective calls so far */
    int ranks[8];  /* of MPI_COMM_WORLD */
};

static FILE *book;
static char buffer[1 << 20], other[1 << 20];
static int me, size;
static struct comm world = {.name = "world", .ranks = {0, 1, 2, 3}}, self = {.name = "self"};

static void check(int result, int line) {
    if (result == MPI_SUCCESS) return;
    fprintf(stderr, "causal.c:%d: MPI error %d\n", line, result);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void number(long value) {
    if (value == NONE) fputs(" -", book);
    else if (value == ANY) fputs(" *", book);
    else fprintf(book, " %ld", value);
}

static void row(const char *call, const char *comm, long peer, long tag, long length, long seq, long result) {
    fprintf(book, "%s %s", call, comm);
    number(peer), number(tag), number(length), number(seq), number(result);
    fputc('\n', book);
}

/* A handle as a number: a pointer in one implementation, an int in the other. */
#define HANDLE(request) (sizeof(request) == 4 ? (long)*(unsigned *)&(request) : *(long *)&(request))

static void collective(const char *call, struct comm *on, int root, long length, long result) {
    row(call, on->name, root < 0 ? NONE : on->ranks[root], NONE, length, on->next++, result);
}

static void status(MPI_Request before, long peer, long tag, long length) {
    row("MPI_Status", "-", peer, tag, length, HANDLE(before), 0);
}

static void waited(void) { row("MPI_Wait", "-", NONE, NONE, NONE, NONE, 0); }
static void tested(void) { row("MPI_Test", "-", NONE, NONE, NONE, NONE, 0); }

static void blocking(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    MPI_Status told;
    /* A ring, three messages of each tag, of which the second tag's are taken first. */
    for (int i = 0; i < 3; i++)
        for (int tag = 5; tag < 7; tag++) {
            CHECK(MPI_Send(buffer, 10 * tag + i, MPI_INT, next, tag, MPI_COMM_WORLD));
            row("MPI_Send", "world", next, tag, 4 * (10 * tag + i), NONE, 0);
        }
    for (int tag = 6; tag > 4; tag--)
        for (int i = 0; i < 3; i++) {
            CHECK(MPI_Recv(other, 1000, MPI_INT, last, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            row("MPI_Recv", "world", last, tag, 4 * (10 * tag + i), NONE, 0);
        }
    /* Rank 0 takes what comes. */
    if (me == 0) {
        for (int i = 0; i < 2 * (size - 1); i++) {
            CHECK(MPI_Recv(other, 1000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, i % 2 ? &told : MPI_STATUS_IGNORE));
            row("MPI_Recv", "world", ANY, ANY, ANY, NONE, 0);
            if (i % 2) fprintf(book, "last %d %d\n", told.MPI_SOURCE, told.MPI_TAG);
        }
    } else
        for (int i = 0; i < 2; i++) {
            CHECK(MPI_Ssend(buffer, 100 * me + i, MPI_BYTE, 0, 20 + i, MPI_COMM_WORLD));
            row("MPI_Ssend", "world", 0, 20 + i, 100 * me + i, NONE, 0);
        }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    collective("MPI_Barrier", &world, -1, NONE, 0);
    static char room[4096 + MPI_BSEND_OVERHEAD];
    void *back;
    int bytes;
    MPI_Buffer_attach(room, sizeof room);
    CHECK(MPI_Bsend(buffer, 33, MPI_CHAR, next, 8, MPI_COMM_WORLD));
    row("MPI_Send", "world", next, 8, 33, NONE, 0);
    CHECK(MPI_Recv(other, 33, MPI_CHAR, last, 8, MPI_COMM_WORLD, &told));
    row("MPI_Recv", "world", last, 8, 33, NONE, 0);
    MPI_Buffer_detach(&back, &bytes);
    CHECK(MPI_Sendrecv(buffer, 7, MPI_DOUBLE, next, 9, other, 100, MPI_DOUBLE, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    row("MPI_Isend", "world", next, 9, 56, NONE, 0);
    row("MPI_Sendrecv", "world", last, 9, 56, NONE, 0);
    CHECK(MPI_Sendrecv_replace(buffer, 11, MPI_BYTE, last, 10, next, 10, MPI_COMM_WORLD, &told));
    row("MPI_Isend", "world", last, 10, 11, NONE, 0);
    row("MPI_Sendrecv", "world", next, 10, 11, NONE, 0);
    CHECK(MPI_Send(buffer, 5, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    row("MPI_Send", "world", NONE, 1, NONE, NONE, 0);
    CHECK(MPI_Recv(other, 5, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    row("MPI_Recv", "world", NONE, NONE, NONE, NONE, 0);
    /* An error: what is received is longer than there is room for. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Request request;
    CHECK(MPI_Isend(buffer, 8, MPI_BYTE, 0, 2, MPI_COMM_SELF, &request));
    row("MPI_Isend", "self", me, 2, 8, NONE, HANDLE(request));
    MPI_Request before = request;
    int failed = MPI_Recv(other, 4, MPI_BYTE, 0, 2, MPI_COMM_SELF, MPI_STATUS_IGNORE), class;
    MPI_Error_class(failed, &class);
    if (class != MPI_ERR_TRUNCATE) MPI_Abort(MPI_COMM_WORLD, 2);
    row("MPI_Recv", "self", me, 2, NONE, NONE, failed);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    waited();
    status(before, NONE, NONE, NONE);
}

/* Begins to receive from all others and to send to them: requests in `all`, the receives first. */
static int begin(struct comm *on, int tag, MPI_Request *all, int wild) {
    int n = 0;
    for (int r = 0; r < size; r++)
        if (r != me) {
            CHECK(MPI_Irecv(other + 4096 * r, 4096, MPI_BYTE, wild ? MPI_ANY_SOURCE : r, wild ? MPI_ANY_TAG : tag, on->comm, &all[n]));
            row("MPI_Irecv", on->name, wild ? -1 : on->ranks[r], wild ? NONE : tag, 4096, NONE, HANDLE(all[n]));
            n++;
        }
    for (int r = 0; r < size; r++)
        if (r != me) {
            CHECK((r % 2 ? MPI_Isend : MPI_Issend)(buffer, 100 * me + r, MPI_BYTE, r, tag, on->comm, &all[n]));
            row(r % 2 ? "MPI_Isend" : "MPI_Issend", on->name, on->ranks[r], tag, 100 * me + r, NONE, HANDLE(all[n]));
            n++;
        }
    return n;
}

/* What a request of `begin` has for its status. */
static void complete(MPI_Request before, int index, int tag, int wild) {
    if (index >= size - 1) status(before, NONE, NONE, NONE);
    else if (wild) status(before, ANY, tag, ANY);
    else {
        int from = index < me ? index : index + 1;
        status(before, from, tag, 100 * from + me);
    }
}

static void requests(void) {
    MPI_Request all[16], before[16], null = MPI_REQUEST_NULL;
    MPI_Status told[16];
    int indices[16], index, flag, done, left;
    for (int wild = 0; wild < 2; wild++) {
        int n = begin(&world, 30, all, wild);
        memcpy(before, all, sizeof all);
        CHECK(MPI_Waitall(n, all, wild ? told : MPI_STATUSES_IGNORE));
        waited();
        for (int i = 0; i < n; i++) complete(before[i], i, 30, wild);
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        collective("MPI_Barrier", &world, -1, NONE, 0);

        n = left = begin(&world, 31, all, wild);
        memcpy(before, all, sizeof all);
        while (left--) {
            CHECK(MPI_Waitany(n, all, &index, left % 2 ? told : MPI_STATUS_IGNORE));
            waited();
            complete(before[index], index, 31, wild);
        }
        CHECK(MPI_Waitany(n, all, &index, MPI_STATUS_IGNORE));
        waited();
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        collective("MPI_Barrier", &world, -1, NONE, 0);

        n = left = begin(&world, 32, all, wild);
        memcpy(before, all, sizeof all);
        while (left) {
            CHECK(MPI_Testsome(n, all, &done, indices, wild ? MPI_STATUSES_IGNORE : told));
            left -= done;
            if (done) tested();
            for (int i = 0; i < done; i++) complete(before[indices[i]], indices[i], 32, wild);
        }
        CHECK(MPI_Testsome(n, all, &done, indices, MPI_STATUSES_IGNORE));
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        collective("MPI_Barrier", &world, -1, NONE, 0);

        n = left = begin(&world, 33, all, wild);
        memcpy(before, all, sizeof all);
        while (left) {
            CHECK(MPI_Waitsome(n, all, &done, indices, MPI_STATUSES_IGNORE));
            left -= done;
            waited();
            for (int i = 0; i < done; i++) complete(before[indices[i]], indices[i], 33, wild);
        }
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        collective("MPI_Barrier", &world, -1, NONE, 0);

        n = left = begin(&world, 34, all, wild);
        memcpy(before, all, sizeof all);
        while (left) {
            CHECK(MPI_Testany(n, all, &index, &flag, MPI_STATUS_IGNORE));
            if (flag) left--, tested(), complete(before[index], index, 34, wild);
        }
        CHECK(MPI_Testany(n, all, &index, &flag, MPI_STATUS_IGNORE));
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        collective("MPI_Barrier", &world, -1, NONE, 0);

        n = begin(&world, 35, all, wild);
        memcpy(before, all, sizeof all);
        do CHECK(MPI_Testall(n, all, &flag, MPI_STATUSES_IGNORE));
        while (!flag);
        tested();
        for (int i = 0; i < n; i++) complete(before[i], i, 35, wild);
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        collective("MPI_Barrier", &world, -1, NONE, 0);

        n = begin(&world, 36, all, wild);
        memcpy(before, all, sizeof all);
        for (int i = n - 1; i >= 0; i--) {
            if (i % 2) {
                CHECK(MPI_Wait(&all[i], told));
                waited();
            } else {
                do CHECK(MPI_Test(&all[i], &flag, MPI_STATUS_IGNORE));
                while (!flag);
                tested();
            }
            complete(before[i], i, 36, wild);
        }
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        collective("MPI_Barrier", &world, -1, NONE, 0);
    }
    /* Nothing to complete. */
    CHECK(MPI_Test(&null, &flag, MPI_STATUS_IGNORE));
    CHECK(MPI_Wait(&null, MPI_STATUS_IGNORE));
    waited();
    CHECK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    /* Nothing came. */
    CHECK(MPI_Irecv(other, 4, MPI_BYTE, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, all));
    row("MPI_Irecv", "world", -1, 77, 4, NONE, HANDLE(all[0]));
    CHECK(MPI_Cancel(all));
    CHECK(MPI_Wait(all, told));
    waited();
    MPI_Test_cancelled(told, &flag);
    if (!flag) MPI_Abort(MPI_COMM_WORLD, 3);
    /* More than fit on the stack. */
    enum { MANY = 300 };
    static MPI_Request many[2 * MANY], kept[2 * MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK(MPI_Irecv(other + i, 1, MPI_BYTE, MPI_ANY_SOURCE, 40, MPI_COMM_SELF, &many[i]));
        row("MPI_Irecv", "self", -1, 40, 1, NONE, HANDLE(many[i]));
    }
    for (int i = MANY; i < 2 * MANY; i++) {
        CHECK(MPI_Isend(buffer, 1, MPI_BYTE, 0, 40, MPI_COMM_SELF, &many[i]));
        row("MPI_Isend", "self", me, 40, 1, NONE, HANDLE(many[i]));
    }
    memcpy(kept, many, sizeof many);
    CHECK(MPI_Waitall(2 * MANY, many, MPI_STATUSES_IGNORE));
    waited();
    for (int i = 0; i < 2 * MANY; i++) {
        if (i < MANY) status(kept[i], me, 40, 1);
        else status(kept[i], NONE, NONE, NONE);
    }
}

static void persistent(void) {
    MPI_Request pair[2], before[2];
    int next = (me + 1) % size, last = (me + size - 1) % size, flag;
    CHECK(MPI_Recv_init(other, 100, MPI_SHORT, MPI_ANY_SOURCE, 50, MPI_COMM_WORLD, &pair[0]));
    CHECK(MPI_Ssend_init(buffer, 21, MPI_SHORT, next, 50, MPI_COMM_WORLD, &pair[1]));
    memcpy(before, pair, sizeof pair);
    /* Not started: nothing to complete. */
    CHECK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
    waited();
    for (int i = 0; i < 5; i++) {
        if (i % 2) CHECK(MPI_Startall(2, pair));
        else CHECK(MPI_Start(&pair[0])), CHECK(MPI_Start(&pair[1]));
        row("MPI_Irecv", "world", -1, 50, 200, NONE, HANDLE(pair[0]));
        row("MPI_Issend", "world", next, 50, 42, NONE, HANDLE(pair[1]));
        if (i % 3) {
            CHECK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
            waited();
            status(before[0], last, 50, 42), status(before[1], NONE, NONE, NONE);
        } else
            for (int k = 0; k < 2; k++) {
                do CHECK(MPI_Test(&pair[k], &flag, MPI_STATUS_IGNORE));
                while (!flag);
                tested();
                if (k) status(before[1], NONE, NONE, NONE);
                else status(before[0], last, 50, 42);
            }
    }
    CHECK(MPI_Test(&pair[0], &flag, MPI_STATUS_IGNORE));
    CHECK(MPI_Request_free(&pair[0]));
    CHECK(MPI_Request_free(&pair[1]));
}

static void probes(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size, flag = 0;
    MPI_Message message;
    MPI_Request request;
    for (int i = 0; i < 4; i++) {
        CHECK(MPI_Send(buffer, 60 + i, MPI_BYTE, next, 60, MPI_COMM_WORLD));
        row("MPI_Send", "world", next, 60, 60 + i, NONE, 0);
    }
    CHECK(MPI_Probe(MPI_ANY_SOURCE, 60, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    row("MPI_Probe", "world", last, 60, 60, NONE, 0);
    while (!flag) CHECK(MPI_Iprobe(last, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    row("MPI_Probe", "world", last, 60, 60, NONE, 0);
    CHECK(MPI_Mprobe(MPI_ANY_SOURCE, 60, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    long first = HANDLE(message);
    row("MPI_Mprobe", "world", last, 60, 60, NONE, first);
    CHECK(MPI_Recv(other, 100, MPI_BYTE, last, 60, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    row("MPI_Recv", "world", last, 60, 61, NONE, 0);
    CHECK(MPI_Mrecv(other, 100, MPI_BYTE, &message, MPI_STATUS_IGNORE));
    row("MPI_Mrecv", "world", last, 60, 60, first, 0);
    do CHECK(MPI_Improbe(last, 60, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
    while (!flag);
    first = HANDLE(message);
    row("MPI_Mprobe", "world", last, 60, 62, NONE, first);
    CHECK(MPI_Imrecv(other, 100, MPI_BYTE, &message, &request));
    row("MPI_Imrecv", "world", NONE, NONE, 100, first, HANDLE(request));
    MPI_Request before = request;
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    waited();
    status(before, last, 60, 62);
    CHECK(MPI_Recv(other, 100, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    row("MPI_Recv", "world", last, 60, 63, NONE, 0);
}

/* A message on each communicator, from each member to the next one. */
static void circle(struct comm *on, int tag) {
    int rank, members;
    MPI_Comm_rank(on->comm, &rank), MPI_Comm_size(on->comm, &members);
    int next = (rank + 1) % members, last = (rank + members - 1) % members;
    CHECK(MPI_Sendrecv(buffer, tag, MPI_BYTE, next, tag, other, 4096, MPI_BYTE, last, tag, on->comm, MPI_STATUS_IGNORE));
    row("MPI_Isend", on->name, on->ranks[next], tag, tag, NONE, 0);
    row("MPI_Sendrecv", on->name, on->ranks[last], tag, tag, NONE, 0);
}

static void communicators(void) {
    struct comm a = {.name = "a", .ranks = {0, 1, 2, 3}}, b = {.name = "b", .ranks = {0, 1, 2, 3}};
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &a.comm));
    collective("MPI_Comm_split", &world, -1, NONE, 0);
    MPI_Request request, pair[2], before[2];
    CHECK(MPI_Comm_idup(MPI_COMM_WORLD, &b.comm, &request));
    collective("MPI_Comm_idup", &world, -1, NONE, HANDLE(request));
    before[0] = request;
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    waited();
    status(before[0], NONE, NONE, NONE);
    /* Each rank uses them in its own order. */
    struct comm *first = me % 2 ? &a : &b, *second = me % 2 ? &b : &a;
    CHECK(MPI_Ibarrier(first->comm, &pair[0]));
    collective("MPI_Ibarrier", first, -1, NONE, HANDLE(pair[0]));
    CHECK(MPI_Ibarrier(second->comm, &pair[1]));
    collective("MPI_Ibarrier", second, -1, NONE, HANDLE(pair[1]));
    memcpy(before, pair, sizeof pair);
    CHECK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
    waited();
    status(before[0], NONE, NONE, NONE), status(before[1], NONE, NONE, NONE);
    /* A communicator of each is made at once: in another order too. */
    struct comm c = {.name = "c", .ranks = {0, 1, 2, 3}}, d = {.name = "d", .ranks = {0, 1, 2, 3}};
    CHECK(MPI_Comm_idup(first->comm, first == &a ? &c.comm : &d.comm, &pair[0]));
    collective("MPI_Comm_idup", first, -1, NONE, HANDLE(pair[0]));
    CHECK(MPI_Comm_idup(second->comm, second == &a ? &c.comm : &d.comm, &pair[1]));
    collective("MPI_Comm_idup", second, -1, NONE, HANDLE(pair[1]));
    memcpy(before, pair, sizeof pair);
    CHECK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
    waited();
    status(before[0], NONE, NONE, NONE), status(before[1], NONE, NONE, NONE);
    circle(&c, 70), circle(&d, 71), circle(&a, 72), circle(&b, 73);

    /* Even and odd ranks, backwards. */
    struct comm half = {.name = me % 2 ? "odd" : "even", .ranks = {2 + me % 2, me % 2}};
    CHECK(MPI_Comm_split(a.comm, me % 2, -me, &half.comm));
    collective("MPI_Comm_split", &a, -1, NONE, 0);
    circle(&half, 74);
    for (int i = 0; i < (me % 2 ? 3 : 5); i++) {
        CHECK(MPI_Barrier(half.comm));
        collective("MPI_Barrier", &half, -1, NONE, 0);
    }
    CHECK(MPI_Bcast(buffer, 12, MPI_BYTE, 1, half.comm));
    collective("MPI_Bcast", &half, 1, 12, 0);

    /* Ranks in no order, made by Comm_create; the others get none. */
    int chosen[] = {0, 3, 1};
    MPI_Group group, some;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_incl(group, 3, chosen, &some);
    struct comm three = {.name = "three", .ranks = {0, 3, 1}};
    CHECK(MPI_Comm_create(MPI_COMM_WORLD, some, &three.comm));
    collective("MPI_Comm_split", &world, -1, NONE, 0);
    if (me != 2) {
        circle(&three, 75);
        MPI_Request wild;
        CHECK(MPI_Irecv(other, 9, MPI_BYTE, MPI_ANY_SOURCE, 76, three.comm, &wild));
        row("MPI_Irecv", "three", -1, 76, 9, NONE, HANDLE(wild));
        int rank;
        MPI_Comm_rank(three.comm, &rank);
        CHECK(MPI_Send(buffer, 9, MPI_BYTE, (rank + 2) % 3, 76, three.comm));
        row("MPI_Send", "three", three.ranks[(rank + 2) % 3], 76, 9, NONE, 0);
        before[0] = wild;
        /* What is under way when a communicator is freed is completed all the same. */
        CHECK(MPI_Comm_free(&three.comm));
        CHECK(MPI_Wait(&wild, MPI_STATUS_IGNORE));
        waited();
        status(before[0], three.ranks[(rank + 1) % 3], 76, 9);
        /* Twice by its members alone. */
        for (int i = 0; i < 2; i++) {
            struct comm own = {.name = i ? "group-1" : "group-0", .ranks = {0, 3, 1}};
            CHECK(MPI_Comm_create_group(MPI_COMM_WORLD, some, 80, &own.comm));
            collective("MPI_Comm_split", &own, -1, NONE, 0);
            CHECK(MPI_Barrier(own.comm));
            collective("MPI_Barrier", &own, -1, NONE, 0);
            circle(&own, 81 + i);
            CHECK(MPI_Comm_free(&own.comm));
        }
    }
    MPI_Group_free(&some), MPI_Group_free(&group);

    /* Between even and odd ranks, and merged. */
    struct comm inter = {.name = "inter", .ranks = {3 - me % 2, 1 - me % 2}}, merged = {.name = "merged", .ranks = {2, 0, 3, 1}};
    CHECK(MPI_Intercomm_create(half.comm, 0, MPI_COMM_WORLD, me % 2 ? 2 : 3, 90, &inter.comm));
    collective("MPI_Comm_split", &inter, -1, NONE, 0);
    int rank;
    MPI_Comm_rank(inter.comm, &rank);
    CHECK(MPI_Sendrecv(buffer, 91, MPI_BYTE, rank, 91, other, 100, MPI_BYTE, MPI_ANY_SOURCE, 91, inter.comm, MPI_STATUS_IGNORE));
    row("MPI_Isend", "inter", inter.ranks[rank], 91, 91, NONE, 0);
    row("MPI_Sendrecv", "inter", inter.ranks[rank], 91, 91, NONE, 0);
    CHECK(MPI_Barrier(inter.comm));
    collective("MPI_Barrier", &inter, -1, NONE, 0);
    CHECK(MPI_Bcast(buffer, 4, MPI_BYTE, me % 2 ? 0 : (rank ? MPI_PROC_NULL : MPI_ROOT), inter.comm));
    row("MPI_Bcast", "inter", me % 2 ? 2 : (rank ? NONE : me), NONE, NONE, inter.next++, 0);
    CHECK(MPI_Intercomm_merge(inter.comm, me % 2, &merged.comm));
    collective("MPI_Comm_split", &inter, -1, NONE, 0);
    circle(&merged, 92);

    /* Topologies. */
    int sizes[] = {2, 2}, periods[] = {1, 1}, remain[] = {0, 1};
    struct comm cart = {.name = "cart", .ranks = {0, 1, 2, 3}}, line = {.name = me < 2 ? "line-0" : "line-1", .ranks = {me & 2, (me & 2) + 1}};
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 0, &cart.comm));
    collective("MPI_Comm_split", &world, -1, NONE, 0);
    CHECK(MPI_Cart_sub(cart.comm, remain, &line.comm));
    collective("MPI_Comm_split", &cart, -1, NONE, 0);
    circle(&line, 93);
    int to[8];
    CHECK(MPI_Neighbor_allgather(&me, 1, MPI_INT, to, 1, MPI_INT, cart.comm));
    collective("MPI_Neighbor_alltoall", &cart, -1, 4, 0);
    CHECK(MPI_Ineighbor_alltoall(buffer, 2, MPI_INT, other, 2, MPI_INT, cart.comm, &request));
    collective("MPI_Ineighbor_alltoall", &cart, -1, 8, HANDLE(request));
    before[0] = request;
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    waited();
    status(before[0], NONE, NONE, NONE);
    struct comm graph = {.name = "graph", .ranks = {0, 1, 2, 3}};
    int from[] = {(me + 1) % size}, toward[] = {(me + size - 1) % size}, weight[] = {1};
    CHECK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, from, weight, 1, toward, weight, MPI_INFO_NULL, 0, &graph.comm));
    collective("MPI_Comm_split", &world, -1, NONE, 0);
    circle(&graph, 94);
    struct comm node = {.name = "node", .ranks = {3, 2, 1, 0}};
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -me, MPI_INFO_NULL, &node.comm));
    collective("MPI_Comm_split", &world, -1, NONE, 0);
    circle(&node, 95);

    struct comm *made[] = {&a, &b, &c, &d, &half, &inter, &merged, &cart, &line, &graph, &node};
    for (unsigned i = 0; i < sizeof made / sizeof *made; i++) {
        if (i % 3) {
            CHECK(MPI_Comm_free(&made[i]->comm));
            continue;
        }
        CHECK(MPI_Comm_disconnect(&made[i]->comm));
        collective("MPI_Comm_split", made[i], -1, NONE, 0);
    }
    /* Handles are used again. */
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "again-%d", i);
        struct comm again = {.name = name, .ranks = {0, 1, 2, 3}};
        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &again.comm));
        collective("MPI_Comm_split", &world, -1, NONE, 0);
        circle(&again, 96);
        CHECK(MPI_Comm_free(&again.comm));
    }
}

#define COLLECTIVE(name, root, length, function, ...) do { \
    CHECK(MPI_##function(__VA_ARGS__, MPI_COMM_WORLD)); collective("MPI_" name, &world, root, length, 0); } while (0)
#define BEGINS(name, root, length, function, ...) do { MPI_Request r_, before_; \
    CHECK(MPI_##function(__VA_ARGS__, MPI_COMM_WORLD, &r_)); collective("MPI_" name, &world, root, length, HANDLE(r_)); \
    before_ = r_; CHECK(MPI_Wait(&r_, MPI_STATUS_IGNORE)); waited(); status(before_, NONE, NONE, NONE); } while (0)

static void collectives(void) {
    int *in = (int *)buffer, *out = (int *)other, root = 2;
    int counts[] = {1, 2, 3, 4}, places[] = {0, 1, 3, 6}, bytes[] = {0, 4, 12, 24};
    MPI_Datatype types[] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT};
    int same[] = {2, 2, 2, 2};
    COLLECTIVE("Bcast", root, 40, Bcast, in, 10, MPI_INT, root);
    COLLECTIVE("Reduce", root, 40, Reduce, in, out, 10, MPI_INT, MPI_SUM, root);
    COLLECTIVE("Allreduce", -1, 40, Allreduce, in, out, 10, MPI_INT, MPI_SUM);
    COLLECTIVE("Allreduce", -1, 40, Allreduce, MPI_IN_PLACE, out, 10, MPI_INT, MPI_SUM);
    COLLECTIVE("Gather", root, 8, Gather, in, 2, MPI_INT, out, 2, MPI_INT, root);
    if (me == root) COLLECTIVE("Gather", root, NONE, Gather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, 2, MPI_INT, root);
    else COLLECTIVE("Gather", root, 8, Gather, in, 2, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root);
    COLLECTIVE("Gather", root, 4 * counts[me], Gatherv, in, counts[me], MPI_INT, out, counts, places, MPI_INT, root);
    COLLECTIVE("Scatter", root, 8, Scatter, in, 2, MPI_INT, out, 2, MPI_INT, root);
    COLLECTIVE("Scatter", root, 4 * counts[me], Scatterv, in, counts, places, MPI_INT, out, counts[me], MPI_INT, root);
    COLLECTIVE("Allgather", -1, 12, Allgather, in, 3, MPI_INT, out, 3, MPI_INT);
    COLLECTIVE("Allgather", -1, 4 * counts[me], Allgatherv, in, counts[me], MPI_INT, out, counts, places, MPI_INT);
    COLLECTIVE("Alltoall", -1, 4 * 4 * 3, Alltoall, in, 3, MPI_INT, out, 3, MPI_INT);
    COLLECTIVE("Alltoall", -1, NONE, Alltoallv, in, same, places, MPI_INT, out, same, places, MPI_INT);
    COLLECTIVE("Alltoall", -1, NONE, Alltoallw, in, same, bytes, types, out, same, bytes, types);
    COLLECTIVE("Scan", -1, 4, Scan, in, out, 1, MPI_INT, MPI_MAX);
    COLLECTIVE("Scan", -1, 4, Exscan, in, out, 1, MPI_INT, MPI_MAX);
    COLLECTIVE("Scan", -1, NONE, Reduce_scatter, in, out, counts, MPI_INT, MPI_MAX);
    COLLECTIVE("Scan", -1, 4 * 4 * 2, Reduce_scatter_block, in, out, 2, MPI_INT, MPI_MAX);
    BEGINS("Ibcast", root, 40, Ibcast, in, 10, MPI_INT, root);
    BEGINS("Ireduce", root, 40, Ireduce, in, out, 10, MPI_INT, MPI_SUM, root);
    BEGINS("Iallreduce", -1, 40, Iallreduce, in, out, 10, MPI_INT, MPI_SUM);
    BEGINS("Igather", root, 8, Igather, in, 2, MPI_INT, out, 2, MPI_INT, root);
    BEGINS("Igather", root, 4 * counts[me], Igatherv, in, counts[me], MPI_INT, out, counts, places, MPI_INT, root);
    BEGINS("Iscatter", root, 8, Iscatter, in, 2, MPI_INT, out, 2, MPI_INT, root);
    BEGINS("Iscatter", root, 4 * counts[me], Iscatterv, in, counts, places, MPI_INT, out, counts[me], MPI_INT, root);
    BEGINS("Iallgather", -1, 12, Iallgather, in, 3, MPI_INT, out, 3, MPI_INT);
    BEGINS("Iallgather", -1, 4 * counts[me], Iallgatherv, in, counts[me], MPI_INT, out, counts, places, MPI_INT);
    BEGINS("Ialltoall", -1, 4 * 4 * 3, Ialltoall, in, 3, MPI_INT, out, 3, MPI_INT);
    BEGINS("Ialltoall", -1, NONE, Ialltoallv, in, same, places, MPI_INT, out, same, places, MPI_INT);
    BEGINS("Ialltoall", -1, NONE, Ialltoallw, in, same, bytes, types, out, same, bytes, types);
    BEGINS("Iscan", -1, 4, Iscan, in, out, 1, MPI_INT, MPI_MAX);
    BEGINS("Iscan", -1, 4, Iexscan, in, out, 1, MPI_INT, MPI_MAX);
    BEGINS("Iscan", -1, NONE, Ireduce_scatter, in, out, counts, MPI_INT, MPI_MAX);
    BEGINS("Iscan", -1, 4 * 4 * 2, Ireduce_scatter_block, in, out, 2, MPI_INT, MPI_MAX);
}

/* Operations of flock(2). */
enum { SHARE = 1, TAKE = 2, GIVE_BACK = 8 };

static void window(const char *call, long peer) {
    row(call, "window", peer, NONE, NONE, NONE, 0);
}

static void locks(const char *call, const char *on, long peer, long operation) {
    fprintf(book, "%s %s", call, on);
    number(peer), number(NONE), number(NONE), number(NONE), number(0), number(operation);
    fputc('\n', book);
}

/* A call with a group, whose ranks of MPI_COMM_WORLD are given in their order. */
static void with_group(const char *call, const char *on, const int *ranks, int count) {
    row(call, on, NONE, NONE, NONE, NONE, 0);
    for (int i = 0; i < count; i++) row("MPI_Group", on, ranks[i], NONE, NONE, NONE, 0);
}

static void epochs(MPI_Win w) {
    int others[8], count = 0, flag = 0;
    MPI_Group all, rest;
    for (int r = 0; r < size; r++)
        if (r != me) others[count++] = r;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count, others, &rest);
    for (int i = 0; i < 4; i++) {
        CHECK(MPI_Win_post(rest, 0, w));
        with_group("MPI_Win_post", "window", others, count);
        CHECK(MPI_Win_start(rest, 0, w));
        with_group("MPI_Win_start", "window", others, count);
        CHECK(MPI_Put(&me, 1, MPI_INT, (me + 1) % size, me, 1, MPI_INT, w));
        CHECK(MPI_Win_complete(w));
        window("MPI_Win_complete", NONE);
        if (i % 2) {
            do CHECK(MPI_Win_test(w, &flag));
            while (!flag);
        } else CHECK(MPI_Win_wait(w));
        window("MPI_Win_wait", NONE);
    }
    MPI_Group_free(&rest), MPI_Group_free(&all);
}

/* A window whose ranks are those of MPI_COMM_WORLD backwards. */
static void backwards(void) {
    static int memory[16];
    struct comm back = {.name = "back", .ranks = {3, 2, 1, 0}},
                win = {.name = "window-of-back", .ranks = {3, 2, 1, 0}};
    MPI_Win w;
    MPI_Group all, one;
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &back.comm));
    collective("MPI_Comm_split", &world, -1, NONE, 0);
    CHECK(MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, back.comm, &w));
    collective("MPI_Win_fence", &back, -1, NONE, 0);
    MPI_Win_get_group(w, &all);
    MPI_Group_incl(all, 1, &me, &one);
    int partner = size - 1 - me;
    CHECK(MPI_Win_post(one, 0, w));
    with_group("MPI_Win_post", win.name, &partner, 1);
    CHECK(MPI_Win_start(one, 0, w));
    with_group("MPI_Win_start", win.name, &partner, 1);
    CHECK(MPI_Win_complete(w));
    row("MPI_Win_complete", win.name, NONE, NONE, NONE, NONE, 0);
    CHECK(MPI_Win_wait(w));
    row("MPI_Win_wait", win.name, NONE, NONE, NONE, NONE, 0);
    CHECK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w));
    locks("MPI_Win_lock", win.name, 3, SHARE);
    CHECK(MPI_Win_unlock(0, w));
    locks("MPI_Win_unlock", win.name, 3, GIVE_BACK);
    MPI_Group_free(&one), MPI_Group_free(&all);
    CHECK(MPI_Win_free(&w));
    collective("MPI_Win_fence", &win, -1, NONE, 0);
    CHECK(MPI_Comm_free(&back.comm));
}

static void one_sided(void) {
    static int memory[16];
    struct comm win = {.name = "window", .ranks = {0, 1, 2, 3}};
    int next = (me + 1) % size;
    MPI_Win w;
    CHECK(MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &w));
    collective("MPI_Win_fence", &world, -1, NONE, 0);
    for (int i = 0; i < 2; i++) {
        CHECK(MPI_Win_fence(0, w));
        collective("MPI_Win_fence", &win, -1, NONE, 0);
        CHECK(MPI_Put(&me, 1, MPI_INT, next, me, 1, MPI_INT, w));
    }
    CHECK(MPI_Win_fence(0, w));
    collective("MPI_Win_fence", &win, -1, NONE, 0);
    epochs(w);
    for (int shared = 0; shared < 2; shared++) {
        CHECK(MPI_Win_lock(shared ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, next, 0, w));
        locks("MPI_Win_lock", "window", next, shared ? SHARE : TAKE);
        CHECK(MPI_Put(&me, 1, MPI_INT, next, me, 1, MPI_INT, w));
        CHECK(MPI_Win_flush(next, w));
        window("MPI_Win_flush", next);
        CHECK(MPI_Win_flush_local(next, w));
        window("MPI_Win_flush", next);
        CHECK(MPI_Win_unlock(next, w));
        locks("MPI_Win_unlock", "window", next, GIVE_BACK);
    }
    CHECK(MPI_Win_lock_all(0, w));
    locks("MPI_Win_lock", "window", NONE, SHARE);
    CHECK(MPI_Win_flush_all(w));
    window("MPI_Win_flush", NONE);
    CHECK(MPI_Win_unlock_all(w));
    locks("MPI_Win_unlock", "window", NONE, GIVE_BACK);
    CHECK(MPI_Win_free(&w));
    collective("MPI_Win_fence", &win, -1, NONE, 0);
    backwards();
}

static void file(const char *path) {
    struct comm on = {.name = "file"};
    MPI_File f;
    MPI_Status told;
    MPI_Request request, before;
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    collective("MPI_File_write_all", &world, -1, NONE, 0);
    CHECK(MPI_File_set_size(f, 0));
    collective("MPI_File_write_all", &on, -1, NONE, 0);
    CHECK(MPI_File_set_view(f, 1000 * me, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    collective("MPI_File_write_all", &on, -1, NONE, 0);
    CHECK(MPI_File_write_at_all(f, 0, buffer, 1000, MPI_BYTE, MPI_STATUS_IGNORE));
    collective("MPI_File_write_all", &on, -1, 1000, 0);
    CHECK(MPI_File_sync(f));
    collective("MPI_File_write_all", &on, -1, NONE, 0);
    CHECK(MPI_File_read_all(f, other, 100, MPI_INT, &told));
    collective("MPI_File_write_all", &on, -1, 400, 0);
    CHECK(MPI_File_iwrite_at_all(f, 0, buffer, 500, MPI_BYTE, &request));
    collective("MPI_File_iwrite_all", &on, -1, 500, HANDLE(request));
    before = request;
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    waited();
    status(before, NONE, NONE, NONE);
    CHECK(MPI_File_write_at_all_begin(f, 0, buffer, 10, MPI_BYTE));
    collective("MPI_File_write_all", &on, -1, 10, 0);
    CHECK(MPI_File_write_at_all_end(f, buffer, MPI_STATUS_IGNORE));
    collective("MPI_File_write_all", &on, -1, NONE, 0);
    /* By itself: no collective call. */
    CHECK(MPI_File_write_at(f, 0, buffer, 10, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(MPI_File_close(&f));
    collective("MPI_File_write_all", &on, -1, NONE, 0);
}

/* Two threads play ping-pong with the next and the last rank, each on a communicator of its own. */
static void *play(void *argument) {
    MPI_Comm comm = *(MPI_Comm *)argument;
    char ball[8] = "ball";
    for (int i = 0; i < 200; i++) {
        MPI_Request pair[2];
        MPI_Irecv(ball, 8, MPI_BYTE, MPI_ANY_SOURCE, 1, comm, &pair[0]);
        MPI_Issend("ball", 5, MPI_BYTE, me ^ 1, 1, comm, &pair[1]);
        MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    }
    return NULL;
}

int main(int argc, char **argv) {
    char path[4096];
    int provided, threads = argc > 2 && !strcmp(argv[2], "threads");
    if (threads) MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    world.comm = MPI_COMM_WORLD, self.comm = MPI_COMM_SELF, self.ranks[0] = me;
    snprintf(path, sizeof path, "%s/rank-%d", argv[1], me);
    book = fopen(path, "w");
    fprintf(book, "pid %d\n", (int)getpid());
    collective("MPI_Init", &world, -1, NONE, 0);
    if (threads) {
        pthread_t player;
        MPI_Comm comms[2];
        for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        if (provided == MPI_THREAD_MULTIPLE) {
            pthread_create(&player, NULL, play, &comms[1]);
            play(&comms[0]);
            pthread_join(player, NULL);
        }
        for (int i = 0; i < 2; i++) MPI_Comm_free(&comms[i]);
        printf("%d\n", provided == MPI_THREAD_MULTIPLE);
    } else {
        blocking();
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        collective("MPI_Barrier", &world, -1, NONE, 0);
        requests();
        persistent();
        probes();
        communicators();
        collectives();
        one_sided();
        snprintf(path, sizeof path, "%s/shared", argv[1]);
        file(path);
    }
    MPI_Finalize();
    collective("MPI_Finalize", &world, -1, NONE, 0);
    fclose(book);
    return 0;
}
