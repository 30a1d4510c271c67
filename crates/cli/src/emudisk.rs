//! `iotrail emudisk`: serves a file, or a block device, that answers as the device of a file would, until a signal.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use iotrail_emudisk::{Counts, Emulation, Error, Options, prepare_process};
use iotrail_sim::file::{DeviceFile, SHIPPED};
use iotrail_trail::TrailWriter;

use crate::arguments::size;
use crate::failure::Failure;

/// Arguments of `emudisk`.
#[derive(clap::Args)]
pub struct Args {
    /// Device file, or the name of one that comes with iotrail: what the disk answers like
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Empty directory to mount over: the disk is the file `disk` in it. The data stays there when the emulation has ended
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Bytes of the disk, such as 10G [default: the device's capacity]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Attach a loop device, so that the kernel's I/O schedulers, read-ahead and file systems use the disk (as root)
    #[arg(long = "loop")]
    attach: bool,
    /// Write each request to this trail, as a row of disk_op
    #[arg(short, long, value_name = "X.trail")]
    output: Option<PathBuf>,
    /// Replace the trail if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Print what is served, and at the end how punctual it was, as JSON
    #[arg(long)]
    json: bool,
}

/// Signals that end an emulation.
const STOPPING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// How often to look whether a disk that was in use still is.
const POLL: Duration = Duration::from_millis(200);

/// Reads a device file, or one that comes with iotrail.
pub fn read_device(path: &Path) -> Result<DeviceFile, Failure> {
    if let Some((_, text)) = SHIPPED.iter().find(|(name, _)| path.as_os_str() == *name) {
        return DeviceFile::parse(text).map_err(|error| Failure::new(error.to_string()));
    }
    let name = path.display();
    /// Longer than any device file; a sparse or endless one is refused.
    const MOST: u64 = 1 << 20;
    let text = std::fs::File::open(path).and_then(|file| {
        use std::io::Read as _;
        let mut text = String::new();
        file.take(MOST + 1).read_to_string(&mut text)?;
        Ok(text)
    });
    let text = text.map_err(|error| {
        let known = SHIPPED.map(|(name, _)| name).join(", ");
        Failure::new(format!("cannot read {name}: {error}"))
            .hint(format!("devices that come with iotrail are {known}"))
    })?;
    if text.len() as u64 > MOST {
        return Err(Failure::new(format!("{name}: expected a device file of at most 1 MiB, found more")));
    }
    DeviceFile::parse(&text).map_err(|error| {
        Failure::new(format!("{name}: {error}")).hint("docs/devices.md describes device files")
    })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Serves.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let file = read_device(&args.device)?;
    let device = file.build();
    let (capacity, name) = (device.capacity(), args.device.display());
    let size = args.size.unwrap_or(capacity) / 4096 * 4096;
    if size > capacity {
        return Err(Failure::new(format!(
            "--size: expected at most {capacity} bytes, what {name} stores, found {size}"
        )));
    }
    if size < SMALLEST {
        return Err(Failure::new(format!("--size: expected {SMALLEST} bytes or more, found {size}")));
    }
    let stopping = block_signals();
    prepare_process();
    let trail = args.output.as_deref().map(|path| TrailWriter::create(path, args.force)).transpose()?;
    let undo = || {
        // The trail was made here and holds nothing yet.
        args.output.as_deref().inspect(|path| drop(std::fs::remove_dir_all(path)));
    };
    let options = Options {
        directory: args.directory.clone(),
        size,
        device,
        rotational: file.is_rotational(),
        attach: args.attach,
        trail,
    };
    let emulation = Emulation::start(options).inspect_err(|_| undo())?;
    announce(&args, &emulation, &file.name, size);
    wait(&stopping, None);
    let counts = stop(emulation, &stopping)?;
    report(&args, &counts);
    Ok(ExitCode::SUCCESS)
}

/// A disk smaller than this can't be measured.
const SMALLEST: u64 = 1 << 20;

fn announce(args: &Args, emulation: &Emulation, name: &str, size: u64) {
    let target = emulation.target();
    let floor = emulation.floor();
    let (read, write) = (floor.read.at(4096), floor.write.at(4096));
    let line = if args.json {
        serde_json::json!({
            "target": target.display().to_string(),
            "device": name,
            "size": size,
            "floor_read_ns": read,
            "floor_write_ns": write,
        })
        .to_string()
    } else {
        format!(
            "{}: {name}, {size} bytes; the emulation itself takes {} µs a read and {} µs a write of 4 KiB, which is subtracted",
            target.display(),
            read / 1000,
            write / 1000
        )
    };
    // Whoever read it may be gone.
    let _ = writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush());
}

fn report(args: &Args, counts: &Counts) {
    let late = |share| counts.lateness.quantile(share);
    let line = if args.json {
        serde_json::json!({
            "requests": counts.requests,
            "late": counts.late,
            "failed": counts.failed,
            "lateness_p50_ns": late(0.5),
            "lateness_p99_ns": late(0.99),
        })
        .to_string()
    } else {
        let micros = |share| late(share).map_or("–".into(), |late| format!("{} µs", late / 1000));
        format!(
            "{} requests; later than the model: p50 {}, p99 {}; {} by more than 0.1 ms",
            counts.requests,
            micros(0.5),
            micros(0.99),
            counts.late
        )
    };
    let _ = writeln!(std::io::stdout(), "{line}");
    if counts.failed > 0 {
        iotrail_trail::say!(
            "iotrail: warning: {} requests failed: the data could not be stored",
            counts.failed
        );
        iotrail_trail::say!("  hint: {} needs space for what is written", args.directory.display());
    }
}

/// Ends the emulation; one in use when it isn't any more, or at a second signal.
fn stop(emulation: Emulation, stopping: &libc::sigset_t) -> Result<Counts, Failure> {
    let mut said = false;
    let mut running = emulation;
    loop {
        match running.stop() {
            Ok(counts) => return Ok(counts),
            Err((Some(still), error)) => {
                running = *still;
                if !said {
                    iotrail_trail::say!("iotrail: {error}; serving until it is unmounted");
                    iotrail_trail::say!("  hint: interrupt again to detach it all the same");
                    said = true;
                }
                if wait(stopping, Some(POLL)) {
                    return running.detach().map_err(Failure::from);
                }
            }
            Err((None, error)) => return Err(error.into()),
        }
    }
}

/// Blocks the signals in this thread and all that it starts.
fn block_signals() -> libc::sigset_t {
    // SAFETY: a signal set is plain memory, filled by the calls; no other thread runs yet.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in STOPPING {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    }
}

/// Waits for one of the signals, at most so long. Whether there was one.
fn wait(set: &libc::sigset_t, limit: Option<Duration>) -> bool {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    loop {
        // SAFETY: a valid set, no place for details, and a valid time or none.
        if unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), limit) } > 0 {
            return true;
        }
        if !limit.is_null() {
            return false;
        }
    }
}
