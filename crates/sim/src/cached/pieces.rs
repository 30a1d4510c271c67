//! I/O on the medium of a cache and on the device behind it, in an order that keeps data right.
//!
//! What a cache does for a request is decided when the request arrives, and becomes pieces: reads and writes of slots of the
//! medium and of blocks of the device behind. A piece that reads a slot or block waits for the last piece before it that
//! writes it; one that writes waits for the last writer and for all readers since. So each request sees the data of all
//! requests before it, whatever the devices reorder. A piece also waits for the piece whose data it takes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;

use crate::cache::Mixed;
use crate::device::{Completion, Device, Id, Nanos, Op, Request};

/// What a piece is an I/O on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Medium,
    Behind,
}

/// Index of a piece that isn't done.
pub type Piece = usize;

/// What a new piece is.
pub struct New<'a> {
    pub target: Target,
    pub request: Request,
    /// Slots of the medium or blocks of the device behind that it uses. None: all of the device behind.
    pub units: Option<&'a [u64]>,
    /// The piece whose data it takes.
    pub from: Option<Piece>,
    /// The request whose completion waits for it.
    pub owner: Option<Id>,
}

#[derive(Clone)]
struct Pending {
    target: Target,
    request: Request,
    units: Vec<u64>,
    owner: Option<Id>,
    /// Pieces that it waits for.
    waits: u32,
    followers: Vec<Piece>,
}

/// Who uses a slot or block, of the pieces that aren't done.
#[derive(Clone, Default)]
struct Users {
    writer: Option<Piece>,
    /// Since the writer.
    readers: Vec<Piece>,
}

/// A request whose pieces aren't all certain.
#[derive(Clone)]
struct Open {
    issued: Option<Nanos>,
    done: Nanos,
    left: u32,
    cached: bool,
}

/// All pieces of a cache, and its two devices.
#[derive(Clone)]
pub struct Pieces<D> {
    pub medium: Box<dyn Device>,
    pub behind: D,
    pieces: Vec<Option<Pending>>,
    free: Vec<Piece>,
    users: HashMap<(bool, u64), Users, BuildHasherDefault<Mixed>>,
    /// The last piece that all later ones behind wait for.
    barrier: Option<Piece>,
    /// Pieces whose end is certain, by it.
    ends: BinaryHeap<Reverse<(Nanos, Piece)>>,
    open: HashMap<u64, Open, BuildHasherDefault<Mixed>>,
    /// Pieces of requests whose end isn't certain: those that wait, those on the medium and behind.
    waiting: usize,
    on_medium: usize,
    on_behind: usize,
    certain: Vec<Completion>,
    reported: Vec<Completion>,
    now: Nanos,
    #[cfg(test)]
    pub log: Vec<super::tests::Logged>,
}

impl<D: Device> Pieces<D> {
    pub fn new(medium: Box<dyn Device>, behind: D) -> Self {
        Self {
            medium,
            behind,
            pieces: Vec::new(),
            free: Vec::new(),
            users: HashMap::default(),
            barrier: None,
            ends: BinaryHeap::new(),
            open: HashMap::default(),
            waiting: 0,
            on_medium: 0,
            on_behind: 0,
            certain: Vec::new(),
            reported: Vec::new(),
            now: 0,
            #[cfg(test)]
            log: Vec::new(),
        }
    }

    /// Begins a request. It completes once [`Self::close`] was called and the pieces that it owns are certain.
    pub fn open(&mut self, now: Nanos, id: Id) {
        self.now = now;
        self.open.insert(id.0, Open { issued: None, done: now, left: 1, cached: true });
    }

    /// The request gets no more pieces.
    pub fn close(&mut self, id: Id) {
        self.settle(id, None, true);
    }

    fn settle(&mut self, id: Id, completion: Option<Completion>, cached: bool) {
        let Some(open) = self.open.get_mut(&id.0) else { return };
        open.left -= 1;
        open.cached &= cached;
        if let Some(Completion { issued, done, .. }) = completion {
            open.issued = Some(open.issued.map_or(issued, |first| first.min(issued)));
            open.done = open.done.max(done);
        }
        if open.left == 0
            && let Some(Open { issued, done, cached, .. }) = self.open.remove(&id.0)
        {
            self.certain.push(Completion { id, issued: issued.unwrap_or(done), done, cached });
        }
    }

    /// Adds a piece. It is submitted once all that it waits for is done.
    pub fn add(&mut self, new: New<'_>) -> Piece {
        let piece = self.free.pop().unwrap_or_else(|| {
            self.pieces.push(None);
            self.pieces.len() - 1
        });
        let New { target, request, units, from, owner } = new;
        let mut before: Vec<Piece> = from.into_iter().collect();
        if target == Target::Behind {
            before.extend(self.barrier);
        }
        let is_barrier = units.is_none();
        let units = units.unwrap_or_default().to_vec();
        let writes = matches!(request.op, Op::Write | Op::Trim);
        for unit in &units {
            let users = self.users.entry((target == Target::Medium, *unit)).or_default();
            before.extend(users.writer);
            if writes {
                before.append(&mut users.readers);
                users.writer = Some(piece);
            } else {
                users.readers.push(piece);
            }
        }
        if is_barrier || request.op == Op::Flush {
            let behind = self.pieces.iter().enumerate().filter_map(|(at, pending)| {
                pending.as_ref().filter(|pending| {
                    let waited = is_barrier || matches!(pending.request.op, Op::Write | Op::Trim);
                    pending.target == Target::Behind && waited
                })?;
                Some(at)
            });
            before.extend(behind);
        }
        if is_barrier {
            self.barrier = Some(piece);
        }
        before.sort_unstable();
        before.dedup();
        for earlier in &before {
            self.pieces[*earlier].as_mut().expect("it is not done").followers.push(piece);
        }
        if let Some(owner) = owner
            && let Some(open) = self.open.get_mut(&owner.0)
        {
            open.left += 1;
        }
        let waits = before.len() as u32;
        self.pieces[piece] = Some(Pending { target, request, units, owner, waits, followers: Vec::new() });
        #[cfg(test)]
        self.log_made(piece, target, request, owner, from);
        self.waiting += usize::from(owner.is_some());
        if waits == 0 {
            self.submit(piece);
        }
        piece
    }

    fn submit(&mut self, piece: Piece) {
        let Some(Pending { target, request, owner, .. }) = &self.pieces[piece] else { return };
        let (id, request, owned) = (Id(piece as u64), *request, usize::from(owner.is_some()));
        self.waiting -= owned;
        *match target {
            Target::Medium => &mut self.on_medium,
            Target::Behind => &mut self.on_behind,
        } += owned;
        match target {
            Target::Medium => self.medium.submit(self.now, id, request),
            Target::Behind => self.behind.submit(self.now, id, request),
        }
        #[cfg(test)]
        self.log_submitted(piece);
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Nanos> {
        let end = self.ends.peek().map(|Reverse((end, _))| *end);
        let certain = (!self.certain.is_empty()).then_some(self.now);
        [end, certain, self.medium.next_event(), self.behind.next_event()].into_iter().flatten().min()
    }

    /// When the end of a piece of a request can become certain at the earliest.
    pub fn next_completion(&self) -> Option<Nanos> {
        if !self.certain.is_empty() {
            return Some(self.now);
        }
        if self.waiting > 0 {
            return self.next_event();
        }
        let medium = (self.on_medium > 0).then(|| self.medium.next_completion());
        let behind = (self.on_behind > 0).then(|| self.behind.next_completion());
        medium.into_iter().chain(behind).flatten().min()
    }

    /// Does all that is due until `now`.
    pub fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        loop {
            completions.append(&mut self.certain);
            match self.next_event().filter(|next| *next <= now) {
                Some(next) => self.step(next.max(self.now)),
                None if self.now < now => self.step(now),
                None => break,
            }
        }
        // Devices have to be told the time even if nothing is due.
        self.step(now);
        completions.append(&mut self.certain);
    }

    fn step(&mut self, now: Nanos) {
        self.now = now;
        let mut reported = std::mem::take(&mut self.reported);
        self.medium.advance(now, &mut reported);
        reported.drain(..).for_each(|completion| self.know(completion, true));
        self.behind.advance(now, &mut reported);
        reported.drain(..).for_each(|completion| self.know(completion, completion.cached));
        self.reported = reported;
        while let Some(Reverse((end, piece))) = self.ends.peek().copied()
            && end <= now
        {
            self.ends.pop();
            self.finish(piece);
        }
    }

    /// The end of a piece is certain.
    fn know(&mut self, completion: Completion, cached: bool) {
        let piece = completion.id.0 as Piece;
        self.ends.push(Reverse((completion.done.max(self.now), piece)));
        #[cfg(test)]
        self.log_end(piece, completion.done);
        if let Some(Pending { target, owner: Some(owner), .. }) = &self.pieces[piece] {
            *match target {
                Target::Medium => &mut self.on_medium,
                Target::Behind => &mut self.on_behind,
            } -= 1;
            let owner = *owner;
            self.settle(owner, Some(completion), cached);
        }
    }

    fn finish(&mut self, piece: Piece) {
        let Some(done) = self.pieces[piece].take() else { return };
        for unit in done.units {
            let key = (done.target == Target::Medium, unit);
            if let Some(users) = self.users.get_mut(&key) {
                users.writer = users.writer.filter(|writer| *writer != piece);
                users.readers.retain(|reader| *reader != piece);
                if users.writer.is_none() && users.readers.is_empty() {
                    self.users.remove(&key);
                }
            }
        }
        self.barrier = self.barrier.filter(|barrier| *barrier != piece);
        self.free.push(piece);
        for follower in done.followers {
            let pending = self.pieces[follower].as_mut().expect("it waits for this one");
            pending.waits -= 1;
            if pending.waits == 0 {
                self.submit(follower);
            }
        }
    }

    #[cfg(test)]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Pieces, users and requests that aren't done.
    #[cfg(test)]
    pub fn unfinished(&self) -> usize {
        self.pieces.len() - self.free.len() + self.users.len() + self.open.len()
    }
}
