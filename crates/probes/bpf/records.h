// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// The records that programs put into the ring buffer, as src/decode.rs reads them: in host order, without
// padding. Times are CLOCK_MONOTONIC ns, 0 for what did not happen.
#pragma once

enum kind { DISK_OP = 1, CPU_SLICE, SYSCALL, SYSCALL_PATH, URING_OP, PROCESS, PROCESS_TEXT, WAKE };

// Flags of a disk_op, whatever the kernel's own numbers are.
enum { FLAG_SYNC = 1, FLAG_META = 2, FLAG_FUA = 4, FLAG_PREFLUSH = 8, FLAG_AHEAD = 16 };

struct disk_op {
	__u32 kind;
	__u32 dev; // kernel's dev_t of the whole disk: major << 20 | minor
	__u64 queued;
	__u64 issued;
	__u64 completed;
	__u64 pos;    // bytes from the start of the disk
	__u32 length; // bytes
	__u32 flags;
	__u32 op; // enum req_op
	__u32 merged;
	__u32 failed;
	__u32 tgid;
	__u32 tid;
	char comm[16];
	__u32 requests; // that begin with it
};

struct cpu_slice {
	__u32 kind;
	__u32 cpu;
	__u64 start;
	__u64 end;
	__u32 tgid;
	__u32 tid;
	__u32 state; // task's state bits, include/linux/sched.h
	__u32 preempted;
};

struct wake {
	__u32 kind;
	__u32 interrupt; // 0: the thread that ran woke it
	__u64 time;
	__u32 tgid;
	__u32 tid;
	__u32 by_tgid; // who ran on that CPU
	__u32 by_tid;
};

// What a descriptor stood for. All 0: nothing.
struct opened {
	__u64 file; // address of the open file description: two of one file differ
	__u64 inode;
	__u32 dev;  // kernel's dev_t of the file system
	__u32 what; // enum what
};

// What is behind a descriptor, in the low bits, and its flags.
enum what { A_FILE, A_PIPE, A_SOCKET, A_TERMINAL, AN_EVENT, APPENDS = 0x100 };

struct syscall {
	__u32 kind;
	__u32 nr;
	__u64 start;
	__u64 end;
	__u32 tgid;
	__u32 tid;
	__u64 args[6];
	__s64 ret;
	__s64 before; // position of the first descriptor's file at start and end; -1: not asked for
	__s64 after;
	__s64 told; // bytes of a vector, flags of openat2, an offset; -1: not known
	__u32 foreign; // the program's own code made it, no library
	__u32 reserved;
	struct opened opened[2]; // the descriptors among the arguments, or the one made
};

#define PATH_MAX 4096

// A path named by a call; comes before the call's own record, which has the same thread and start.
struct syscall_path {
	__u32 kind;
	__u32 which; // 0 the first path among the arguments, 1 the second
	__u64 start;
	__u32 tgid;
	__u32 tid;
	char path[PATH_MAX]; // only what is used is sent, without the closing 0
};

#define DATA_ONLY 0x100 // an fsync that is an fdatasync

struct uring_op {
	__u32 kind;
	__u32 opcode; // and DATA_ONLY
	__u64 submitted;
	__u64 completed;
	__u64 user_data;
	__s64 pos;    // -1: the file's own position, or none
	__s64 length; // -1: not known
	__s32 fd;     // -1: none or a registered file
	__s32 result;
	__u32 tgid;
	__u32 tid;
	struct opened opened; // once completed
};

// What became of a process. Its texts come before it.
struct process {
	__u32 kind;
	__u32 what; // enum process_event
	__u64 time;
	__u32 tgid;
	__u32 tid;
	__u32 parent; // FORKED: who forked
	__s32 status; // ENDED: as wait(2) gives it
};

enum process_event {
	FORKED = 1,
	EXECUTED, // texts: its file, its arguments
	LOADS_RECORDER, // it opened the recorder's library
	HAS_RECORDER,	// and the library has begun to record its calls
	ENDED,
};
