//! How fast the misses of LRU caches of all sizes are found: `reuse_speed FILE`, of little-endian 32-bit numbers of blocks.
//!
//! Prints uses, different blocks, seconds of one pass over all uses, uses per second of CPU, and the memory that it took
//! beyond the uses themselves (VmHWM of /proc/self/status, which counts the file too until it is freed).

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use iotrail_sim::cache::{Numbers, Reuse};

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reuse_speed: error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn resident_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.split_ascii_whitespace().nth(1).ok_or("no size")?.parse()?)
}

/// Nanoseconds on a CPU so far: the clock of a busy machine says less.
fn cpu_ns() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(status.split_ascii_whitespace().next().ok_or("no time")?.parse()?)
}

fn measure() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: reuse_speed FILE")?;
    let (mut numbers, mut uses) = (Numbers::default(), Vec::new());
    {
        use std::io::Read as _;
        let mut file = std::io::BufReader::new(std::fs::File::open(path)?);
        let mut word = [0; 4];
        while file.read_exact(&mut word).is_ok() {
            uses.push(numbers.of(0, u32::from_le_bytes(word).into()).ok_or("too many blocks")?);
        }
    }
    uses.shrink_to_fit();
    let blocks = numbers.len();
    let before = resident_kib()?;
    let (start, cpu) = (Instant::now(), cpu_ns()?);
    let mut reuse = Reuse::new(blocks);
    let mut served = vec![0_u64; blocks as usize + 1];
    for block in &uses {
        served[reuse.touch(*block) as usize] += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = (cpu_ns()? - cpu) as f64 / 1e9;
    println!("uses {} blocks {blocks} first uses {}", uses.len(), served[0]);
    println!("seconds {seconds:.3}, of CPU {cpu_seconds:.3}");
    println!("uses per second of CPU {:.0}", uses.len() as f64 / cpu_seconds);
    let (resident, held) = (resident_kib()?, uses.len() * 4 / 1024);
    println!("KiB resident {resident}, of which uses {held}; the pass added {}", resident - before);
    Ok(())
}
