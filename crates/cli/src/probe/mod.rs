//! `iotrail-native device probe`: does requests to a file or block device and times each, for `iotrail device measure`.
//!
//! Python decides which requests tell something; here they are done with direct I/O, so that neither the page cache nor
//! an interpreter is in the times. Batches come on stdin, answers go to stdout, little-endian:
//!
//! ```text
//! once     → a line of JSON: Target
//! batch    ← count u64, depth u64, then count × (op u64, pos u64, length u64, delay u64 ns)
//! answer   → count × (start i64 ns, end i64 ns, errno i64)
//! ```
//!
//! At depth 1 a request starts `delay` after the one before it has ended, by pread(2) and pwrite(2). At more, so many are
//! in flight at a time (io_submit(2)) and delays are ignored. Times are CLOCK_MONOTONIC. The end of stdin ends it.

mod at_depth;
mod zeros;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use self::at_depth::side_by_side;
use self::zeros::Zeros;
use crate::failure::Failure;

/// Arguments of `device probe`.
#[derive(clap::Args)]
pub struct Args {
    /// File or block device
    target: PathBuf,
    /// Requests may write, where the target holds zeros; it does so again afterwards
    #[arg(long)]
    write: bool,
    /// Requests may write anywhere: data on the target is lost
    #[arg(long, requires = "write")]
    overwrite: bool,
}

/// A smaller target has no places far enough from each other.
const SMALLEST_BYTES: u64 = 16 << 20;
/// Bounds of a batch, so that no input makes this process large.
const MOST_REQUESTS: u64 = 1 << 20;
const MOST_DEPTH: u64 = 256;
const MOST_LENGTH: u64 = 8 << 20;
const MOST_DELAY_NS: u64 = 10_000_000_000;
/// Alignment that direct I/O accepts everywhere.
const PAGE: usize = 4096;
/// Bytes of a request and of an answer.
const REQUEST_BYTES: usize = 32;
const ANSWER_BYTES: usize = 24;

/// What is measured.
#[derive(Serialize)]
struct Target {
    path: String,
    size_bytes: u64,
    /// Smallest request with direct I/O.
    sector_bytes: u64,
    is_device: bool,
    /// queue/rotational in sysfs; null for a file.
    rotational: Option<bool>,
    /// Vendor and model in sysfs; null if it has none.
    model: Option<String>,
    /// Whether probes have real-time priority.
    realtime: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Read,
    Write,
    Flush,
    Trim,
}

#[derive(Clone, Copy)]
struct Request {
    op: Op,
    pos: u64,
    length: u64,
    delay_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Answer {
    start_ns: i64,
    end_ns: i64,
    errno: i32,
}

/// Probes until stdin ends.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let (file, mut target) = open(&args)?;
    target.realtime = raise_priority();
    let mut zeros = (args.write && !args.overwrite).then(Zeros::default);
    if zeros.is_some() {
        zeros::outlive_signals();
    }
    let probed = probe(&args, &file, &target, zeros.as_mut());
    let restored = zeros.map_or(Ok(()), |zeros| zeros.restore(&args.target, &file));
    probed.and(restored).map(|()| ExitCode::SUCCESS)
}

fn probe(args: &Args, file: &File, target: &Target, mut zeros: Option<&mut Zeros>) -> Result<(), Failure> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let line = serde_json::to_string(&target).map_err(|error| Failure::new(error.to_string()))?;
    writeln!(output, "{line}").and_then(|()| output.flush()).map_err(unheard)?;
    while let Some((requests, depth)) = read_batch(&mut input, target, args.write)? {
        if let Some(zeros) = &mut zeros {
            zeros.claim(&args.target, file, &requests)?;
        }
        let answers = if depth == 1 {
            one_by_one(file, target, &requests)
        } else {
            side_by_side(file, &requests, depth)
        };
        let answers = answers.map_err(|error| {
            Failure::new(format!("cannot do requests on {}: {error}", args.target.display()))
        })?;
        let mut bytes = Vec::with_capacity(answers.len() * ANSWER_BYTES);
        for answer in answers {
            bytes.extend(answer.start_ns.to_le_bytes());
            bytes.extend(answer.end_ns.to_le_bytes());
            bytes.extend(i64::from(answer.errno).to_le_bytes());
        }
        output.write_all(&bytes).and_then(|()| output.flush()).map_err(unheard)?;
    }
    Ok(())
}

/// Nobody reads answers any more: what is left to do comes before the end, so this doesn't end the process as
/// [`Failure::stdout`] does.
fn unheard(error: io::Error) -> Failure {
    Failure::new(format!("cannot write to stdout: {error}"))
}

/// Opens the target, if it may be measured.
fn open(args: &Args) -> Result<(File, Target), Failure> {
    let (path, shown) = (&args.target, args.target.display());
    let found =
        std::fs::metadata(path).map_err(|error| Failure::new(format!("cannot look at {shown}: {error}")))?;
    let is_device = found.file_type().is_block_device();
    if !is_device && !found.is_file() {
        return Err(Failure::new(format!("{shown} is neither a file nor a block device"))
            .hint("name a disk, such as /dev/sdb, or a file on it"));
    }
    if args.write {
        iotrail_replay::check_writable(path, "the measurement", args.overwrite)?;
    }
    let opened = OpenOptions::new().read(true).write(args.write).custom_flags(libc::O_DIRECT).open(path);
    let mut file = opened.map_err(|error| {
        let failure = Failure::new(format!("cannot open {shown} with direct I/O: {error}"));
        match error.raw_os_error() {
            Some(libc::EINVAL) => {
                failure.hint("its file system has no direct I/O (tmpfs?): name another target")
            }
            Some(libc::EACCES | libc::EPERM) => {
                failure.hint("run it as root, or as a user who may read the target")
            }
            _ => failure,
        }
    })?;
    let failed = |error| Failure::new(format!("cannot read {shown}: {error}"));
    let size_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
    if size_bytes < SMALLEST_BYTES {
        return Err(Failure::new(format!(
            "{shown} has {size_bytes} bytes: expected at least {SMALLEST_BYTES} to measure"
        )));
    }
    if !is_device && found.blocks() * 512 < size_bytes / 100 * 99 {
        return Err(Failure::new(format!(
            "{shown} has holes ({} of {size_bytes} bytes are stored): reads of them don't reach the device",
            found.blocks() * 512
        ))
        .hint("write all of the file first, or name the device"));
    }
    let sector_bytes = smallest_read(&file).map_err(failed)?;
    let (rotational, model) = if is_device { describe(found.rdev()) } else { (None, None) };
    let target = Target {
        path: shown.to_string(),
        size_bytes: size_bytes / sector_bytes * sector_bytes,
        sector_bytes,
        is_device,
        rotational,
        model,
        realtime: false,
    };
    Ok((file, target))
}

/// The smallest read that direct I/O takes: 512 bytes, or what the device says by refusing them.
fn smallest_read(file: &File) -> io::Result<u64> {
    let mut memory = Buffer::new(1 << 16);
    for length in [512, 4096] {
        match file.read_exact_at(&mut memory.bytes()[..length], length as u64) {
            Ok(()) => return Ok(length as u64),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    file.read_exact_at(&mut memory.bytes()[..1 << 16], 0).map(|()| 1 << 16)
}

/// Whether a device has platters and its model, by sysfs (block/queue-sysfs); a partition's are its disk's.
fn describe(number: u64) -> (Option<bool>, Option<String>) {
    let node = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    let of_disk = |name: &str| {
        let read = |place: &str| std::fs::read_to_string(Path::new(&node).join(place).join(name)).ok();
        read(".").or_else(|| read("..")).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let model = [of_disk("device/vendor"), of_disk("device/model")].into_iter().flatten();
    let model = model.collect::<Vec<_>>().join(" ");
    (of_disk("queue/rotational").map(|text| text == "1"), (!model.is_empty()).then_some(model))
}

/// The lowest real-time priority and exact timers, where that is allowed (sched(7)). Whether it is.
fn raise_priority() -> bool {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid structure; 0 is the calling thread. The other call has no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param) == 0
    }
}

/// The next batch; none at the end of stdin.
fn read_batch(
    input: &mut impl Read,
    target: &Target,
    writes: bool,
) -> Result<Option<(Vec<Request>, usize)>, Failure> {
    let mut head = [0; 16];
    match input.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other.map_err(|error| Failure::new(format!("cannot read stdin: {error}")))?,
    }
    let (count, depth) = (number(&head, 0), number(&head, 1));
    let refuse = |what: String| Failure::new(format!("batch: expected {what}"));
    if count > MOST_REQUESTS || !(1..=MOST_DEPTH).contains(&depth) {
        return Err(refuse(format!(
            "at most {MOST_REQUESTS} requests at depth 1 to {MOST_DEPTH}, found {count} at {depth}"
        )));
    }
    let mut bytes = vec![0; count as usize * REQUEST_BYTES];
    input.read_exact(&mut bytes).map_err(|error| Failure::new(format!("cannot read stdin: {error}")))?;
    let mut requests = Vec::with_capacity(count as usize);
    for (at, bytes) in bytes.chunks_exact(REQUEST_BYTES).enumerate() {
        let op = match number(bytes, 0) {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            3 => Op::Trim,
            other => return Err(refuse(format!("op 0 to 3, found {other} in request {at}"))),
        };
        let (pos, length, delay_ns) = (number(bytes, 1), number(bytes, 2), number(bytes, 3));
        let fits = pos.checked_add(length).is_some_and(|end| end <= target.size_bytes);
        let is_aligned = (pos | length).is_multiple_of(target.sector_bytes);
        if !fits || !is_aligned || length > MOST_LENGTH || delay_ns > MOST_DELAY_NS {
            return Err(refuse(format!(
                "requests of whole sectors on the target, found {length} bytes at {pos} after {delay_ns} ns"
            )));
        }
        if op != Op::Read && !writes {
            return Err(refuse("reads only without --write".into()));
        }
        requests.push(Request { op, pos, length, delay_ns });
    }
    Ok(Some((requests, depth as usize)))
}

/// The number at a place of a table of 64-bit numbers.
fn number(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
    u64::from_le_bytes(word)
}

/// Memory for direct I/O. What is written from it is pseudo-random, which no device compresses.
struct Buffer {
    memory: Vec<u8>,
    from: usize,
}

impl Buffer {
    fn new(length: usize) -> Self {
        let mut memory = vec![0; length + PAGE];
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for word in memory.chunks_exact_mut(8) {
            // xorshift64 (Marsaglia, 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let from = memory.as_ptr().align_offset(PAGE);
        Self { memory, from }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let end = self.memory.len() - PAGE + self.from;
        &mut self.memory[self.from..end]
    }
}

fn now_ns() -> i64 {
    iotrail_trail::seal::clock::clock_ns(libc::CLOCK_MONOTONIC) as i64
}

/// How long before a start to stop sleeping and wait actively: longer than a timer's wakeup takes.
const SPIN_NS: i64 = 60_000;

fn wait_until(at_ns: i64) {
    let sleep_ns = at_ns - SPIN_NS;
    if sleep_ns > now_ns() {
        let at =
            libc::timespec { tv_sec: sleep_ns / 1_000_000_000, tv_nsec: (sleep_ns % 1_000_000_000) as _ };
        // SAFETY: a valid time, and no place for the rest. A signal only ends the sleep early.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const at,
                std::ptr::null_mut(),
            );
        }
    }
    while now_ns() < at_ns {
        std::hint::spin_loop();
    }
}

fn longest(requests: &[Request]) -> usize {
    requests.iter().map(|request| request.length).max().unwrap_or(0).max(PAGE as u64) as usize
}

/// One request at a time, each its delay after the end of the one before.
fn one_by_one(file: &File, target: &Target, requests: &[Request]) -> io::Result<Vec<Answer>> {
    let mut memory = Buffer::new(longest(requests));
    let mut answers = Vec::with_capacity(requests.len());
    let mut last = now_ns();
    for request in requests {
        if request.delay_ns > 0 {
            wait_until(last + request.delay_ns as i64);
        }
        let data = &mut memory.bytes()[..request.length as usize];
        let start_ns = now_ns();
        let done = match request.op {
            Op::Read => file.read_exact_at(data, request.pos),
            Op::Write => file.write_all_at(data, request.pos),
            Op::Flush => file.sync_data(),
            Op::Trim => trim(file, target, request),
        };
        last = now_ns();
        let errno = done.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        answers.push(Answer { start_ns, end_ns: last, errno });
    }
    Ok(answers)
}

fn trim(file: &File, target: &Target, request: &Request) -> io::Result<()> {
    // linux/fs.h: #define BLKDISCARD _IO(0x12, 119)
    const BLKDISCARD: libc::c_ulong = 0x1277;
    let range = [request.pos, request.length];
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a descriptor of ours; the request reads two numbers.
    let done = unsafe {
        if target.is_device {
            libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr())
        } else {
            libc::fallocate(file.as_raw_fd(), mode, request.pos as i64, request.length as i64)
        }
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
