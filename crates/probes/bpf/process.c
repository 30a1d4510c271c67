// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// What becomes of the processes whose calls are recorded: which programs they run, how they end.

struct linux_binprm {
	const char *interp; // of a script its interpreter
} KERNEL;

struct signal_struct {
	struct {
		int counter;
	} live;
} KERNEL;

struct task_struct___process {
	struct signal_struct *signal;
	int exit_code;
} KERNEL;

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task, int old_pid, struct linux_binprm *program)
{
	__u32 tgid = task->tgid, zero = 0;
	__u8 *recorded = bpf_map_lookup_elem(&targets, &tgid);
	struct syscall_path *text = bpf_map_lookup_elem(&scratch, &zero);
	if (!recorded || !text)
		return 0;
	*recorded = BY_NOBODY;
	text->kind = PROCESS_TEXT;
	text->which = 0;
	text->start = bpf_ktime_get_ns();
	text->tgid = tgid;
	text->tid = task->pid;
	__u64 time = text->start;
	long size = bpf_probe_read_kernel_str(text->path, PATH_MAX, BPF_CORE_READ(program, interp));
	if (size > 1 && size <= PATH_MAX)
		send(text, HEAD + size - 1);
	text->which = 1;
	struct mm_struct *mm = BPF_CORE_READ((struct task_struct___x86 *)task, mm);
	unsigned long start = BPF_CORE_READ(mm, arg_start), arguments = BPF_CORE_READ(mm, arg_end) - start;
	if (arguments > PATH_MAX)
		arguments = PATH_MAX;
	if (arguments && !bpf_probe_read_user(text->path, arguments, (void *)start))
		send(text, HEAD + arguments);
	send_process(EXECUTED, time, tgid, task->pid, 0, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	struct task_struct___process *ending = (void *)task;
	__u32 tgid = task->tgid;
	__u64 thread = (__u64)tgid << 32 | (__u32)task->pid;
	bpf_map_delete_elem(&inside, &thread);
	if (!bpf_map_lookup_elem(&targets, &tgid) || BPF_CORE_READ(ending, signal, live.counter))
		return 0;
	send_process(ENDED, bpf_ktime_get_ns(), tgid, task->pid, 0, BPF_CORE_READ(ending, exit_code));
	return 0;
}
