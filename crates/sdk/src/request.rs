//! Following requests: what a component posts. `docs/requests.md` says what the records mean, `docs/sdk.md`
//! shows a component.
//!
//! ```no_run
//! use iotrail_sdk::request::{Crumb, Name, Service, Symbol};
//! static HEAD: Name = Name::new("head");
//! static WRITE: Name = Name::new("write");
//! // A request of a client arrives:
//! let crumb = Crumb::fresh();
//! let _here = crumb.enter();
//! let mut request = Service::server(&HEAD, &WRITE, crumb).client(Symbol::new("alice")).at(0, 4096);
//! // ... it is served; records and calls of this thread carry its breadcrumb ...
//! request.status(0);
//! drop(request); // its row
//! ```

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering::*};

use iotrail_format::record::{BUFFER, DISK, MAX_NAMES, NETWORK, SERVICE, STITCHED};
use iotrail_format::segment::NONE;

use crate::api;
use crate::clock::ticks;
use crate::record::{Record, instant};

/// A name that stands in code: of a component, an operation, a cache, a peer, a disk. Announced at its first use.
pub struct Name {
    text: &'static str,
    number: AtomicU32,
}

impl Name {
    /// A name.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self { text, number: AtomicU32::new(0) }
    }

    /// Its text.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }

    #[inline(always)]
    fn number(&self) -> u32 {
        match self.number.load(Relaxed) {
            0 => self.announce(),
            number => number,
        }
    }

    #[cold]
    fn announce(&self) -> u32 {
        let number = short(api::symbol(self.text.as_bytes()));
        self.number.store(number, Relaxed);
        number
    }
}

/// What doesn't fit into 16 bits is no name: null in the trail.
fn short(number: u32) -> u32 {
    if number < MAX_NAMES { number } else { 0 }
}

/// A text that is known only at run time: a client, a peer, a node. Making one costs a hash, so what serves
/// a connection makes it once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbol(u32);

impl Symbol {
    /// No text: null in the trail.
    pub const NONE: Self = Self(0);

    /// The symbol of a text, the same each time. Texts beyond a million, or 64 MiB, are none.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(api::symbol(text.as_bytes()))
    }

    /// As a word of a record.
    pub(crate) const fn word(self) -> i64 {
        self.0 as i64
    }
}

/// What names a component, an operation, a cache, a peer or a disk: a [`Name`], or a [`Symbol`] among the
/// first 65,535 of the process (later ones are null in the trail).
pub trait Named {
    /// Its number in 16 bits.
    fn short(&self) -> u32;
}

impl Named for Name {
    #[inline(always)]
    fn short(&self) -> u32 {
        self.number()
    }
}

impl Named for Symbol {
    #[inline(always)]
    fn short(&self) -> u32 {
        short(self.0)
    }
}

#[inline(always)]
fn pair(low: &(impl Named + ?Sized), high: &(impl Named + ?Sized)) -> u32 {
    low.short() | high.short() << 16
}

/// A breadcrumb: what all records of one piece of work carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Crumb(i64);

impl Crumb {
    /// None.
    pub const NONE: Self = Self(0);

    /// A new one, for a request that begins here. [`Crumb::NONE`] while nothing is recorded.
    #[inline]
    #[must_use]
    pub fn fresh() -> Self {
        Self(api::new_crumb())
    }

    /// That of the calling thread.
    #[inline]
    #[must_use]
    pub fn current() -> Self {
        Self(api::crumb())
    }

    /// From a message.
    #[must_use]
    pub const fn from_raw(number: i64) -> Self {
        Self(number)
    }

    /// For a message.
    #[must_use]
    pub const fn raw(self) -> i64 {
        self.0
    }

    /// Makes it the calling thread's until the guard is dropped. With an item that goes through a queue, hand
    /// the crumb over, and enter it where the item is taken out.
    #[inline]
    #[must_use = "the thread has it only as long as the guard lives"]
    pub fn enter(self) -> Entered {
        Entered { before: api::set_crumb(self.0), on_this_thread: PhantomData }
    }

    /// As [`Self::enter`], for work that the thread took out of a queue or off a connection, in a loop that does nothing
    /// else: its time on the CPU since it finished the work before, by which it got this one, is for this one too.
    #[inline]
    #[must_use = "the thread has it only as long as the guard lives"]
    pub fn take(self) -> Entered {
        Entered { before: api::take_crumb(self.0), on_this_thread: PhantomData }
    }

    /// A part of this work on the same node.
    #[inline]
    #[must_use]
    pub fn split(self) -> Self {
        let child = Self::fresh();
        stitch(Symbol::NONE, self, child, Stitch::Split, 1);
        child
    }

    /// Serving a request that `parent` on node `node` made.
    #[inline]
    #[must_use]
    pub fn serving(node: Symbol, parent: Self) -> Self {
        let child = Self::fresh();
        stitch(node, parent, child, Stitch::Rpc, 1);
        child
    }

    /// One piece of work made of several, each with its weight (bytes, as a rule). A single one goes on as
    /// itself.
    #[must_use]
    pub fn coalesce(parents: &[(Self, u64)]) -> Self {
        if let [(only, _)] = parents {
            return *only;
        }
        let child = Self::fresh();
        for (parent, weight) in parents {
            let weight = i64::try_from(*weight).unwrap_or(i64::MAX);
            stitch(Symbol::NONE, *parent, child, Stitch::Coalesce, weight);
        }
        child
    }
}

/// While it lives, the thread works for the breadcrumb that was entered.
pub struct Entered {
    before: i64,
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        api::set_crumb(self.before);
    }
}

/// How a breadcrumb works for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stitch {
    /// The parent's request, in another process.
    Rpc = 0,
    /// A part of the parent.
    Split = 1,
    /// One made of several parents.
    Coalesce = 2,
}

/// Says that `child`, here, works for `parent` on `node` ([`Symbol::NONE`]: this node).
#[inline]
pub fn stitch(node: Symbol, parent: Crumb, child: Crumb, kind: Stitch, weight: i64) {
    if !api::on(u16::from(STITCHED)) || child.0 == 0 || parent.0 == 0 {
        return;
    }
    let mut record = instant(u16::from(STITCHED), kind as u8, child.0);
    record.small = node.0;
    record.words[..2].copy_from_slice(&[parent.0, weight]);
    api::post(&record, &[]);
}

/// One request at one component: posted as a row when it is dropped, wherever that is.
#[must_use = "its row is from here to where it is dropped"]
pub struct Service {
    record: Record,
    client: u32,
    status: i32,
}

impl Service {
    /// A request that `component` serves, from now on.
    #[inline]
    pub fn server(component: &impl Named, op: &impl Named, crumb: Crumb) -> Self {
        Self::begin(0, component, op, crumb)
    }

    /// `component` asks another one and waits for it.
    #[inline]
    pub fn client_of(component: &impl Named, op: &impl Named, crumb: Crumb) -> Self {
        Self::begin(1, component, op, crumb)
    }

    /// Something `component` does by itself: a flush, a scrub.
    #[inline]
    pub fn internal(component: &impl Named, op: &impl Named, crumb: Crumb) -> Self {
        Self::begin(2, component, op, crumb)
    }

    #[inline(always)]
    fn begin(kind: u8, component: &impl Named, op: &impl Named, crumb: Crumb) -> Self {
        let number = u16::from(SERVICE);
        // Not even the counter is read for what isn't wanted.
        let wanted = api::on(number);
        let start = if wanted { ticks() } else { 0 };
        let small = if wanted { pair(component, op) } else { 0 };
        let record =
            Record { number, kind, extra: 0, small, start, dur: 0, crumb: crumb.0, words: [NONE; 4] };
        Self { record, client: 0, status: 0 }
    }

    /// On whose behalf it is. Only the request that enters the system needs it.
    #[inline]
    pub fn client(mut self, client: Symbol) -> Self {
        self.client = client.0;
        self
    }

    /// Which file it is about.
    #[inline]
    pub fn file(mut self, file: i64) -> Self {
        self.record.words[1] = file;
        self
    }

    /// Which bytes it is about.
    #[inline]
    pub fn at(mut self, pos: u64, length: u64) -> Self {
        self.record.words[2] = pos as i64;
        self.record.words[3] = length as i64;
        self
    }

    /// How it ended: 0 success (which it is if nothing is said), else an error number.
    #[inline]
    pub fn status(&mut self, status: i32) {
        self.status = status;
    }
}

impl Drop for Service {
    #[inline]
    fn drop(&mut self) {
        if self.record.start == 0 || !api::on(u16::from(SERVICE)) {
            return;
        }
        self.record.dur = ticks().wrapping_sub(self.record.start);
        self.record.words[0] = (i64::from(self.status) << 32) | i64::from(self.client);
        api::post(&self.record, &[]);
    }
}

/// What was done to a buffer cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Buffer {
    /// A read found it there.
    ReadHit = 0,
    /// A read did not.
    ReadMiss = 1,
    /// It was written and is dirty now.
    Write = 2,
    /// It is fetched before it is asked for.
    ReadAhead = 3,
    /// It is written back.
    Flush = 4,
    /// It leaves the cache.
    Evict = 5,
}

/// One access to a buffer cache.
#[inline]
pub fn buffer(
    component: &impl Named,
    cache: &impl Named,
    kind: Buffer,
    crumb: Crumb,
    file: i64,
    pos: u64,
    length: u64,
) {
    if !api::on(u16::from(BUFFER)) {
        return;
    }
    let mut record = instant(u16::from(BUFFER), kind as u8, crumb.0);
    record.small = pair(component, cache);
    record.words[..3].copy_from_slice(&[file, pos as i64, length as i64]);
    api::post(&record, &[]);
}

/// One message of `length` bytes, sent now.
#[inline]
pub fn transmit(sender: &impl Named, receiver: &impl Named, crumb: Crumb, length: u64) {
    if !api::on(u16::from(NETWORK)) {
        return;
    }
    let mut record = instant(u16::from(NETWORK), 0, crumb.0);
    record.small = pair(sender, receiver);
    record.words[0] = length as i64;
    api::post(&record, &[]);
}

/// One request to a disk: queued now, completed when it is dropped, which posts its row.
#[must_use = "its row is from here to where it is dropped"]
pub struct Disk {
    record: Record,
}

impl Disk {
    /// Queued now.
    #[inline]
    pub fn queued(dev: &impl Named, op: &impl Named, crumb: Crumb, pos: u64, length: u64) -> Self {
        let mut record = instant(u16::from(DISK), 0, crumb.0);
        record.small = pair(dev, op);
        record.words = [pos as i64, length as i64, NONE, NONE];
        Self { record }
    }

    /// The disk gets it now.
    #[inline]
    pub fn issued(&mut self) {
        self.record.words[2] = ticks() as i64;
    }
}

impl Drop for Disk {
    #[inline]
    fn drop(&mut self) {
        if api::on(u16::from(DISK)) {
            self.record.dur = ticks().wrapping_sub(self.record.start);
            api::post(&self.record, &[]);
        }
    }
}

/// A future that works for a breadcrumb: whichever thread polls it has the breadcrumb meanwhile, and each
/// poll is a `cpu_slice` of kind `user`.
pub struct InCrumb<F> {
    crumb: Crumb,
    future: F,
}

impl<F: Future> InCrumb<F> {
    /// `future`, working for `crumb`.
    pub const fn new(crumb: Crumb, future: F) -> Self {
        Self { crumb, future }
    }
}

/// Futures that work for a breadcrumb: `tokio::spawn(work.in_current_crumb())`.
pub trait Follow: Future + Sized {
    /// Works for `crumb`, whichever thread polls it.
    fn in_crumb(self, crumb: Crumb) -> InCrumb<Self> {
        InCrumb::new(crumb, self)
    }

    /// Works for what the calling thread works for now: for a task that a request spawns.
    fn in_current_crumb(self) -> InCrumb<Self> {
        InCrumb::new(Crumb::current(), self)
    }
}

impl<F: Future> Follow for F {}

impl<F: Future> Future for InCrumb<F> {
    type Output = F::Output;

    fn poll(
        self: core::pin::Pin<&mut Self>,
        context: &mut core::task::Context<'_>,
    ) -> core::task::Poll<Self::Output> {
        let _here = self.crumb.enter();
        // SAFETY: the future is pinned as long as `self` is, and never moved out of it.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(context)
    }
}
