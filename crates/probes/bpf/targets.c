// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// The set of recorded processes grows with their children, from the fork on. Where calls are recorded, what
// becomes of them is sent.

// A text doesn't fit on the stack. One a CPU is enough: these programs are not preempted.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syscall_path);
} scratch SEC(".maps");

#define HEAD __builtin_offsetof(struct syscall_path, path)

static __always_inline void send_process(__u32 what, __u64 time, __u32 tgid, __u32 tid, __u32 parent, int status)
{
	struct process event = {
		.kind = PROCESS,
		.what = what,
		.time = time,
		.tgid = tgid,
		.tid = tid,
		.parent = parent,
		.status = status,
	};
	if (syscall_scope != OFF)
		send(&event, sizeof(event));
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = parent->tgid, to = child->tgid;
	__u8 *recorded = bpf_map_lookup_elem(&targets, &from);
	if (from == to || !recorded)
		return 0;
	// A recorder in the parent is in the child too.
	__u8 same = *recorded;
	if (bpf_map_update_elem(&targets, &to, &same, BPF_ANY))
		count(FULL);
	send_process(FORKED, bpf_ktime_get_ns(), to, child->pid, from, 0);
	return 0;
}

// A number may be given out again once its last task is freed, which is after it left the CPU for good:
// at sched_process_exit its last slice would be lost.
SEC("tp_btf/sched_process_free")
int BPF_PROG(sched_process_free, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	if (task->pid == tgid)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}
