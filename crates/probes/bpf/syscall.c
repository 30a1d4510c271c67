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
	struct syscall call; // the one the thread is in, or, if its start is 0, was in last
	__u32 unread;	     // bits of paths that could not be read at its start
	__u32 form;
};

// By thread (tgid << 32 | tid). It stays until the thread ends: to insert and delete one for each call would
// cost more than all the rest.
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

// The thread's place, made if its calls are wanted.
static __always_inline struct inside *place(__u64 task)
{
	struct inside *in = bpf_map_lookup_elem(&inside, &task);
	if (in || !wanted(syscall_scope, task >> 32))
		return in;
	struct inside fresh = { .call = { .kind = SYSCALL, .tgid = task >> 32, .tid = task } };
	if (bpf_map_update_elem(&inside, &task, &fresh, BPF_ANY))
		count(FULL);
	return bpf_map_lookup_elem(&inside, &task);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	__u64 task = bpf_get_current_pid_tgid();
	__u32 key = nr;
	__u32 *form = bpf_map_lookup_elem(&calls, &key);
	if (!form || !*form)
		return 0;
	struct task_struct___x86 *current = (void *)bpf_get_current_task_btf();
	if (current->thread_info.status & TS_COMPAT)
		return 0;
	struct inside *in = place(task);
	if (!in)
		return 0;
	struct syscall *call = &in->call;
	if (call->start) {
		count(UNSEEN);
		send(call, sizeof(*call));
	}
	call->nr = nr;
	call->args[0] = regs->di;
	call->args[1] = regs->si;
	call->args[2] = regs->dx;
	call->args[3] = regs->r10;
	call->args[4] = regs->r8;
	call->args[5] = regs->r9;
	in->form = *form;
	call->start = bpf_ktime_get_ns();
	in->unread = *form == WANTED ? 0 : send_paths(in, 3);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct inside *in = bpf_map_lookup_elem(&inside, &task);
	if (!in || !in->call.start)
		return 0;
	in->call.end = bpf_ktime_get_ns();
	in->call.ret = ret;
	// A path on a page never touched before can't be read at the start of the call. By now the kernel
	// has touched it.
	if (in->unread)
		send_paths(in, in->unread);
	send(&in->call, sizeof(in->call));
	in->call.start = in->call.end = in->call.ret = 0;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	__u64 key = (__u64)task->tgid << 32 | (__u32)task->pid;
	bpf_map_delete_elem(&inside, &key);
	return 0;
}
