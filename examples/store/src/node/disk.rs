//! The disk: one file or block device, past the page cache, one request at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use iotrail_sdk::request::{self, Crumb, Name};
use nix::libc::O_DIRECT;
use parking_lot::Mutex;

use crate::block::{BLOCK, Block};
use crate::faults::Faults;
use crate::rpc::Errno;

static DISK: Name = Name::new("disk");
static READ: Name = Name::new("read");
static WRITE: Name = Name::new("write");
static FLUSH: Name = Name::new("flush");

/// A disk.
pub struct Disk {
    file: File,
    /// Blocks it has.
    pub blocks: u64,
    /// Held by the request that the disk works on; the others queue.
    turn: Mutex<()>,
}

impl Disk {
    /// Opens a disk; a file that isn't there is made with `size` bytes.
    pub fn open(path: &Path, size: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = match options.clone().custom_flags(O_DIRECT).open(path) {
            Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => {
                eprintln!(
                    "store: {}: its file system refuses O_DIRECT; the page cache is between this node and its \
                     disk, so that disk_op is not what the disk does",
                    path.display()
                );
                options.open(path)?
            }
            opened => opened?,
        };
        let meta = file.metadata()?;
        if meta.is_file() && meta.len() == 0 {
            file.set_len(size)?;
        }
        // What metadata doesn't say of a block device.
        let size =
            { &file }.try_clone().and_then(|mut file| io::Seek::seek(&mut file, io::SeekFrom::End(0)))?;
        Ok(Self { file, blocks: size / BLOCK as u64, turn: Mutex::new(()) })
    }

    /// Reads neighbouring blocks.
    pub fn read(
        &self,
        number: u64,
        count: usize,
        crumb: Crumb,
        faults: &Faults,
    ) -> Result<Vec<Block>, Errno> {
        let mut blocks = vec![Block::ZERO; count];
        let bytes = Block::bytes_mut(&mut blocks);
        let pos = number * BLOCK as u64;
        let mut disk = request::Disk::queued(&DISK, &READ, crumb, pos, bytes.len() as u64);
        let _turn = self.turn.lock();
        disk.issued();
        faults.delay_disk();
        self.file.read_exact_at(bytes, pos).map_err(errno)?;
        drop(disk);
        Ok(blocks)
    }

    /// Writes neighbouring blocks.
    pub fn write(&self, number: u64, blocks: &[Block], crumb: Crumb, faults: &Faults) -> Result<(), Errno> {
        let (bytes, pos) = (Block::bytes(blocks), number * BLOCK as u64);
        let mut disk = request::Disk::queued(&DISK, &WRITE, crumb, pos, bytes.len() as u64);
        let _turn = self.turn.lock();
        disk.issued();
        faults.delay_disk();
        self.file.write_all_at(bytes, pos).map_err(errno)
    }

    /// Makes what was written durable.
    pub fn sync(&self, crumb: Crumb) -> Result<(), Errno> {
        let mut disk = request::Disk::queued(&DISK, &FLUSH, crumb, 0, 0);
        let _turn = self.turn.lock();
        disk.issued();
        self.file.sync_data().map_err(errno)
    }
}

/// The error number of an I/O error.
pub fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
