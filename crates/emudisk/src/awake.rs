//! Processors that don't sleep while requests come. One that sleeps wakes up late: the more, the longer a client waits for
//! its answer, 0.05 to 0.2 ms on a virtual machine, and up to a millisecond where that machine shares its processors. The
//! floor, measured by requests in short succession, has none of it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Which driver makes idle processors sleep: `none` where they halt, as in many virtual machines, and whoever runs the
/// virtual machine decides how long they take to wake up.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
/// Turns between two looks whether to stop, or whether another wants the processor.
const TURNS: usize = 1000;

/// Keeps processors from sleeping while it is held, where that is allowed.
#[derive(Debug, Default)]
pub struct Awake(Option<Held>);

#[derive(Debug)]
struct Held {
    /// The kernel's power management quality of service, `/dev/cpu_dma_latency`: the driver heeds it while it is open.
    _latency: io::Result<File>,
    /// Says to the threads that keep processors busy where there is no driver to heed it that they may end.
    release: Arc<AtomicBool>,
}

impl Awake {
    pub fn hold(&mut self) {
        self.0.get_or_insert_with(|| {
            let release = Arc::default();
            if std::fs::read_to_string(DRIVER).map_or(true, |driver| driver.trim() == "none") {
                keep_busy(&release);
            }
            Held { _latency: short_latency(), release }
        });
    }

    pub fn release(&mut self) {
        if let Some(held) = self.0.take() {
            held.release.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.release();
    }
}

fn short_latency() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    // Microseconds that a processor may take to wake up.
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

/// A thread a processor that runs when nothing else does there (sched(7), SCHED_IDLE). None where the process may use less
/// than its processors have: the threads would use up what the emulation needs.
fn keep_busy(release: &Arc<AtomicBool>) {
    let processors = processors();
    if thread::available_parallelism().map_or(0, usize::from) < processors.len() {
        return;
    }
    for processor in processors {
        let release = Arc::clone(release);
        let name = format!("awake-{processor}");
        // Whatever is refused only makes answers less punctual.
        let _ = thread::Builder::new().name(name).spawn(move || {
            if !become_idle(processor) {
                return;
            }
            while !release.load(Ordering::Relaxed) {
                (0..TURNS).for_each(|_| std::hint::spin_loop());
                // to others of the idle class
                thread::yield_now();
            }
        });
    }
}

/// The processors that this process may use.
fn processors() -> Vec<usize> {
    // SAFETY: a plain structure of bits, as large as is said.
    let (set, failed) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let failed = libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
        (set, failed)
    };
    // SAFETY: within the structure.
    let all =
        (0..libc::CPU_SETSIZE as usize).filter(|processor| unsafe { libc::CPU_ISSET(*processor, &set) });
    if failed == 0 { all.collect() } else { Vec::new() }
}

/// Gives this thread the idle class, on one processor: whether it has them.
fn become_idle(processor: usize) -> bool {
    // SAFETY: valid structures, as large as is said; 0 is the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        let param = libc::sched_param { sched_priority: 0 };
        // in this order: in that class it may never get as far where all are busy
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
            && libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) == 0
    }
}
