// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// One record per system call of those that user space names in `calls`, sent when it returns: all do, those of
// killed threads too. Paths go ahead of it as records of their own. 32-bit calls have other numbers and are
// left out.

struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9;
} KERNEL;

struct thread_info {
	__u32 status;
} KERNEL;

// The same type in the kernel as task_struct: what follows three underscores is not part of the name.
struct task_struct___x86 {
	struct thread_info thread_info;
} KERNEL;

#define TS_COMPAT 2 // arch/x86/include/asm/thread_info.h

// What is recorded of a call: nothing (0), or WANTED with the number of its first and second argument that
// is a path, plus one, in the nibbles above.
#define WANTED 1
#define MOST_CALLS 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_CALLS);
	__type(key, __u32);
	__type(value, __u32);
} calls SEC(".maps");

struct inside {
	struct syscall call;
	__u32 unread; // bits of paths that could not be read at its start
	__u32 form;
};

// Threads (tgid << 32 | tid) inside a call.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, __u64);
	__type(value, struct inside);
} inside SEC(".maps");

// A path doesn't fit on the stack. One a CPU is enough: these programs are not preempted.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syscall_path);
} scratch SEC(".maps");

#define HEAD __builtin_offsetof(struct syscall_path, path)

static __always_inline bool send_path(struct syscall *call, __u32 which, __u32 argument)
{
	__u32 zero = 0;
	struct syscall_path *record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record || argument >= 6)
		return 0;
	long size = bpf_probe_read_user_str(record->path, PATH_MAX, (void *)call->args[argument]);
	if (size < 1 || size > PATH_MAX)
		return 0;
	record->kind = SYSCALL_PATH;
	record->which = which;
	record->start = call->start;
	record->tgid = call->tgid;
	record->tid = call->tid;
	send(record, HEAD + size - 1);
	return 1;
}

// Returns the bits of those that could not be read.
static __always_inline __u32 send_paths(struct inside *in, __u32 which)
{
	__u32 first = in->form >> 4 & 15, second = in->form >> 8 & 15, unread = 0;
	if (which & 1 && first && !send_path(&in->call, 0, first - 1))
		unread |= 1;
	if (which & 2 && second && !send_path(&in->call, 1, second - 1))
		unread |= 2;
	return unread;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	__u64 task = bpf_get_current_pid_tgid();
	__u32 key = nr;
	__u32 *form = bpf_map_lookup_elem(&calls, &key);
	if (!form || !*form || !wanted(syscall_scope, task >> 32))
		return 0;
	struct task_struct___x86 *current = (void *)bpf_get_current_task_btf();
	if (BPF_CORE_READ(current, thread_info.status) & TS_COMPAT)
		return 0;
	struct inside *before = bpf_map_lookup_elem(&inside, &task);
	if (before) {
		count(UNSEEN);
		send(&before->call, sizeof(before->call));
	}
	struct inside in = {
		.call = {
			.kind = SYSCALL,
			.nr = nr,
			.tgid = task >> 32,
			.tid = task,
			.args = { regs->di, regs->si, regs->dx, regs->r10, regs->r8, regs->r9 },
		},
		.form = *form,
	};
	in.call.start = bpf_ktime_get_ns();
	in.unread = send_paths(&in, 3);
	if (bpf_map_update_elem(&inside, &task, &in, BPF_ANY))
		count(FULL);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 task = bpf_get_current_pid_tgid();
	struct inside *in = bpf_map_lookup_elem(&inside, &task);
	if (!in)
		return 0;
	// A path on a page never touched before can't be read at the start of the call. By now the kernel
	// has touched it.
	if (in->unread)
		send_paths(in, in->unread);
	in->call.end = now;
	in->call.ret = ret;
	send(&in->call, sizeof(in->call));
	bpf_map_delete_elem(&inside, &task);
	return 0;
}
