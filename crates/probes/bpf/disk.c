// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// One record per bio that was queued, sent when it is complete.
//
// block_bio_queue sees a bio once, in the thread that queued it, after a partition's offset was added
// (submit_bio_noacct, block/blk-core.c). A request is made of one bio or several (merges); a bio too large
// for one request is cut: each front goes into a new bio chained to it (bio_submit_split, block/blk-merge.c),
// which counts for the one queued. Bios are found in a request by walking its list, so that every kind of
// merge is seen alike. block_bio_complete comes for those only that were in no request: on devices
// without (dm, md, zram), which have no issue either.

typedef __u64 sector_t;

struct gendisk {
	int major;
	int first_minor;
} KERNEL;

struct block_device {
	struct gendisk *bd_disk;
} KERNEL;

struct bvec_iter {
	sector_t bi_sector;
	unsigned int bi_size;
} KERNEL;

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	__u8 bi_status;
	struct bvec_iter bi_iter;
	void *bi_private;
} KERNEL;

struct request {
	struct bio *bio;
	void *end_io;
} KERNEL;

enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
};

#define REQ_OP_MASK 0xff
#define SECTOR 9
// A request has at most so many bios: BLK_MAX_SEGMENTS is 128, discards merge up to 256 (block/blk.h).
#define MOST_BIOS 512

struct queued {
	struct disk_op op;
	__u64 parts; // not complete yet, itself included
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 15);
	__type(key, __u64); // address of the bio
	__type(value, struct queued);
} bios SEC(".maps");

// Front parts of bios that were cut -> the bio that was queued.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 13);
	__type(key, __u64);
	__type(value, __u64);
} parts SEC(".maps");

#define FLAG(opf, bit, flag) ((opf) >> bpf_core_enum_value(enum req_flag_bits, bit) & 1 ? (flag) : 0)

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	__u64 task = bpf_get_current_pid_tgid();
	__u64 key = (__u64)bio;
	struct gendisk *disk = bio->bi_bdev->bd_disk;
	__u32 opf = bio->bi_opf;
	if (!wanted(disk_scope, task >> 32))
		return 0;
	struct queued *before = bpf_map_lookup_elem(&bios, &key);
	if (before) {
		count(UNSEEN);
		send(&before->op, sizeof(before->op));
	}
	struct queued in = { .parts = 1 };
	in.op = (struct disk_op){
		.kind = DISK_OP,
		.dev = disk->major << 20 | disk->first_minor,
		.queued = bpf_ktime_get_ns(),
		.pos = bio->bi_iter.bi_sector << SECTOR,
		.length = bio->bi_iter.bi_size,
		.flags = FLAG(opf, __REQ_SYNC, FLAG_SYNC) | FLAG(opf, __REQ_META, FLAG_META) |
			 FLAG(opf, __REQ_FUA, FLAG_FUA) | FLAG(opf, __REQ_PREFLUSH, FLAG_PREFLUSH) |
			 FLAG(opf, __REQ_RAHEAD, FLAG_AHEAD),
		.op = opf & REQ_OP_MASK,
		.tgid = task >> 32,
		.tid = task,
	};
	bpf_get_current_comm(in.op.comm, sizeof(in.op.comm));
	if (bpf_map_update_elem(&bios, &key, &in, BPF_ANY))
		count(FULL);
	return 0;
}

// What was queued, of which the bio is a part or the whole.
static __always_inline struct queued *find(struct bio *bio)
{
	__u64 key = (__u64)bio;
	__u64 *part = bpf_map_lookup_elem(&parts, &key);
	return bpf_map_lookup_elem(&bios, part ? part : &key);
}

SEC("tp_btf/block_split")
int BPF_PROG(block_split, struct bio *part)
{
	__u64 key = (__u64)part, whole = (__u64)part->bi_private;
	struct queued *in = bpf_map_lookup_elem(&bios, &whole);
	if (!in)
		return 0;
	if (bpf_map_update_elem(&parts, &key, &whole, BPF_ANY))
		count(FULL);
	else
		__sync_fetch_and_add(&in->parts, 1);
	return 0;
}

static __always_inline void merge(struct bio *bio)
{
	struct queued *in = find(bio);
	if (in)
		in->op.merged = 1;
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(block_bio_backmerge, struct bio *bio)
{
	merge(bio);
	return 0;
}

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(block_bio_frontmerge, struct bio *bio)
{
	merge(bio);
	return 0;
}

// Two requests become one: all bios of the second join the first.
SEC("tp_btf/block_rq_merge")
int BPF_PROG(block_rq_merge, struct request *rq)
{
	struct bio *bio = rq->bio;
	for (int i = 0; i < MOST_BIOS && bio; i++, bio = bio->bi_next)
		merge(bio);
	return 0;
}

// The device takes a bio when it takes the first of its requests.
SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	__u64 now = bpf_ktime_get_ns();
	struct bio *bio = rq->bio;
	for (int i = 0; i < MOST_BIOS && bio; i++, bio = bio->bi_next) {
		struct queued *in = find(bio);
		if (!in)
			continue;
		if (!in->op.issued)
			in->op.issued = now;
		if (i == 0)
			__sync_fetch_and_add(&in->op.requests, 1);
	}
	return 0;
}

// The driver gave the request back: the device hasn't got it after all.
SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_rq_requeue, struct request *rq)
{
	struct bio *bio = rq->bio;
	for (int i = 0; i < MOST_BIOS && bio; i++, bio = bio->bi_next) {
		struct queued *in = find(bio);
		if (!in)
			continue;
		in->op.issued = 0;
		if (i == 0)
			__sync_fetch_and_add(&in->op.requests, -1);
	}
	return 0;
}

static __always_inline void finish(__u64 key, struct queued *in, __u64 now, bool failed)
{
	in->op.completed = now;
	in->op.failed |= failed;
	send(&in->op, sizeof(in->op));
	bpf_map_delete_elem(&bios, &key);
}

// Not static: the verifier then looks at it once, not for each of a request's bios. It takes numbers and
// memory only, so the address comes by reference.
__noinline int complete_part(const __u64 *bio, __u64 now, __u32 failed)
{
	if (!bio)
		return 0;
	__u64 own = *bio;
	__u64 *part = bpf_map_lookup_elem(&parts, &own);
	__u64 key = part ? *part : own;
	struct queued *in = bpf_map_lookup_elem(&bios, &key);
	if (!in)
		return 0;
	in->op.failed |= failed;
	if (part)
		bpf_map_delete_elem(&parts, &own);
	if (__sync_fetch_and_add(&in->parts, -1) == 1)
		finish(key, in, now, 0);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, __u8 error, unsigned int bytes)
{
	__u64 now = bpf_ktime_get_ns();
	struct bio *bio = rq->bio;
	// Of requests with bios only those in a flush sequence have it: the flush after the data is to come,
	// and this point a second time (blk_flush_restore_request, block/blk-flush.c).
	if (rq->end_io)
		return 0;
	for (int i = 0; i < MOST_BIOS && bio; i++, bio = bio->bi_next) {
		unsigned int size = bio->bi_iter.bi_size;
		// Only a part of the request: what is left completes later.
		if (size > bytes)
			return 0;
		bytes -= size;
		__u64 own = (__u64)bio;
		complete_part(&own, now, error != 0);
	}
	return 0;
}

#define BLK_STS_AGAIN 12 // include/linux/blk_types.h

SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_complete, void *queue, struct bio *bio)
{
	__u64 key = (__u64)bio;
	struct queued *in = bpf_map_lookup_elem(&bios, &key);
	// One that must not wait and would have to (REQ_NOWAIT, of io_uring's) never was an I/O: it is queued
	// again, by a thread that may wait.
	if (in && bio->bi_status == BLK_STS_AGAIN)
		bpf_map_delete_elem(&bios, &key);
	else if (in)
		finish(key, in, bpf_ktime_get_ns(), bio->bi_status != 0);
	else
		bpf_map_delete_elem(&parts, &key);
	return 0;
}
