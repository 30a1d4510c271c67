// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// The ring buffer, what was dropped, and which processes are recorded.
#pragma once

typedef _Bool bool;

// Kernel structs name only the members read here; CO-RE finds them in the running kernel.
#define KERNEL __attribute__((preserve_access_index))

struct task_struct {
	int pid;
	int tgid;
} KERNEL;

enum scope { OFF, TARGETS, ALL };

// Set before loading.
const volatile __u32 disk_scope = OFF;
const volatile __u32 sched_scope = OFF;
const volatile __u32 wake_scope = OFF;
const volatile __u32 syscall_scope = OFF;
const volatile __u32 recorder = 0;	 // its tgid: it doesn't record itself
const volatile __u64 wakeup_bytes = 0; // in the ring before the reader is woken

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} ring SEC(".maps");

enum loss {
	FULL,	// no room in the ring or in a map
	UNSEEN, // an end that must have been: what it ended began anew
	LOSSES,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSSES);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

// How a process makes its calls, where a scope is TARGETS.
enum recorded {
	BY_NOBODY = 1,
	LOADING, // the recorder's library was opened
	BY_ITSELF, // and the library records its calls: only those are sent that it leaves out, or that name files
};

// Processes (tgid) recorded where a scope is TARGETS; values are enum recorded.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

static __always_inline void count(__u32 loss)
{
	__u64 *counter = bpf_map_lookup_elem(&losses, &loss);
	if (counter)
		(*counter)++;
}

static __always_inline bool wanted(__u32 scope, __u32 tgid)
{
	if (tgid == recorder)
		return 0;
	return scope == ALL || bpf_map_lookup_elem(&targets, &tgid);
}

// More than the longest record, so that one falls into the span.
#define WAKEUP_SPAN 8192

// Waking the reader costs more than the record: it polls, and is woken early only when what waits grows past a
// bound, not by each record until it has read them.
static __always_inline void send(void *record, __u64 size)
{
	__u64 waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	__u64 flags = waiting - wakeup_bytes < WAKEUP_SPAN ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	if (bpf_ringbuf_output(&ring, record, size, flags))
		count(FULL);
}
