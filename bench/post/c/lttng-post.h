/* The same records as LTTng-UST tracepoints (lttng-ust(3)). */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER post
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng-post.h"
#if !defined(LTTNG_POST_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_POST_H
#include <lttng/tracepoint.h>
#include <stdint.h>
#define POST_ARGUMENTS LTTNG_UST_TP_ARGS(int64_t, file, int64_t, pos, int64_t, length)
#define POST_FIELDS                                                                            \
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int64_t, file, file)                           \
                            lttng_ust_field_integer(int64_t, pos, pos)                         \
                                lttng_ust_field_integer(int64_t, length, length))
LTTNG_UST_TRACEPOINT_EVENT(post, read_hit, POST_ARGUMENTS, POST_FIELDS)
LTTNG_UST_TRACEPOINT_EVENT(post, begin, POST_ARGUMENTS, POST_FIELDS)
LTTNG_UST_TRACEPOINT_EVENT(post, end, LTTNG_UST_TP_ARGS(int, status),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, status, status)))
#endif
#include <lttng/tracepoint-event.h>
