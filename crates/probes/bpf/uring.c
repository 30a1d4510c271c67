// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// One record per request on an io_uring, sent when it completes: submissions through the ring are no system
// calls. The result is read from the request, as the tracepoint's other arguments changed (5.19, 6.14).

struct io_cqe {
	__u64 user_data;
	__s32 res;
	int fd; // until the result is known
} KERNEL;

struct io_cmd_data {
	__u8 data[56];
} KERNEL;

struct io_kiocb {
	struct file *file; // set by the time it completes; none for operations without
	struct io_cmd_data cmd;
	__u8 opcode;
	__u64 flags;
	struct io_cqe cqe;
	void *async_data;
} KERNEL;

struct kiocb {
	long long ki_pos;
} KERNEL;

struct io_rw {
	struct kiocb kiocb;
	__u32 len;
} KERNEL;

struct io_sync {
	long long len;
	long long off;
	int flags;
} KERNEL;

struct iov_iter {
	unsigned long count;
} KERNEL;

struct io_async_rw {
	struct iov_iter iter;
} KERNEL;

#define REQ_F_FIXED_FILE 1 // include/linux/io_uring_types.h

// include/uapi/linux/io_uring.h
enum {
	OP_READV = 1,
	OP_WRITEV = 2,
	OP_FSYNC = 3,
	OP_READ_FIXED = 4,
	OP_WRITE_FIXED = 5,
	OP_SYNC_FILE_RANGE = 8,
	OP_FALLOCATE = 17,
	OP_READ = 22,
	OP_WRITE = 23,
};

#define FSYNC_DATASYNC 1

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 15);
	__type(key, __u64); // address of the request
	__type(value, struct uring_op);
} submitted SEC(".maps");

static __always_inline void read_range(struct io_kiocb *req, struct uring_op *op)
{
	void *cmd = &req->cmd, *later;
	switch (op->opcode) {
	case OP_READ:
	case OP_WRITE:
	case OP_READ_FIXED:
	case OP_WRITE_FIXED:
		op->pos = BPF_CORE_READ((struct io_rw *)cmd, kiocb.ki_pos);
		op->length = BPF_CORE_READ((struct io_rw *)cmd, len);
		break;
	case OP_READV:
	case OP_WRITEV:
		op->pos = BPF_CORE_READ((struct io_rw *)cmd, kiocb.ki_pos);
		// Imported when submitted since 6.10; before, the length is not known here.
		later = req->async_data;
		if (later)
			op->length = BPF_CORE_READ((struct io_async_rw *)later, iter.count);
		break;
	case OP_FSYNC:
		if (BPF_CORE_READ((struct io_sync *)cmd, flags) & FSYNC_DATASYNC)
			op->opcode |= DATA_ONLY;
		// fallthrough
	case OP_SYNC_FILE_RANGE:
	case OP_FALLOCATE:
		op->pos = BPF_CORE_READ((struct io_sync *)cmd, off);
		op->length = BPF_CORE_READ((struct io_sync *)cmd, len);
		break;
	}
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(io_uring_submit_req, struct io_kiocb *req)
{
	__u64 task = bpf_get_current_pid_tgid();
	__u64 key = (__u64)req;
	if (!wanted(syscall_scope, task >> 32))
		return 0;
	// A request whose completion its owner doesn't want to see (IOSQE_CQE_SKIP_SUCCESS) ends unseen.
	struct uring_op *unseen = bpf_map_lookup_elem(&submitted, &key);
	if (unseen)
		send(unseen, sizeof(*unseen));
	struct uring_op op = {
		.kind = URING_OP,
		.opcode = req->opcode,
		.submitted = bpf_ktime_get_ns(),
		.user_data = req->cqe.user_data,
		.pos = -1,
		.length = -1,
		.fd = req->flags & REQ_F_FIXED_FILE ? -1 : req->cqe.fd,
		.tgid = task >> 32,
		.tid = task,
	};
	read_range(req, &op);
	if (bpf_map_update_elem(&submitted, &key, &op, BPF_ANY))
		count(FULL);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(io_uring_complete, void *ring_context, void *req)
{
	__u64 key = (__u64)req;
	struct uring_op *op = bpf_map_lookup_elem(&submitted, &key);
	if (!op)
		return 0;
	op->completed = bpf_ktime_get_ns();
	op->result = BPF_CORE_READ((struct io_kiocb *)req, cqe.res);
	look_at(BPF_CORE_READ((struct io_kiocb *)req, file), &op->opened);
	send(op, sizeof(*op));
	bpf_map_delete_elem(&submitted, &key);
	return 0;
}
