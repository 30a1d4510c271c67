// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// The set of recorded processes grows with their children, from the fork on.

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = parent->tgid, to = child->tgid;
	__u8 set = 1;
	if (from != to && bpf_map_lookup_elem(&targets, &from))
		if (bpf_map_update_elem(&targets, &to, &set, BPF_ANY))
			count(FULL);
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
