//! The recorder's side of the page by which threads are paused ([`iotrail_format::throttle`]).

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering::*;

use iotrail_format::throttle::{
    MAX_NODES, NODES_START, NodeSlot, NodeState, THROTTLE_BYTES, THROTTLE_MAGIC, THROTTLE_NAME, ThrottlePage,
};

/// A mapped page. When it is dropped all paused threads go on.
pub struct Page {
    base: *mut u8,
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Lineage of the node.
    pub lineage: u64,
    /// Its id in the trail.
    pub thread: i64,
    /// Hash of its operations.
    pub signature: u64,
    /// Its process, and its id of the system.
    pub pid: u32,
    /// See above.
    pub tid: u32,
    /// Operations that it has done.
    pub done: u32,
    /// See [`NodeSlot::allowed`].
    pub allowed: u32,
    /// How long it slept after operations, ns.
    pub slept: u64,
    /// What it does.
    pub state: NodeState,
    /// See [`NodeSlot::waits_for`].
    pub waits_for: u32,
}

impl Seen {
    /// Whether it sleeps until it is released.
    pub fn is_paused(&self) -> bool {
        self.state == NodeState::Paused && self.done >= self.allowed
    }
}

impl Page {
    /// Makes the file in a session's directory, before any program knows that. The nodes of these lineages are held.
    pub fn create(session: &Path, held: &[u64], period: u32) -> io::Result<Self> {
        Self::make(session, held, period, 0)
    }

    /// The same for a run in which nobody is held, and each `period`-th operation takes so many ns longer.
    pub fn longer(session: &Path, longer: u64, period: u32) -> io::Result<Self> {
        Self::make(session, &[], period, longer)
    }

    fn make(session: &Path, held: &[u64], period: u32, longer: u64) -> io::Result<Self> {
        let path = session.join(THROTTLE_NAME);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // Written, not made longer: on a full tmpfs this is an error instead of SIGBUS later.
        file.write_all(&[0; THROTTLE_BYTES])?;
        // SAFETY: a descriptor of ours, whose file is that long and stays so.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                THROTTLE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: mapped, zeroed and known to nobody else yet.
        let page = unsafe { &mut *base.cast::<ThrottlePage>() };
        let count = held.len().min(MAX_NODES);
        page.held[..count].copy_from_slice(&held[..count]);
        page.held_count = count as u32;
        page.period = period;
        page.longer = longer;
        page.magic = THROTTLE_MAGIC;
        Ok(Self { base: base.cast() })
    }

    fn page(&self) -> &ThrottlePage {
        // SAFETY: mapped as long as `self`; what isn't atomic in it is not written any more.
        unsafe { &*self.base.cast::<ThrottlePage>() }
    }

    fn slots(&self) -> &[NodeSlot] {
        let count = (self.page().nodes.load(Acquire) as usize).min(MAX_NODES);
        // SAFETY: as above; a slot is words that may be read while they are written.
        unsafe { std::slice::from_raw_parts(self.base.add(NODES_START).cast::<NodeSlot>(), count) }
    }

    /// Says that the recorder lives.
    pub fn beat(&self) {
        self.page().heartbeat.fetch_add(1, Relaxed);
    }

    /// Threads that found no slot.
    pub fn refused(&self) -> u32 {
        self.page().refused.load(Relaxed)
    }

    /// What the slots say, by their numbers. One that isn't complete yet has lineage 0.
    pub fn read(&self) -> Vec<Seen> {
        let seen = |slot: &NodeSlot| {
            // first, so that the rest is complete if it is
            let lineage = slot.lineage.load(Acquire);
            // before the state: who is paused has done no more
            let done = slot.done.load(Acquire);
            Seen {
                lineage,
                thread: slot.thread.load(Relaxed),
                signature: slot.signature.load(Relaxed),
                pid: slot.pid.load(Relaxed),
                tid: slot.tid.load(Relaxed),
                done,
                allowed: slot.allowed.load(Relaxed),
                slept: slot.slept.load(Relaxed),
                state: NodeState::from_number(slot.state.load(Acquire)),
                waits_for: slot.waits_for.load(Relaxed),
            }
        };
        self.slots().iter().map(seen).collect()
    }

    /// Lets a node do operations until it has done this many.
    pub fn allow(&self, slot: usize, done: u32) {
        let allowed = &self.slots()[slot].allowed;
        allowed.store(done, Release);
        wake(allowed);
    }

    /// Lets all go on, for good.
    pub fn release_all(&self) {
        self.page().off.store(1, Release);
        for slot in self.slots() {
            wake(&slot.allowed);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.release_all();
        // SAFETY: our own mapping, which nobody refers to any more.
        unsafe { libc::munmap(self.base.cast(), THROTTLE_BYTES) };
    }
}

fn wake(word: &std::sync::atomic::AtomicU32) {
    // SAFETY: a mapped futex word, shared between processes.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
