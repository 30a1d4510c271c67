// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// Who woke whom: by a call of the thread that runs, or by an interrupt on its back.

// What interrupts the thread of each CPU. A bit a kind: those of one kind don't interrupt each other, and a begin
// or an end that was not seen is forgotten with the next.
enum { HARD = 1, SOFT = 2, TIMER = 4 };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} interrupted SEC(".maps");

#define INTERRUPT(name, CHANGE)                                                      \
	SEC("tp_btf/" #name)                                                         \
	int BPF_PROG(name)                                                           \
	{                                                                            \
		__u32 zero = 0, *here = bpf_map_lookup_elem(&interrupted, &zero);    \
		if (here)                                                            \
			*here = *here CHANGE;                                        \
		return 0;                                                            \
	}

INTERRUPT(irq_handler_entry, | HARD)
INTERRUPT(irq_handler_exit, & ~HARD)
INTERRUPT(softirq_entry, | SOFT)
INTERRUPT(softirq_exit, & ~SOFT)
INTERRUPT(local_timer_entry, | TIMER)
INTERRUPT(local_timer_exit, & ~TIMER)

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *woken)
{
	if (!wanted(wake_scope, woken->tgid))
		return 0;
	__u32 zero = 0, *here = bpf_map_lookup_elem(&interrupted, &zero);
	__u64 by = bpf_get_current_pid_tgid();
	struct wake wake = {
		.kind = WAKE,
		.interrupt = !here || *here,
		.time = bpf_ktime_get_ns(),
		.tgid = woken->tgid,
		.tid = woken->pid,
		.by_tgid = by >> 32,
		.by_tid = by,
	};
	send(&wake, sizeof(wake));
	return 0;
}
