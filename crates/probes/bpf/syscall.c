// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// One record per system call of those that user space names in `calls`, sent when it returns: all do, those of
// killed threads too. Paths go ahead of it as records of their own. 32-bit calls have other numbers and are
// left out.

struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9, ip;
} KERNEL;

struct thread_info {
	__u32 status;
} KERNEL;

struct mm_struct {
	unsigned long start_code, end_code, arg_start, arg_end;
} KERNEL;

// The same type in the kernel as task_struct: what follows three underscores is not part of the name.
struct task_struct___x86 {
	struct thread_info thread_info;
	struct mm_struct *mm;
} KERNEL;

#define TS_COMPAT 2 // arch/x86/include/asm/thread_info.h

// What is recorded of a call: nothing (0), or WANTED and what else is looked at. In the nibbles above: the first
// and second argument that is a path, the first and second that is a descriptor, each by its number plus one.
#define WANTED 0x1
#define MAKES 0x100000	 // a descriptor, which is its result
#define MOVES 0x200000	 // the position of the first descriptor's file
#define VECTOR 0x400000	 // its second and third argument are a vector of buffers
#define HOW 0x800000	 // its third argument is openat2's struct open_how
#define NAMES 0x1000000 // what later calls mean depends on it
#define SECOND_OFFSET 0x2000000 // its second argument points to an offset, or is null
#define THIRD_OFFSET 0x4000000	// its third argument does
#define MOST_CALLS 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_CALLS);
	__type(key, __u32);
	__type(value, __u32);
} calls SEC(".maps");

struct inside {
	struct syscall call; // the one the thread is in, or, if its start is 0, was in last
	__u16 unread;	     // bits of paths that could not be read at its start
	__u16 opens;	     // OPENS_*: what of the recorder's it opens
	__u32 form;
};

enum { OPENS_LIBRARY = 1, OPENS_SEGMENT = 2 };

#define LONGEST 256

// How the recorder's library is named to the loader, and how what it writes to begins. Set before loading.
const volatile char library[LONGEST] = "";
const volatile char segment[LONGEST] = "";

static __always_inline bool begins_with(const char *path, const volatile char *head)
{
	if (!head[0])
		return 0;
	for (int at = 0; at < LONGEST; at++) {
		if (!head[at])
			return 1;
		if (path[at] != head[at])
			return 0;
	}
	return 0;
}

// By thread (tgid << 32 | tid). It stays until the thread ends: to insert and delete one for each call would
// cost more than all the rest.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, __u64);
	__type(value, struct inside);
} inside SEC(".maps");

static __always_inline bool send_path(struct inside *in, __u32 which, __u32 argument)
{
	struct syscall *call = &in->call;
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
	if (in->form & MAKES) {
		if (begins_with(record->path, library))
			in->opens = OPENS_LIBRARY;
		if (begins_with(record->path, segment))
			in->opens = OPENS_SEGMENT;
	}
	return 1;
}

// Returns the bits of those that could not be read.
static __always_inline __u32 send_paths(struct inside *in, __u32 which)
{
	__u32 first = in->form >> 4 & 15, second = in->form >> 8 & 15, unread = 0;
	if (which & 1 && first && !send_path(in, 0, first - 1))
		unread |= 1;
	if (which & 2 && second && !send_path(in, 1, second - 1))
		unread |= 2;
	return unread;
}

struct iovec {
	__u64 base, length;
};

#define MOST_PARTS 16
#define EMFILE 24 // include/uapi/asm-generic/errno-base.h

// What a pointer among the arguments points to.
static __always_inline __s64 told(struct syscall *call, __u32 form)
{
	if (form & HOW) {
		__u64 flags;
		return bpf_probe_read_user(&flags, sizeof(flags), (void *)call->args[2]) ? -1 : flags;
	}
	if (form & (SECOND_OFFSET | THIRD_OFFSET)) {
		__s64 offset;
		void *at = (void *)call->args[form & SECOND_OFFSET ? 1 : 2];
		return bpf_probe_read_user(&offset, sizeof(offset), at) ? -1 : offset;
	}
	if (!(form & VECTOR) || call->args[2] > MOST_PARTS)
		return -1;
	struct iovec part;
	__s64 sum = 0;
	for (__u32 at = 0; at < MOST_PARTS && at < call->args[2]; at++) {
		if (bpf_probe_read_user(&part, sizeof(part), (struct iovec *)call->args[1] + at))
			return -1;
		sum += part.length;
	}
	return sum;
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

// Whether the instruction that made the call is the program's own: a library would have been seen by the recorder in
// the program, as it stands before the C library.
static __always_inline bool foreign(struct pt_regs *regs)
{
	struct task_struct___x86 *current = (void *)bpf_get_current_task_btf();
	struct mm_struct *mm = current->mm;
	return mm && regs->ip >= mm->start_code && regs->ip < mm->end_code;
}

static __always_inline void look(struct syscall *call, __u32 form)
{
	__u32 first = form >> 12 & 15, second = form >> 16 & 15;
	if (first && first <= 6) {
		void *file = file_of(call->args[first - 1]);
		look_at(file, &call->opened[0]);
		if (form & MOVES)
			call->before = position(file);
	}
	if (second && second <= 6)
		look_at(file_of(call->args[second - 1]), &call->opened[1]);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	__u64 task = bpf_get_current_pid_tgid();
	__u32 key = nr, tgid = task >> 32;
	__u32 *form = bpf_map_lookup_elem(&calls, &key);
	if (!form || !*form)
		return 0;
	struct task_struct___x86 *current = (void *)bpf_get_current_task_btf();
	if (current->thread_info.status & TS_COMPAT)
		return 0;
	__u8 *recorded = bpf_map_lookup_elem(&targets, &tgid);
	bool own = recorded && *recorded == BY_ITSELF;
	if (own && !(*form & NAMES) && !foreign(regs))
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
	call->foreign = own && foreign(regs);
	call->before = call->after = -1;
	__builtin_memset(call->opened, 0, sizeof(call->opened));
	call->told = told(call, *form);
	look(call, *form);
	in->form = *form;
	in->opens = 0;
	call->start = bpf_ktime_get_ns();
	in->unread = *form & 0xff0 ? send_paths(in, 3) : 0;
	return 0;
}

// A process that has opened the recorder's library, and then a segment, records itself: a program that does only one
// of both copies the library, or posts records of its own.
static __always_inline void note_recorder(struct inside *in)
{
	__u32 tgid = in->call.tgid;
	__u8 *recorded = bpf_map_lookup_elem(&targets, &tgid);
	if (!recorded)
		return;
	if (in->opens == OPENS_LIBRARY && *recorded == BY_NOBODY) {
		*recorded = LOADING;
		send_process(LOADS_RECORDER, in->call.end, tgid, in->call.tid, 0, 0);
	}
	if (in->opens == OPENS_SEGMENT && *recorded == LOADING) {
		*recorded = BY_ITSELF;
		send_process(HAS_RECORDER, in->call.end, tgid, in->call.tid, 0, 0);
	}
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct inside *in = bpf_map_lookup_elem(&inside, &task);
	if (!in || !in->call.start)
		return 0;
	struct syscall *call = &in->call;
	call->end = bpf_ktime_get_ns();
	call->ret = ret;
	// A path on a page never touched before can't be read at the start of the call. By now the kernel
	// has touched it.
	if (in->unread)
		send_paths(in, in->unread);
	if (in->form & MAKES && ret >= 0)
		look_at(file_of(ret), &call->opened[in->form >> 12 & 15 ? 1 : 0]);
	__u32 first = in->form >> 12 & 15;
	if (in->form & MOVES && first && first <= 6)
		call->after = position(file_of(call->args[first - 1]));
	// Out of descriptors, the recorder goes on without.
	if (in->opens && (ret >= 0 || ret == -EMFILE))
		note_recorder(in);
	send(call, sizeof(*call));
	call->start = call->end = call->ret = 0;
	return 0;
}
