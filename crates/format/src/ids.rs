//! Ids: 63-bit, never negative, so that they fit the signed `BIGINT` every SQL engine has.
//!
//! A file, a process and a thread are named by a hash of what identifies them. Nothing has to be
//! handed out centrally, recycled pids don't collide, and trails of several machines merge.

/// Mask that keeps 63 bits.
const MASK63: u64 = i64::MAX as u64;

/// FNV-1a, 64 bits (Fowler, Noll, Vo; offset basis and prime of the published algorithm), finished
/// with the 64-bit mixer of MurmurHash3 because FNV's high bits are weak for short keys.
#[must_use]
pub const fn hash63(bytes: &[u8]) -> i64 {
    hash63_from(0xcbf2_9ce4_8422_2325, bytes)
}

const fn hash63_from(seed: u64, bytes: &[u8]) -> i64 {
    let mut hash = seed;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    finish(hash)
}

const fn finish(mut hash: u64) -> i64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    let id = (hash & MASK63) as i64;
    // 0 means "none" in every id column.
    if id == 0 { 1 } else { id }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub i64);

        impl $name {
            /// The id that stands for "none".
            pub const NONE: Self = Self(0);
        }
    };
}

id! {
    /// A file, named by its absolute path as the program wrote it (`.` and `..` removed, symbolic
    /// links kept).
    FileId
}
id! {
    /// One run of one program image: `exec` starts a new one, and so does `fork`.
    ProcessId
}
id! {
    /// One thread of one [`ProcessId`].
    ThreadId
}
id! {
    /// A breadcrumb: what links records that worked for the same request.
    ///
    /// Leased in blocks of [`LEASE`] by [`crumb_of`], so that making one costs no shared memory access and
    /// those made at about the same time lie together at rest.
    Crumb
}

/// Breadcrumbs of one lease.
pub const LEASE: u64 = 1 << 10;
/// Leases a second of a recording, before they run ahead of the clock.
const LEASES: u64 = 1 << 10;
/// Seconds since the epoch at which the time of breadcrumbs begins: 2020-01-01.
const CRUMB_EPOCH: u64 = 1_577_836_800;

/// The lease after `last` at `now` (seconds since the epoch): never one before it.
#[must_use]
pub const fn next_lease(last: u64, now: u64) -> u64 {
    let of_now = now.saturating_sub(CRUMB_EPOCH) * LEASES;
    if of_now > last { of_now } else { last + 1 }
}

/// The first breadcrumb of a lease: 31 bits of seconds, 12 of the recording, 10 of the lease within its
/// second, 10 of the breadcrumb.
#[must_use]
pub const fn crumb_of(lease: u64, recording: u64) -> i64 {
    let (second, number) = (lease / LEASES, lease % LEASES);
    ((second & 0x7fff_ffff) << 32 | (recording & 0xfff) << 20 | number << 10) as i64
}

/// The first breadcrumb of a block that a thread takes at counter value `ticks` without a lease, because its process may
/// only read where leases are: 25 bits of units of 64 s since the time of breadcrumbs began at `now` (seconds since the
/// epoch), 28 that differ by chance, 10 of the breadcrumb.
#[must_use]
pub const fn crumb_of_thread(now: u64, tid: u32, ticks: u64) -> i64 {
    let unit = now.saturating_sub(CRUMB_EPOCH) >> 6 & 0x1ff_ffff;
    let chance = finish(ticks ^ (tid as u64).rotate_left(40) ^ 0x6372_756d) as u64 & 0xfff_ffff;
    (unit << 38 | chance << 10) as i64
}

impl FileId {
    /// The id of an absolute path.
    #[must_use]
    pub const fn of_path(path: &[u8]) -> Self {
        Self(hash63(path))
    }
}

impl ProcessId {
    /// The id of the image that `pid` began to run at counter value `start_ticks`.
    #[must_use]
    pub const fn new(pid: u32, start_ticks: u64) -> Self {
        Self(finish(start_ticks ^ (pid as u64).rotate_left(40) ^ 0x7072_6f63))
    }
}

impl ThreadId {
    /// The id of thread `tid` of `process`, whose ring was claimed at `start_ticks`.
    #[must_use]
    pub const fn new(process: ProcessId, tid: u32, start_ticks: u64) -> Self {
        Self(finish(start_ticks ^ (tid as u64).rotate_left(40) ^ (process.0 as u64).rotate_left(17)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positive_and_stable() {
        // A changed value would break every trail that was written before.
        assert_eq!(FileId::of_path(b"/etc/passwd").0, 2_317_399_646_986_329_491);
        for i in 0..10_000_u32 {
            assert!(hash63(&i.to_le_bytes()) > 0);
            assert!(ProcessId::new(i, 77).0 > 0);
        }
        assert_ne!(ProcessId::new(1, 2), ProcessId::new(2, 1));
    }

    #[test]
    fn blocks_of_threads_differ_and_are_near_leases_of_their_time() {
        let now = 1_800_000_000;
        let blocks: std::collections::BTreeSet<_> = (0..100)
            .flat_map(|tid| (0..10).map(move |ticks| crumb_of_thread(now, tid, 40 * ticks)))
            .collect();
        assert_eq!(blocks.len(), 1000);
        let near = crumb_of(next_lease(0, now - 128), 7)..crumb_of(next_lease(0, now + 128), 7);
        assert!(blocks.iter().all(|block| near.contains(block) && block % LEASE as i64 == 0));
    }
}
