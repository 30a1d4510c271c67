//! A block device over a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;

use iotrail_probes::Dev;
use tempfile::NamedTempFile;

/// Goes away when the last who has it open does, however that ends.
pub struct LoopDevice {
    pub path: PathBuf,
    open: File,
    backing: NamedTempFile,
}

impl LoopDevice {
    pub fn new(bytes: u64) -> LoopDevice {
        let backing = NamedTempFile::new().unwrap();
        backing.as_file().set_len(bytes).unwrap();
        let find = ["--find", "--show", "--partscan"];
        let path = PathBuf::from(run(Command::new("losetup").args(find).arg(backing.path())));
        let open = File::open(&path).unwrap();
        run(Command::new("losetup").arg("--detach").arg(&path));
        let device = LoopDevice { path, open, backing };
        // It stays as the last user of the number set it.
        device.set_largest_request(1280);
        device
    }

    /// Adds a partition, PATHp1, of so many sectors from `start`. It goes with the device.
    pub fn add_partition(&self, start: u64, sectors: u64) -> PathBuf {
        run(Command::new("addpart").arg(&self.path).args(["1", &start.to_string(), &sectors.to_string()]));
        format!("{}p1", self.path.display()).into()
    }

    pub fn set_largest_request(&self, kib: u32) {
        let name = self.path.file_name().unwrap().to_str().unwrap();
        std::fs::write(format!("/sys/block/{name}/queue/max_sectors_kb"), kib.to_string()).unwrap();
    }

    pub fn dev(&self) -> Dev {
        dev(&self.open)
    }

    /// Cuts the file off: what is beyond can't be read any more.
    pub fn shrink(&self, bytes: u64) {
        self.backing.as_file().set_len(bytes).unwrap();
    }

    /// For reads and writes past the page cache.
    pub fn open_direct(&self) -> File {
        open_direct(&self.path)
    }
}

pub fn dev(device: &File) -> Dev {
    let number = device.metadata().unwrap().rdev();
    Dev { major: libc::major(number), minor: libc::minor(number) }
}

pub fn open_direct(path: &std::path::Path) -> File {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).unwrap()
}

/// Its output without the line's end.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Memory as O_DIRECT wants it.
#[repr(C, align(4096))]
pub struct Aligned(pub [u8; 1 << 16]);

/// A read or write to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    pub write: bool,
    pub pos: u64,
    pub length: u32,
}

/// `count` accesses within `bytes`, of 1 to 16 pages, the same each time.
pub fn accesses(count: u64, bytes: u64) -> Vec<Access> {
    let blocks = bytes / 4096 - 16;
    let mut random = 1u64;
    (0..count)
        .map(|n| {
            // Knuth's MMIX generator; the upper bits are the good ones.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Access {
                write: n % 3 == 0,
                pos: (random >> 33) % blocks * 4096,
                length: (n % 16 + 1) as u32 * 4096,
            }
        })
        .collect()
}

/// One after the other.
pub fn access(file: &File, accesses: &[Access]) {
    let mut memory = Box::new(Aligned([7; 1 << 16]));
    for access in accesses {
        let memory = &mut memory.0[..access.length as usize];
        let done =
            if access.write { file.write_at(memory, access.pos) } else { file.read_at(memory, access.pos) };
        assert_eq!(done.unwrap(), access.length as usize, "fd {}", file.as_raw_fd());
    }
}

/// As [`access`], many at a time on an io_uring; `user_data` is the number of the access.
pub fn access_by_ring(file: &File, accesses: &[Access]) -> io::Result<()> {
    use io_uring::{IoUring, opcode, types};
    const DEPTH: usize = 32;
    let fd = types::Fd(file.as_raw_fd());
    let mut ring = IoUring::new(DEPTH as u32)?;
    let mut memory: Vec<Aligned> = (0..DEPTH).map(|_| Aligned([7; 1 << 16])).collect();
    for (batch, accesses) in accesses.chunks(DEPTH).enumerate() {
        for (n, (access, memory)) in accesses.iter().zip(&mut memory).enumerate() {
            let (memory, pos) = (memory.0.as_mut_ptr(), access.pos);
            let entry = match access.write {
                true => opcode::Write::new(fd, memory, access.length).offset(pos).build(),
                false => opcode::Read::new(fd, memory, access.length).offset(pos).build(),
            };
            // SAFETY: file and memory outlive the batch, which is waited for below.
            unsafe { ring.submission().push(&entry.user_data((batch * DEPTH + n) as u64)) }
                .map_err(io::Error::other)?;
        }
        ring.submit_and_wait(accesses.len())?;
        for done in ring.completion() {
            assert_eq!(done.result(), accesses[done.user_data() as usize - batch * DEPTH].length as i32);
        }
    }
    Ok(())
}
