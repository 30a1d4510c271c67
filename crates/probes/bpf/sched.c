// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// One record per stay of a thread on a CPU, sent when it leaves.

struct running {
	__u64 since;
	__u32 tgid;
	__u32 tid;
};

// What each CPU runs; 0 until its first switch.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct running);
} running SEC(".maps");

// Thread 0 is the idle task.
static __always_inline bool recorded(__u32 tid, __u32 tgid)
{
	return tid && wanted(sched_scope, tgid);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempted, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;
	struct running *here = bpf_map_lookup_elem(&running, &zero);
	if (!here)
		return 0;
	if (here->since && here->tid != prev->pid) {
		// A switch between the two was not seen: one slice has no end, the other no start.
		if (recorded(here->tid, here->tgid))
			count(UNSEEN);
		if (recorded(prev->pid, prev->tgid))
			count(UNSEEN);
	} else if (here->since && recorded(prev->pid, prev->tgid)) {
		struct cpu_slice slice = {
			.kind = CPU_SLICE,
			.cpu = bpf_get_smp_processor_id(),
			.start = here->since,
			.end = now,
			.tgid = prev->tgid,
			.tid = prev->pid,
			.state = prev_state,
			.preempted = preempted,
		};
		send(&slice, sizeof(slice));
	}
	here->since = now;
	here->tgid = next->tgid;
	here->tid = next->pid;
	return 0;
}
