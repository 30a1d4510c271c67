//! The handlers of a server, and what the kernel reads ahead for them.
//!
//! A stream is read in windows of one size. Its first window is asked for with its first page; each following one when the
//! reader has the first page of the window before, so that the disk transfers while the reader computes. Without read-ahead, a
//! window is a page, and is asked for when the reader gets there.

use super::{Nanos, PAGE, Random, Request, System, Workload};

/// Streams that a handler reads by turns.
const STREAMS: usize = 2;

/// A stream and what is there of it. All but `number` and `begin` are bytes from its begin.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    number: u64,
    begin: u64,
    /// What the handler has read.
    read: u64,
    /// What was asked of the disk.
    asked: u64,
    /// What the disk has brought.
    there: u64,
    /// Until where pages are read one by one.
    singly: u64,
    /// The end of the windows that the handler has got to.
    entered: u64,
}

struct Handler {
    streams: [Stream; STREAMS],
    /// Which of them is read.
    current: usize,
    /// What is left of the run.
    run: u64,
    /// It waits for the disk.
    is_blocked: bool,
}

/// What a handler does next: asks for data, then computes, or waits for the disk.
pub(super) struct Step {
    pub requests: [Option<Request>; 2],
    pub think: Option<Nanos>,
}

pub(super) struct Handlers {
    handlers: Vec<Handler>,
    pub stream_bytes: u64,
    run_bytes: u64,
    window: u64,
    reads_ahead: bool,
    whole_file: bool,
    cancels_all: bool,
    think_ns_per_mib: u64,
    /// Pages of the places where a stream can begin.
    places: u64,
    begun: u64,
    /// Bytes that handlers have read.
    pub read_bytes: u64,
}

impl Handlers {
    /// Handlers in the middle of streams and runs, so that they aren't in step.
    pub(super) fn new(workload: &Workload, system: &System, disk_bytes: u64, random: &mut Random) -> Self {
        let window = system.prefetch_bytes.unwrap_or(PAGE);
        let end = (workload.span * disk_bytes as f64) as u64;
        let mut all = Self {
            handlers: Vec::new(),
            stream_bytes: workload.stream_bytes,
            run_bytes: workload.run_bytes,
            window,
            reads_ahead: system.prefetch_bytes.is_some(),
            whole_file: workload.whole_file,
            cancels_all: system.faults.cancel,
            think_ns_per_mib: workload.think_ns_per_mib,
            places: (end - workload.stream_bytes - 2 * window) / PAGE,
            begun: 0,
            read_bytes: 0,
        };
        for _ in 0..workload.concurrency {
            let mut streams = [Stream::default(); STREAMS];
            let mut run = workload.run_bytes;
            for (at, stream) in streams.iter_mut().enumerate() {
                *stream = all.begin(random);
                // The one that is read is at any window, the other between two runs.
                let step = if at == 0 { window } else { window.max(workload.run_bytes) };
                let steps = workload.stream_bytes.div_ceil(step);
                let read = (random.unit() * steps as f64) as u64 * step / window * window;
                (stream.read, stream.asked, stream.there, stream.entered) = (read, read, read, read);
                if at == 0 {
                    run -= read % workload.run_bytes;
                }
            }
            all.handlers.push(Handler { streams, current: 0, run, is_blocked: false });
        }
        all
    }

    pub(super) fn len(&self) -> usize {
        self.handlers.len()
    }

    fn begin(&mut self, random: &mut Random) -> Stream {
        self.begun += 1;
        let page = (random.unit() * self.places as f64) as u64;
        Stream { number: self.begun, begin: page * PAGE, ..Stream::default() }
    }

    /// The end of what can be read of a stream's file.
    fn end_of_file(&self) -> u64 {
        if self.whole_file { self.stream_bytes } else { u64::MAX }
    }

    /// The disk has brought what a request asked for. Returns whether the handler has waited for it.
    pub(super) fn received(&mut self, request: Request) -> bool {
        let handler = &mut self.handlers[request.handler];
        // A stream that has ended does not miss what was read ahead.
        let Some(at) = handler.streams.iter().position(|stream| stream.number == request.stream) else {
            return false;
        };
        let stream = &mut handler.streams[at];
        stream.there = stream.there.max(request.pos + request.length - stream.begin);
        let goes_on = handler.is_blocked && handler.current == at && stream.read < stream.there;
        handler.is_blocked &= !goes_on;
        goes_on
    }

    /// A handler goes on to where it computes or waits.
    pub(super) fn proceed(&mut self, at: usize, congested: bool, random: &mut Random) -> Step {
        self.turn(at, random);
        let mut requests = [None, None];
        let end_of_file = self.end_of_file();
        let handler = &mut self.handlers[at];
        let mut stream = handler.streams[handler.current];
        let next = stream.read + self.window;
        if stream.asked == stream.read {
            if congested && self.cancels_all && self.reads_ahead && stream.read > 0 {
                stream.singly = next.min(end_of_file);
                stream.asked = stream.singly;
            } else {
                requests[0] = Some(stream.ask(at, next.min(end_of_file)));
            }
        }
        if stream.there == stream.read && stream.read < stream.singly {
            requests[0] = Some(stream.request(at, stream.read, stream.read + PAGE));
        }
        if stream.there > stream.read && stream.read == stream.entered {
            stream.entered = next;
            if self.reads_ahead && !congested && stream.asked == next && next < end_of_file {
                requests[1] = Some(stream.ask(at, (next + self.window).min(end_of_file)));
            }
        }
        let until = stream.there.min(stream.entered).min(self.stream_bytes).min(stream.read + handler.run);
        let bytes = until - stream.read;
        handler.is_blocked = bytes == 0;
        handler.run -= bytes;
        stream.read = until;
        handler.streams[handler.current] = stream;
        self.read_bytes += bytes;
        let think =
            (bytes > 0).then(|| ((u128::from(bytes) * u128::from(self.think_ns_per_mib)) >> 20) as Nanos);
        Step { requests, think }
    }

    /// Turns to the other stream where a run ends, begins another one where a stream does.
    fn turn(&mut self, at: usize, random: &mut Random) {
        let current = self.handlers[at].current;
        let is_read = self.handlers[at].streams[current].read >= self.stream_bytes;
        if is_read {
            self.handlers[at].streams[current] = self.begin(random);
        }
        let handler = &mut self.handlers[at];
        if is_read || handler.run == 0 {
            handler.current = (current + 1) % STREAMS;
            handler.run = self.run_bytes;
        }
    }
}

impl Stream {
    fn request(&self, handler: usize, from: u64, to: u64) -> Request {
        Request { handler, stream: self.number, pos: self.begin + from, length: to - from }
    }

    /// Asks for what wasn't asked for yet, up to an end.
    fn ask(&mut self, handler: usize, to: u64) -> Request {
        let request = self.request(handler, self.asked, to);
        self.asked = to;
        request
    }
}
