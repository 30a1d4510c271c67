//! Files that the head knows: what is newer here than at the metadata service, and who holds them.

use std::collections::HashMap;
use std::sync::Arc;

use iotrail_sdk::request::Crumb;
use parking_lot::{Mutex, RwLock};

use super::Head;
use crate::calls::{Inode, MdsCall, Replica};
use crate::rpc::Errno;

/// A file. Locks are taken in the order of the fields.
pub struct File {
    /// Its inode's number, which is its object's, too.
    pub ino: u64,
    /// Readers share it, what changes the content has it alone. A flush doesn't need it: it changes nothing.
    pub io: RwLock<()>,
    /// Held while blocks are written back, so that a node gets a block's contents in their order.
    pub flush: Mutex<()>,
    /// Never held across a call.
    pub meta: Mutex<Meta>,
}

/// What is known of a file.
pub struct Meta {
    /// Whether the metadata service was asked.
    asked: bool,
    /// Its size, with what isn't written back yet.
    pub size: u64,
    /// When it was written, if that was here.
    pub mtime: Option<i64>,
    /// Where its data is.
    pub replicas: Vec<Replica>,
    /// Where the last read ended.
    pub read_to: u64,
}

impl File {
    fn new(ino: u64) -> Self {
        let meta = Meta { asked: false, size: 0, mtime: None, replicas: Vec::new(), read_to: 0 };
        Self { ino, io: RwLock::new(()), flush: Mutex::new(()), meta: Mutex::new(meta) }
    }

    /// What the metadata service said first. What it says later is older than what is known here.
    fn is_found(&self, inode: &Inode) {
        let mut meta = self.meta.lock();
        if !meta.asked {
            (meta.asked, meta.size, meta.replicas) = (true, inode.size, inode.replicas().to_vec());
        }
    }
}

struct Known {
    file: Arc<File>,
    /// Opens and requests that go on.
    holders: usize,
    /// It lost its last name, to this request; it ends when nobody holds it.
    nameless: Option<(Inode, Crumb)>,
}

/// All known files. One stays known until the kernel forgets it, so that an answer of the metadata service
/// that is older than a write is seen to be.
#[derive(Default)]
pub struct Files(Mutex<HashMap<u64, Known>>);

impl Files {
    /// A file, if it is known.
    pub fn known(&self, ino: u64) -> Option<Arc<File>> {
        let file = self.0.lock().get(&ino).map(|known| Arc::clone(&known.file))?;
        let asked = file.meta.lock().asked;
        asked.then_some(file)
    }

    fn hold(&self, ino: u64) -> Arc<File> {
        let mut files = self.0.lock();
        let known = files.entry(ino).or_insert_with(|| Known {
            file: Arc::new(File::new(ino)),
            holders: 0,
            nameless: None,
        });
        known.holders += 1;
        Arc::clone(&known.file)
    }
}

impl Head {
    /// Holds a file until [`Self::let_go`]. It is held before the metadata service is asked, so that a request
    /// that takes its last name away meanwhile finds it held.
    pub fn hold(&self, ino: u64, crumb: Crumb) -> Result<Arc<File>, Errno> {
        let file = self.files.hold(ino);
        if !{ file.meta.lock().asked } {
            match self.inode(MdsCall::GetAttr { ino }, crumb) {
                Ok(inode) => file.is_found(&inode),
                Err(errno) => {
                    self.let_go(ino)?;
                    return Err(errno);
                }
            }
        }
        Ok(file)
    }

    /// As [`Self::hold`], a file whose inode the metadata service just made.
    pub fn hold_new(&self, inode: &Inode) {
        self.files.hold(inode.ino).is_found(inode);
    }

    /// No longer holds a file. If it has no name and nobody else holds it, it ends, on behalf of the request
    /// that took its name.
    pub fn let_go(&self, ino: u64) -> Result<(), Errno> {
        let (ended, crumb) = {
            let mut files = self.files.0.lock();
            let Some(known) = files.get_mut(&ino) else { return Ok(()) };
            known.holders -= 1;
            if known.holders > 0 {
                return Ok(());
            }
            let Some(ended) = known.nameless.take() else { return Ok(()) };
            files.remove(&ino);
            ended
        };
        self.release_object(&ended, crumb)
    }

    /// Does something with a file, holding it.
    pub fn with<T>(
        &self,
        ino: u64,
        crumb: Crumb,
        work: impl FnOnce(&Arc<File>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let file = self.hold(ino, crumb)?;
        let done = work(&file);
        self.let_go(ino)?;
        done
    }

    /// These inodes lost their last name: they end now, or when nobody holds them.
    pub fn lost_name(&self, inodes: Vec<Inode>, crumb: Crumb) -> Result<(), Errno> {
        for inode in inodes {
            {
                let mut files = self.files.0.lock();
                if let Some(known) = files.get_mut(&inode.ino)
                    && known.holders > 0
                {
                    known.nameless = Some((inode, crumb));
                    continue;
                }
                files.remove(&inode.ino);
            }
            self.release_object(&inode, crumb)?;
        }
        Ok(())
    }

    /// The kernel forgets an inode.
    pub fn forget(&self, ino: u64) {
        let mut files = self.files.0.lock();
        if files.get(&ino).is_some_and(|known| known.holders == 0) && !self.cache.is_dirty(ino) {
            files.remove(&ino);
        }
    }

    /// An inode as the metadata service returned it, with what is newer here. `before` is the file if it was
    /// known before the metadata service was asked.
    pub fn as_known(&self, mut inode: Inode, before: Option<Arc<File>>) -> Inode {
        if let Some(file) = self.files.known(inode.ino).or(before) {
            let meta = file.meta.lock();
            inode.size = meta.size;
            inode.mtime = meta.mtime.unwrap_or(inode.mtime);
        }
        inode
    }
}
