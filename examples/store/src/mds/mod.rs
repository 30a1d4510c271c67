//! The metadata service: names, attributes, where each file's replicas are, and who may write where.

mod inodes;
mod names;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use iotrail_sdk::request::{Crumb, Name};
use nix::unistd::User;
use parking_lot::Mutex;

use crate::calls::{Changes, FileName, Inode, Kind, MdsCall, MdsReply, Replica};
use crate::faults::{Fault, Faults};
use crate::rpc::{self, Errno, Replied, Serve};
use crate::{Failure, size, wait_for_end};
use inodes::{Change, Inodes};

static MDS: Name = Name::new("mds");

/// Number of the root directory.
const ROOT: u64 = 1;
/// Most bytes of a name, as everywhere.
const LONGEST_NAME: usize = 255;

/// Arguments of `mds`.
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: String,
    /// Where its journal is
    #[arg(long)]
    dir: PathBuf,
    /// Names of the storage nodes
    #[arg(long, value_name = "NAME", required = true)]
    node: Vec<String>,
    /// Copies of each file
    #[arg(long, default_value_t = 2)]
    replicas: usize,
    /// New files of a user are on these nodes, in so many copies as nodes are named
    #[arg(long, value_name = "USER=NAME,…", value_parser = placing)]
    place: Vec<Placing>,
    /// Size of the cache of inodes; names are always in memory
    #[arg(long, default_value = "8M", value_parser = size)]
    cache: u64,
    /// A fault: slow=OP=MS
    #[arg(long)]
    fault: Vec<Fault>,
}

/// Where new files of a user are.
#[derive(Clone)]
struct Placing {
    uid: u32,
    nodes: Vec<String>,
}

fn placing(text: &str) -> Result<Placing, String> {
    let (user, nodes) = text.split_once('=').ok_or("expected USER=NAME,…")?;
    let found = User::from_name(user).map_err(|errno| format!("user {user}: {errno}"))?;
    let uid = found.ok_or_else(|| format!("there is no user {user}"))?.uid.as_raw();
    Ok(Placing { uid, nodes: nodes.split(',').map(str::to_owned).collect() })
}

struct Mds {
    inodes: Mutex<Inodes>,
    nodes: Vec<String>,
    replicas: usize,
    place: Vec<Placing>,
    faults: Faults,
}

/// Runs the daemon until it is ended.
pub fn run(args: Args) -> Result<(), Failure> {
    rpc::introduce("mds");
    if !(1..=args.node.len()).contains(&args.replicas) {
        let nodes = args.node.len();
        return Err(format!("--replicas {}: expected 1 to {nodes}, as many as nodes", args.replicas).into());
    }
    for name in args.place.iter().flat_map(|placing| &placing.nodes) {
        if !args.node.contains(name) {
            return Err(format!("--place: there is no node {name}").into());
        }
    }
    std::fs::create_dir_all(&args.dir).map_err(|error| format!("{}: {error}", args.dir.display()))?;
    let journal = args.dir.join("journal");
    let mut inodes = Inodes::open(&journal, args.cache)
        .map_err(|error| format!("cannot replay {}: {error}", journal.display()))?;
    if inodes.is_empty() {
        let root = Inode { mode: 0o777, nlink: 2, ..inode(ROOT, Kind::Directory) };
        inodes.change(vec![Change::Inode(root)], Crumb::NONE)?;
    }
    let mds = Mds {
        inodes: Mutex::new(inodes),
        nodes: args.node,
        replicas: args.replicas,
        place: args.place,
        faults: Faults::new(&args.fault),
    };
    rpc::listen(&args.listen, Arc::new(mds))?;
    wait_for_end()
}

/// Now, in nanoseconds since the epoch.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// A new inode, but for who owns it.
fn inode(ino: u64, kind: Kind) -> Inode {
    let (nlink, size) = match &kind {
        Kind::File { .. } => (1, 0),
        Kind::Directory => (2, 0),
        Kind::Symlink { target } => (1, target.len() as u64),
    };
    let now = now();
    Inode { ino, kind, mode: 0, uid: 0, gid: 0, nlink, size, atime: now, mtime: now, ctime: now }
}

impl Serve for Mds {
    type Call = MdsCall;
    const COMPONENT: &'static Name = &MDS;

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn serve(&self, call: MdsCall, _: Vec<u8>, crumb: Crumb) -> Replied<MdsCall> {
        let mut inodes = self.inodes.lock();
        let reply = match call {
            MdsCall::CreateObject { parent, name, kind, mode, uid, gid, down } => {
                let ino = inodes.next();
                let kind = match kind {
                    Kind::File { .. } => Kind::File { replicas: self.place(ino, uid, &down) },
                    other => other,
                };
                inodes.create(parent, name, Inode { mode, uid, gid, ..inode(ino, kind) }, crumb)
            }
            other => inodes.serve(other, crumb),
        };
        reply.map(|reply| (reply, Vec::new()))
    }
}

impl Mds {
    /// Where a new file's replicas go: round robin, around the nodes that are down if enough others are up.
    fn place(&self, ino: u64, uid: u32, down: &[String]) -> Vec<Replica> {
        let own = self.place.iter().find(|placing| placing.uid == uid);
        let (nodes, replicas) =
            own.map_or((&self.nodes, self.replicas), |placing| (&placing.nodes, placing.nodes.len()));
        let count = nodes.len();
        let mut order: Vec<&String> = (0..count).map(|at| &nodes[(ino as usize + at) % count]).collect();
        order.sort_by_key(|name| down.contains(name));
        order[..replicas].iter().map(|name| Replica { node: (*name).clone(), stale: false }).collect()
    }
}

impl Inodes {
    fn serve(&mut self, call: MdsCall, crumb: Crumb) -> Result<MdsReply, Errno> {
        match call {
            MdsCall::Start => self.start(crumb),
            MdsCall::Lookup { parent, name } => {
                let ino = self.names.get(parent, &name).ok_or(Errno::ENOENT)?;
                self.get(ino, crumb).map(MdsReply::Inode)
            }
            MdsCall::GetAttr { ino } => self.get(ino, crumb).map(MdsReply::Inode),
            MdsCall::SetAttr { ino, changes } => self.set(ino, &changes, crumb),
            // Its inode is made by Mds, which knows the nodes.
            MdsCall::CreateObject { .. } => Err(Errno::ENOSYS),
            MdsCall::Link { ino, parent, name } => self.link(ino, parent, name, crumb),
            MdsCall::Remove { parent, name, directory } => self.remove(parent, name, directory, crumb),
            MdsCall::Rename { parent, name, to, as_name, replace } => {
                self.rename((parent, name), (to, as_name), replace, crumb)
            }
            MdsCall::ReleaseObject { ino } => {
                match self.get(ino, crumb) {
                    Ok(inode) if inode.nlink > 0 => return Err(Errno::EBUSY),
                    Ok(_) => self.change(vec![Change::Gone(ino)], crumb)?,
                    Err(_) => {}
                }
                Ok(MdsReply::Done)
            }
            MdsCall::ReadDir { ino, after } => {
                self.get(ino, crumb)?;
                let mut entries = self.names.list(ino, after);
                for entry in &mut entries {
                    entry.kind = self.get(entry.ino, crumb)?.kind;
                }
                Ok(MdsReply::Entries(entries))
            }
            MdsCall::ApproveWrite { ino, .. } => {
                let inode = self.get(ino, crumb)?;
                if !self.unfinished.contains(&ino) {
                    self.change(vec![Change::Begun(ino)], crumb)?;
                }
                Ok(MdsReply::Inode(inode))
            }
            MdsCall::FinishWrite { ino, size, mtime, missed, anew } => {
                self.finish(ino, size, mtime, (&missed, &anew), crumb)
            }
            MdsCall::Commit { .. } => self.sync(crumb).map(|()| MdsReply::Done),
        }
    }

    /// A head that ended in the middle of writes left replicas that may differ: one of them is the file from
    /// now on. Which one is all the same, since nobody was told that the write is done.
    fn start(&mut self, crumb: Crumb) -> Result<MdsReply, Errno> {
        for ino in std::mem::take(&mut self.unfinished) {
            let Ok(mut inode) = self.get(ino, crumb) else { continue };
            if let Kind::File { replicas } = &mut inode.kind {
                replicas
                    .iter_mut()
                    .filter(|replica| !replica.stale)
                    .skip(1)
                    .for_each(|other| other.stale = true);
            }
            self.change(vec![Change::Finished(ino), Change::Inode(inode)], crumb)?;
        }
        let nameless: Vec<u64> = self.nameless.iter().copied().collect();
        let nameless: Result<_, _> = nameless.into_iter().map(|ino| self.get(ino, crumb)).collect();
        nameless.map(MdsReply::Nameless)
    }

    fn set(&mut self, ino: u64, changes: &Changes, crumb: Crumb) -> Result<MdsReply, Errno> {
        let mut inode = self.get(ino, crumb)?;
        let now = now();
        inode.mode = changes.mode.unwrap_or(inode.mode);
        inode.uid = changes.uid.unwrap_or(inode.uid);
        inode.gid = changes.gid.unwrap_or(inode.gid);
        inode.size = changes.size.unwrap_or(inode.size);
        inode.atime = changes.atime.unwrap_or(inode.atime);
        inode.mtime = changes.mtime.unwrap_or(if changes.size.is_some() { now } else { inode.mtime });
        inode.ctime = now;
        self.change(vec![Change::Inode(inode.clone())], crumb)?;
        Ok(MdsReply::Inode(inode))
    }

    fn finish(
        &mut self,
        ino: u64,
        size: u64,
        mtime: Option<i64>,
        (missed, anew): (&[String], &[String]),
        crumb: Crumb,
    ) -> Result<MdsReply, Errno> {
        let mut inode = self.get(ino, crumb)?;
        inode.size = inode.size.max(size);
        inode.mtime = mtime.unwrap_or(inode.mtime);
        if let Kind::File { replicas } = &mut inode.kind {
            for replica in replicas {
                replica.stale =
                    missed.contains(&replica.node) || (replica.stale && !anew.contains(&replica.node));
            }
        }
        self.change(vec![Change::Inode(inode.clone()), Change::Finished(ino)], crumb)?;
        Ok(MdsReply::Inode(inode))
    }

    /// A directory into which a name may be put.
    fn place_for(&mut self, parent: u64, name: &FileName, crumb: Crumb) -> Result<Inode, Errno> {
        let parent = self.get(parent, crumb)?;
        match parent.kind {
            _ if name.len() > LONGEST_NAME => Err(Errno::ENAMETOOLONG),
            Kind::Directory if parent.nlink == 0 => Err(Errno::ENOENT),
            Kind::Directory => Ok(parent),
            Kind::File { .. } | Kind::Symlink { .. } => Err(Errno::ENOTDIR),
        }
    }

    fn create(&mut self, parent: u64, name: FileName, inode: Inode, crumb: Crumb) -> Result<MdsReply, Errno> {
        let mut directory = self.place_for(parent, &name, crumb)?;
        if self.names.get(parent, &name).is_some() {
            return Err(Errno::EEXIST);
        }
        directory.nlink += u32::from(inode.kind == Kind::Directory);
        (directory.mtime, directory.ctime) = (inode.ctime, inode.ctime);
        let name = Change::Named { parent, name, ino: inode.ino };
        self.change(vec![Change::Inode(inode.clone()), name, Change::Inode(directory)], crumb)?;
        Ok(MdsReply::Inode(inode))
    }

    fn link(&mut self, ino: u64, parent: u64, name: FileName, crumb: Crumb) -> Result<MdsReply, Errno> {
        let (mut inode, mut directory) = (self.get(ino, crumb)?, self.place_for(parent, &name, crumb)?);
        match inode.kind {
            Kind::Directory => return Err(Errno::EPERM),
            _ if inode.nlink == 0 => return Err(Errno::ENOENT),
            _ if self.names.get(parent, &name).is_some() => return Err(Errno::EEXIST),
            _ => {}
        }
        let now = now();
        (inode.nlink, inode.ctime) = (inode.nlink + 1, now);
        (directory.mtime, directory.ctime) = (now, now);
        let name = Change::Named { parent, name, ino };
        self.change(vec![Change::Inode(inode.clone()), name, Change::Inode(directory)], crumb)?;
        Ok(MdsReply::Inode(inode))
    }

    /// What an inode is without one of its names, if it may lose it.
    fn without_name(&mut self, ino: u64, crumb: Crumb) -> Result<Inode, Errno> {
        let mut inode = self.get(ino, crumb)?;
        inode.nlink = match inode.kind {
            Kind::Directory if !self.names.list(ino, 0).is_empty() => return Err(Errno::ENOTEMPTY),
            Kind::Directory => 0,
            Kind::File { .. } | Kind::Symlink { .. } => inode.nlink - 1,
        };
        inode.ctime = now();
        Ok(inode)
    }

    fn remove(
        &mut self,
        parent: u64,
        name: FileName,
        directory: bool,
        crumb: Crumb,
    ) -> Result<MdsReply, Errno> {
        let ino = self.names.get(parent, &name).ok_or(Errno::ENOENT)?;
        match (self.get(ino, crumb)?.kind, directory) {
            (Kind::Directory, false) => return Err(Errno::EISDIR),
            (Kind::File { .. } | Kind::Symlink { .. }, true) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        let inode = self.without_name(ino, crumb)?;
        let mut above = self.get(parent, crumb)?;
        above.nlink -= u32::from(directory);
        (above.mtime, above.ctime) = (inode.ctime, inode.ctime);
        let changes =
            vec![Change::Unnamed { parent, name }, Change::Inode(inode.clone()), Change::Inode(above)];
        self.change(changes, crumb)?;
        Ok(MdsReply::Nameless((inode.nlink == 0).then_some(inode).into_iter().collect()))
    }

    fn rename(
        &mut self,
        (parent, name): (u64, FileName),
        (to, as_name): (u64, FileName),
        replace: bool,
        crumb: Crumb,
    ) -> Result<MdsReply, Errno> {
        let ino = self.names.get(parent, &name).ok_or(Errno::ENOENT)?;
        let mut inode = self.get(ino, crumb)?;
        self.place_for(to, &as_name, crumb)?;
        let replaced = self.names.get(to, &as_name);
        if replaced == Some(ino) {
            return Ok(MdsReply::Nameless(Vec::new()));
        }
        let directory = inode.kind == Kind::Directory;
        let replaced = match replaced {
            Some(_) if !replace => return Err(Errno::EEXIST),
            Some(other) => match (directory, self.get(other, crumb)?.kind == Kind::Directory) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                _ => Some(self.without_name(other, crumb)?),
            },
            None => None,
        };
        inode.ctime = now();
        let mut changes =
            vec![Change::Unnamed { parent, name }, Change::Named { parent: to, name: as_name, ino }];
        // Both directories may be one.
        for number in BTreeSet::from([parent, to]) {
            let mut above = self.get(number, crumb)?;
            above.nlink += u32::from(directory && number == to);
            above.nlink -= u32::from(directory && number == parent);
            above.nlink -= u32::from(directory && number == to && replaced.is_some());
            (above.mtime, above.ctime) = (inode.ctime, inode.ctime);
            changes.push(Change::Inode(above));
        }
        changes.extend(replaced.iter().cloned().chain([inode]).map(Change::Inode));
        self.change(changes, crumb)?;
        Ok(MdsReply::Nameless(replaced.into_iter().filter(|inode| inode.nlink == 0).collect()))
    }
}
