/* Following requests through a storage system: what a component posts, from C.
 *
 * docs/requests.md says what the records mean, docs/sdk.md shows a component. Link with libiotrail.so:
 *
 *     cc component.c $(iotrail sdk --cflags --libs)
 *
 * Posting never blocks, never allocates and never fails: without a recording it does nothing, and what
 * finds no room is dropped and counted. All functions may be called from any thread; those that name
 * something (iotrail_symbol, iotrail_declare, iotrail_role) not from a signal handler.
 */
#ifndef IOTRAIL_H
#define IOTRAIL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A breadcrumb: what all records of one piece of work carry. 0 is none. */
typedef int64_t iotrail_crumb_t;
/* A text, by a number of this process. 0 is none. */
typedef uint32_t iotrail_symbol_t;

/* No value. */
#define IOTRAIL_NULL INT64_MIN

/* Joins the recording this program runs in, if it runs in one. Functions that name something call it.
 * Returns 1 if the program is being recorded. */
int iotrail_init(void);

/* The symbol of a text, the same each time; a hash and a comparison where it is known. Components, operations,
 * caches, peers and disks must be among the first 65,535 of a process. */
iotrail_symbol_t iotrail_symbol(const char *text);
/* What this process is in its system: "head", "storage-1". */
void iotrail_role(const char *name);
/* Names the file of an absolute path; its id, by which records name it. */
int64_t iotrail_file(const char *path);

/* A breadcrumb for a request that begins here; 0 while nothing is recorded. */
iotrail_crumb_t iotrail_crumb_new(void);
/* That of the calling thread. */
iotrail_crumb_t iotrail_crumb_get(void);
/* Sets that of the calling thread and returns the one before, to be set again afterwards. What the thread does
 * meanwhile, its calls and its CPU time, is for that one. Schedulers of fibers call it at each switch. */
iotrail_crumb_t iotrail_crumb_set(iotrail_crumb_t crumb);
/* As iotrail_crumb_set, for work that the thread took out of a queue or off a connection, in a loop that does nothing
 * else: its CPU time since it finished the work before, by which it got this one, is for this one too. */
iotrail_crumb_t iotrail_crumb_take(iotrail_crumb_t crumb);

enum iotrail_stitch { IOTRAIL_RPC = 0, IOTRAIL_SPLIT = 1, IOTRAIL_COALESCE = 2 };
/* `child`, here, works for `parent` on `node` (0: this node). */
void iotrail_stitch(iotrail_symbol_t node, iotrail_crumb_t parent, iotrail_crumb_t child,
                    enum iotrail_stitch kind, int64_t weight);
/* A part of this work on the same node: a new breadcrumb, stitched to it. */
iotrail_crumb_t iotrail_split(iotrail_crumb_t parent);
/* Serving what `parent` on `node` asked for: a new breadcrumb, stitched to it. */
iotrail_crumb_t iotrail_serving(iotrail_symbol_t node, iotrail_crumb_t parent);

/* Room for a traceparent and its NUL. */
#define IOTRAIL_TRACEPARENT 56
/* Room for a tracestate and its NUL. */
#define IOTRAIL_TRACESTATE 800
/* The headers (W3C Trace Context) of a message sent for `crumb`, a part of `request`. Returns 0, and empty texts,
 * while nothing is recorded. */
int iotrail_inject(iotrail_crumb_t request, iotrail_crumb_t crumb, char traceparent[IOTRAIL_TRACEPARENT],
                   char tracestate[IOTRAIL_TRACESTATE]);
/* A breadcrumb for serving a message with these headers (either may be NULL). If they can't be used, a new one:
 * the request begins here. */
iotrail_crumb_t iotrail_extract(const char *traceparent, const char *tracestate);

/* A record that is being made. Its fields are iotrail's. */
typedef struct iotrail_record {
    uint16_t number;
    uint8_t kind, extra;
    uint32_t small;
    uint64_t start, dur;
    iotrail_crumb_t crumb;
    int64_t words[4];
} iotrail_record_t;

enum iotrail_service { IOTRAIL_SERVER = 0, IOTRAIL_CLIENT = 1, IOTRAIL_INTERNAL = 2 };
/* A request arrives at a component (server), or is made to another one (client), now. */
iotrail_record_t iotrail_service_begin(enum iotrail_service kind, iotrail_symbol_t component,
                                       iotrail_symbol_t op, iotrail_crumb_t crumb);
/* Which file and bytes it is about; IOTRAIL_NULL what isn't known. */
void iotrail_service_about(iotrail_record_t *service, int64_t file, int64_t pos, int64_t length);
/* It is answered: posts its row. `client` is the user on whose behalf it was (only where it enters the system,
 * else 0), `status` 0 or an error number. */
void iotrail_service_end(iotrail_record_t *service, iotrail_symbol_t client, int status);

enum iotrail_buffer {
    IOTRAIL_READ_HIT = 0,
    IOTRAIL_READ_MISS = 1,
    IOTRAIL_WRITE = 2,
    IOTRAIL_READ_AHEAD = 3,
    IOTRAIL_FLUSH = 4,
    IOTRAIL_EVICT = 5
};
/* One access to a buffer cache. */
void iotrail_buffer(iotrail_symbol_t component, iotrail_symbol_t cache, enum iotrail_buffer kind,
                    iotrail_crumb_t crumb, int64_t file, int64_t pos, int64_t length);
/* One message, sent now. */
void iotrail_transmit(iotrail_symbol_t sender, iotrail_symbol_t receiver, iotrail_crumb_t crumb, int64_t length);

/* A request to a disk: queued, given to the disk, completed (which posts its row). */
iotrail_record_t iotrail_disk_begin(iotrail_symbol_t dev, iotrail_symbol_t op, iotrail_crumb_t crumb,
                                    int64_t pos, int64_t length);
void iotrail_disk_issued(iotrail_record_t *disk);
void iotrail_disk_end(iotrail_record_t *disk);

/* Declares a record type, which becomes a table. `description` has a line "NAME<tab>MEANING", and for each column
 * "NAME<tab>TYPE<tab>UNIT<tab>MEANING" with a type of BIGINT, DOUBLE, VARCHAR (at most 32). Returns the type, or
 * less than 0: -1 the description is wrong, -2 another one of this name was declared, -3 too many types,
 * -4 no memory. */
int iotrail_declare(const char *description);
/* Whether records of a type are wanted now. */
int iotrail_on(int type);
/* Counter ticks now. */
uint64_t iotrail_ticks(void);
/* Posts a record of this instant, or of what began at `start`: a value for each column, in order (a symbol as
 * it is, a double by iotrail_real, IOTRAIL_NULL for none). */
void iotrail_post(int type, iotrail_crumb_t crumb, const int64_t *values, size_t count);
void iotrail_post_since(uint64_t start, int type, iotrail_crumb_t crumb, const int64_t *values, size_t count);

/* A double as a value. */
static inline int64_t iotrail_real(double value) {
    union {
        double real;
        int64_t bits;
    } both;
    both.real = value + 0.0; /* minus zero has the bits of IOTRAIL_NULL */
    return both.bits;
}

#ifdef __cplusplus
}
#endif

#endif
