//! What the parts ask of each other: the calls of Stardust's Table 2, and those a file system needs besides.

use iotrail_sdk::request::{Name, Service};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::block::{BLOCK, file_id};

/// A call of one service.
pub trait Call: Serialize + DeserializeOwned + Send + 'static {
    /// What comes back, besides data.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
    /// Its name in records.
    fn op(&self) -> &'static Name;
    /// Says in its record what it is about.
    fn about(&self, service: Service) -> Service;
}

/// One name of an operation for each pattern.
macro_rules! ops {
    ($self:ident { $($pattern:pat => $name:literal,)* }) => {
        match $self { $($pattern => { static OP: Name = Name::new($name); &OP })* }
    };
}

/// Calls of a storage node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeCall {
    /// `count` blocks from `first` on, as data of the reply; blocks that were never written are zero.
    Read { object: u64, first: u64, count: u32 },
    /// The blocks in the data, from `first` on.
    Write { object: u64, first: u64, count: u32 },
    /// A new object without blocks; one that is there stays as it is.
    Create { object: u64 },
    /// The object's end; one that isn't there is no error.
    Delete { object: u64 },
    /// Keeps the first blocks only. An object that isn't there is made if none are kept.
    Truncate { object: u64, blocks: u64 },
    /// What was acknowledged outlives a power failure when this returns.
    Commit { object: u64 },
    /// How much room there is.
    Stat,
}

/// What a storage node replies.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum NodeReply {
    /// It is done; data may come with it.
    Done,
    /// Blocks in all, and free ones.
    Stat { blocks: u64, free: u64 },
}

impl Call for NodeCall {
    type Reply = NodeReply;

    fn op(&self) -> &'static Name {
        ops!(self {
            Self::Read { .. } => "READ",
            Self::Write { .. } => "WRITE",
            Self::Create { .. } => "CREATE",
            Self::Delete { .. } => "DELETE",
            Self::Truncate { .. } => "TRUNCATE",
            Self::Commit { .. } => "COMMIT",
            Self::Stat => "STAT",
        })
    }

    fn about(&self, service: Service) -> Service {
        match *self {
            Self::Read { object, first, count } | Self::Write { object, first, count } => {
                service.file(file_id(object)).at(first * BLOCK as u64, u64::from(count) * BLOCK as u64)
            }
            Self::Create { object }
            | Self::Delete { object }
            | Self::Truncate { object, .. }
            | Self::Commit { object } => service.file(file_id(object)),
            Self::Stat => service,
        }
    }
}

/// A file name, which need not be UTF-8.
pub type FileName = Vec<u8>;

/// One copy of a file's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// Name of the storage node.
    pub node: String,
    /// It missed a change of the file: never read, nor written, until the file begins anew.
    pub stale: bool,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file, and where its data is.
    File { replicas: Vec<Replica> },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink { target: Vec<u8> },
}

/// An inode. Times are nanoseconds since the epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inode {
    pub ino: u64,
    pub kind: Kind,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub size: u64,
    pub atime: i64,
    pub mtime: i64,
    pub ctime: i64,
}

impl Inode {
    /// Where a file's data is; nowhere for what isn't one.
    pub fn replicas(&self) -> &[Replica] {
        match &self.kind {
            Kind::File { replicas } => replicas,
            Kind::Directory | Kind::Symlink { .. } => &[],
        }
    }
}

/// Attributes to change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Changes {
    pub mode: Option<u16>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<i64>,
    pub mtime: Option<i64>,
}

/// One name in a directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Where to go on after it.
    pub cookie: u64,
    pub name: FileName,
    pub ino: u64,
    pub kind: Kind,
}

/// Calls of the metadata service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MdsCall {
    /// A head begins: nothing it had begun before goes on. Returns the inodes without a name.
    Start,
    Lookup {
        parent: u64,
        name: FileName,
    },
    GetAttr {
        ino: u64,
    },
    SetAttr {
        ino: u64,
        changes: Changes,
    },
    /// A new file, directory or link. A file's replicas are chosen here, not on the nodes in `down`.
    CreateObject {
        parent: u64,
        name: FileName,
        kind: Kind,
        mode: u16,
        uid: u32,
        gid: u32,
        down: Vec<String>,
    },
    Link {
        ino: u64,
        parent: u64,
        name: FileName,
    },
    /// Takes a name away. Returns the inode if that was its last one.
    Remove {
        parent: u64,
        name: FileName,
        directory: bool,
    },
    Rename {
        parent: u64,
        name: FileName,
        to: u64,
        as_name: FileName,
        replace: bool,
    },
    /// An inode without a name ends.
    ReleaseObject {
        ino: u64,
    },
    ReadDir {
        ino: u64,
        after: u64,
    },
    /// The right to write some bytes: where to. Until it is finished, the replicas may differ.
    ApproveWrite {
        ino: u64,
        pos: u64,
        length: u64,
    },
    /// The bytes are where they belong, but for the replicas that `missed` them; those that are `anew` hold
    /// all of the file again. The file is at least `size` bytes long.
    FinishWrite {
        ino: u64,
        size: u64,
        mtime: Option<i64>,
        missed: Vec<String>,
        anew: Vec<String>,
    },
    /// What was acknowledged outlives a power failure when this returns.
    Commit {
        ino: u64,
    },
}

/// What the metadata service replies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MdsReply {
    Done,
    Inode(Inode),
    /// Inodes that have no name any more.
    Nameless(Vec<Inode>),
    Entries(Vec<Entry>),
}

impl Call for MdsCall {
    type Reply = MdsReply;

    fn op(&self) -> &'static Name {
        ops!(self {
            Self::Start => "START",
            Self::Lookup { .. } => "LOOKUP",
            Self::GetAttr { .. } => "GETATTR",
            Self::SetAttr { .. } => "SETATTR",
            Self::CreateObject { .. } => "CREATE_OBJECT",
            Self::Link { .. } => "LINK",
            Self::Remove { .. } => "REMOVE",
            Self::Rename { .. } => "RENAME",
            Self::ReleaseObject { .. } => "RELEASE_OBJECT",
            Self::ReadDir { .. } => "READDIR",
            Self::ApproveWrite { .. } => "APPROVE_WRITE",
            Self::FinishWrite { .. } => "FINISH_WRITE",
            Self::Commit { .. } => "COMMIT",
        })
    }

    fn about(&self, service: Service) -> Service {
        match *self {
            Self::ApproveWrite { ino, pos, length } => service.file(file_id(ino)).at(pos, length),
            Self::GetAttr { ino }
            | Self::SetAttr { ino, .. }
            | Self::Link { ino, .. }
            | Self::ReleaseObject { ino }
            | Self::ReadDir { ino, .. }
            | Self::FinishWrite { ino, .. }
            | Self::Commit { ino } => service.file(file_id(ino)),
            Self::Lookup { parent, .. }
            | Self::CreateObject { parent, .. }
            | Self::Remove { parent, .. }
            | Self::Rename { parent, .. } => service.file(file_id(parent)),
            Self::Start => service,
        }
    }
}
