//! A server's reads, for real: handlers that read sequential streams of a file or block device, as
//! `iotrail_sim::stack::Workload` describes them.
//!
//! Each handler is a thread that reads two streams by turns, a run of the one and a run of the other, and begins another stream
//! at a random place where one ends. Each of the two has a file description of its own, so that the kernel reads ahead of each.
//! What the page cache holds of the target is dropped before, and what it holds of a stream before that begins: reading ahead
//! stays, hits by chance don't.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Streams that a handler reads by turns.
const STREAMS: usize = 2;
/// Alignment of memory that direct reads go to.
const ALIGNMENT: usize = 4096;
/// Stack of a handler's thread.
const STACK_BYTES: usize = 128 << 10;
/// cachestat(2), of Linux 6.5 and later; the same number on all machines that we build for.
const SYS_CACHESTAT: libc::c_long = 451;

/// What a server reads.
#[derive(Clone, Copy, Debug)]
pub struct Handlers {
    /// Threads.
    pub concurrency: u32,
    /// Length of a stream.
    pub stream_bytes: u64,
    /// Length of a run, at most that of a stream.
    pub run_bytes: u64,
    /// Bytes of a read; streams and runs are multiples.
    pub read_bytes: u64,
    /// CPU time for each MiB that is read.
    pub think_ns_per_mib: u64,
    /// Part of the target, from its begin, in which streams are; above 0, to 1.
    pub span: f64,
    /// Past the page cache.
    pub direct: bool,
}

/// What was read.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Read {
    /// When counting began: CLOCK_MONOTONIC, ns.
    pub since_ns: u64,
    /// How long was counted.
    pub measured_ns: u64,
    /// Bytes that handlers got.
    pub read_bytes: u64,
    /// Streams that began.
    pub streams: u64,
    /// Share of the pages of these streams that the page cache held before; none if it isn't known.
    pub cached_share: Option<f64>,
}

/// What the threads count.
#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    bytes: AtomicU64,
    streams: AtomicU64,
    pages: AtomicU64,
    cached: AtomicU64,
    unknown: AtomicBool,
}

impl Handlers {
    /// Reads for `warm_up`, then counts for `length`.
    ///
    /// # Errors
    /// A target that can't be opened or read, or that is too small; a thread that can't be started.
    pub fn run(&self, target: &Path, warm_up: Duration, length: Duration, seed: u64) -> io::Result<Read> {
        let bytes = self.places(target)?;
        if !self.direct {
            drop_cached(&File::open(target)?, 0, 0);
        }
        let counts = Counts::default();
        std::thread::scope(|scope| {
            let handlers: Vec<_> = (0..self.concurrency)
                .map(|number| {
                    let random =
                        Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(number));
                    let counts = &counts;
                    std::thread::Builder::new()
                        .name(format!("handler {number}"))
                        .stack_size(STACK_BYTES)
                        .spawn_scoped(scope, move || {
                            let done = self.handle(target, bytes, random, counts);
                            // One that can't read ends all.
                            done.inspect_err(|_| counts.stop.store(true, Relaxed))
                        })
                        .inspect_err(|_| counts.stop.store(true, Relaxed))
                })
                .collect::<io::Result<_>>()?;
            wait(warm_up, &counts.stop);
            let before = counts.seen();
            let (since_ns, began) = (monotonic_ns(), Instant::now());
            wait(length, &counts.stop);
            let measured_ns = began.elapsed().as_nanos() as u64;
            let after = counts.seen();
            counts.stop.store(true, Relaxed);
            for handler in handlers {
                handler.join().unwrap_or_else(|_| Err(io::Error::other("a handler panicked")))?;
            }
            let [bytes, streams, pages, cached] = std::array::from_fn(|at| after[at] - before[at]);
            let is_known = pages > 0 && !counts.unknown.load(Relaxed);
            Ok(Read {
                since_ns,
                measured_ns,
                read_bytes: bytes,
                streams,
                cached_share: is_known.then(|| cached as f64 / pages as f64),
            })
        })
    }

    /// Bytes at the target's begin in which streams can begin.
    fn places(&self, target: &Path) -> io::Result<u64> {
        let size = io::Seek::seek(&mut File::open(target)?, io::SeekFrom::End(0))?;
        let span = (self.span * size as f64) as u64;
        span.checked_sub(self.stream_bytes).filter(|bytes| *bytes >= self.stream_bytes).ok_or_else(|| {
            let needed = 2 * self.stream_bytes;
            io::Error::other(format!(
                "{span} bytes, expected at least {needed}: two streams of {}",
                self.stream_bytes
            ))
        })
    }

    /// A handler, until it is to stop.
    fn handle(&self, target: &Path, places: u64, mut random: Pcg64Mcg, counts: &Counts) -> io::Result<()> {
        let flags = if self.direct { libc::O_DIRECT } else { 0 };
        let open = || OpenOptions::new().read(true).custom_flags(flags).open(target);
        let files: [File; STREAMS] = [open()?, open()?];
        let mut buffer = vec![0; self.read_bytes as usize + ALIGNMENT];
        let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
        let buffer = &mut buffer[aligned..][..self.read_bytes as usize];
        let begin = |random: &mut Pcg64Mcg, file: &File| {
            let pos = random.random_range(0..=places / ALIGNMENT as u64) * ALIGNMENT as u64;
            self.forget(file, pos, counts);
            counts.streams.fetch_add(1, Relaxed);
            pos
        };
        // In the middle of streams and runs, so that handlers aren't in step.
        let middle = |random: &mut Pcg64Mcg, bytes: u64| {
            random.random_range(0..bytes / self.read_bytes) * self.read_bytes
        };
        let mut streams: [(u64, u64); STREAMS] = std::array::from_fn(|at| {
            (begin(&mut random, &files[at]), middle(&mut random, self.stream_bytes))
        });
        let mut run = middle(&mut random, self.run_bytes);
        let mut current = 0;
        let mut think = Think::default();
        while !counts.stop.load(Relaxed) {
            let (pos, read) = &mut streams[current];
            let file = &files[current];
            read_at(file, buffer, *pos + *read)?;
            counts.bytes.fetch_add(self.read_bytes, Relaxed);
            *read += self.read_bytes;
            run += self.read_bytes;
            think.take(self.read_bytes * self.think_ns_per_mib);
            let is_read = *read >= self.stream_bytes;
            if is_read {
                (*pos, *read) = (begin(&mut random, file), 0);
            }
            if is_read || run >= self.run_bytes {
                (current, run) = ((current + 1) % STREAMS, 0);
            }
        }
        Ok(())
    }

    /// Drops what the page cache holds of a stream, and counts it.
    fn forget(&self, file: &File, pos: u64, counts: &Counts) {
        if self.direct {
            return;
        }
        let cached = cached_pages(file, pos, self.stream_bytes);
        match cached {
            Some(cached) => {
                counts.pages.fetch_add(self.stream_bytes.div_ceil(ALIGNMENT as u64), Relaxed);
                counts.cached.fetch_add(cached, Relaxed);
            }
            None => counts.unknown.store(true, Relaxed),
        }
        // Dropping takes a while, and is seldom needed.
        if cached != Some(0) {
            drop_cached(file, pos, self.stream_bytes);
        }
    }
}

impl Counts {
    fn seen(&self) -> [u64; 4] {
        [&self.bytes, &self.streams, &self.pages, &self.cached].map(|count| count.load(Relaxed))
    }
}

/// Computing, of which what is too short to take is kept for later.
#[derive(Default)]
struct Think {
    /// In ns, times the bytes of a MiB.
    owed: u64,
}

impl Think {
    fn take(&mut self, more: u64) {
        self.owed += more;
        let ns = self.owed >> 20;
        if ns < 1000 {
            return;
        }
        let began = thread_cpu_ns();
        let mut taken = 0;
        while taken < ns {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            taken = thread_cpu_ns() - began;
        }
        self.owed = self.owed.saturating_sub(taken << 20);
    }
}

/// Sleeps so long, or until told to stop.
fn wait(length: Duration, stop: &AtomicBool) {
    let end = Instant::now() + length;
    while !stop.load(Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

fn read_at(file: &File, buffer: &mut [u8], pos: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, pos)
}

/// Drops what the page cache holds of a part of a file; no bytes are all.
fn drop_cached(file: &File, pos: u64, bytes: u64) {
    // SAFETY: an open file.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), pos as i64, bytes as i64, libc::POSIX_FADV_DONTNEED) };
}

/// Pages that the page cache holds of a part of a file; none where the kernel doesn't say.
fn cached_pages(file: &File, pos: u64, bytes: u64) -> Option<u64> {
    // struct cachestat_range and struct cachestat of linux/mman.h
    let range = [pos, bytes];
    let mut stat = [0_u64; 5];
    // SAFETY: an open file, and memory of the sizes that the call reads and writes.
    let status =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), 0_u32) };
    (status == 0).then_some(stat[0])
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock that each process has, and memory for a time.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Handlers = Handlers {
        concurrency: 3,
        stream_bytes: 64 << 10,
        run_bytes: 16 << 10,
        read_bytes: 4 << 10,
        think_ns_per_mib: 0,
        span: 1.0,
        direct: false,
    };

    fn file(bytes: u64) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        file
    }

    #[test]
    fn handlers_read_streams() {
        let file = file(64 << 20);
        let short = Duration::from_millis(100);
        let read = SOME.run(file.path(), short, short, 1).unwrap();
        assert!(read.measured_ns >= 100_000_000, "{read:?}");
        assert!(read.read_bytes > 1 << 20 && read.read_bytes.is_multiple_of(4096), "{read:?}");
        // A stream for each 64 KiB, but for those that are cut by the begin and the end.
        let whole = read.read_bytes / SOME.stream_bytes;
        assert!(read.streams.abs_diff(whole) <= 12, "{read:?}");
    }

    #[test]
    fn computing_takes_its_time() {
        let file = file(64 << 20);
        let one = Handlers { concurrency: 1, think_ns_per_mib: 50_000_000, ..SOME };
        let read = one.run(file.path(), Duration::ZERO, Duration::from_millis(500), 1).unwrap();
        // 20 MiB a second at most.
        let most = 20.0 * 1.05 * read.measured_ns as f64 / 1e9;
        let mib = read.read_bytes as f64 / f64::from(1 << 20);
        assert!(mib > 0.5 && mib <= most, "{mib} of {most}");
    }

    #[test]
    fn what_can_not_be_read_is_an_error() {
        let small = file(100 << 10);
        let short = Duration::from_millis(10);
        let error = SOME.run(small.path(), short, short, 1).unwrap_err();
        assert_eq!(error.to_string(), "102400 bytes, expected at least 131072: two streams of 65536");
        assert!(SOME.run(Path::new("/nonexistent"), short, short, 1).is_err());
    }
}
