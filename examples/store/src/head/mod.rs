//! The head: what users' programs see, a mounted file system.
//!
//! Requests come from the kernel's FUSE, each with the user it is for, and are served by a pool of threads.
//! Names and attributes come from the metadata service; data goes through a write-back cache to the storage
//! nodes that the metadata service names.

mod attributes;
mod cache;
mod data;
mod files;
mod fuse;
mod requests;
mod workers;
mod write_back;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use fuser::{Config, MountOption, SessionACL};
use iotrail_sdk::request::{Crumb, Name, Service};

use crate::calls::{Changes, Inode, Kind, MdsCall, MdsReply, NodeCall};
use crate::faults::{Fault, Faults};
use crate::rpc::{self, Errno, NoCalls, Peer, Replied, Serve, call_all};
use crate::{Failure, size, wait_for_end};
use cache::Cache;
use files::Files;
use workers::Workers;

static HEAD: Name = Name::new("head");
static START: Name = Name::new("start");

/// Arguments of `head`.
#[derive(clap::Args)]
pub struct Args {
    /// Where to mount the store
    mount: PathBuf,
    /// Where the metadata service listens
    #[arg(long, value_name = "ADDRESS:PORT")]
    mds: String,
    /// The storage nodes, and where they listen
    #[arg(long, value_name = "NAME=ADDRESS:PORT", required = true, value_parser = node)]
    node: Vec<(String, String)>,
    /// Where to listen for faults (see `store fault`) [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Size of the buffer cache; half of it may be dirty
    #[arg(long, default_value = "64M", value_parser = size)]
    cache: u64,
    /// Threads that serve requests
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
    /// Time between two flushes of what is dirty, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    flush_every: u64,
    /// A fault: slow=OP=MS, extra-rpc=OP
    #[arg(long)]
    fault: Vec<Fault>,
}

fn node(text: &str) -> Result<(String, String), String> {
    let (name, address) = text.split_once('=').ok_or("expected NAME=ADDRESS:PORT")?;
    Ok((name.to_owned(), address.to_owned()))
}

/// What the threads of the head share.
struct Head {
    mds: Peer<MdsCall>,
    nodes: BTreeMap<String, Peer<NodeCall>>,
    files: Files,
    cache: Cache,
    faults: Faults,
}

/// Runs the daemon until it is ended: then it unmounts the store and writes back what is dirty.
pub fn run(args: Args) -> Result<(), Failure> {
    rpc::introduce("head");
    let peer = |(name, address): &(String, String)| (name.clone(), Peer::new(&HEAD, name, address));
    let head = Arc::new(Head {
        mds: Peer::new(&HEAD, "mds", &args.mds),
        nodes: args.node.iter().map(peer).collect(),
        files: Files::default(),
        cache: Cache::new(args.cache),
        faults: Faults::new(&args.fault),
    });
    head.start().map_err(|errno| format!("the metadata service at {}: {errno}", args.mds))?;
    if let Some(address) = &args.listen {
        rpc::listen(address, Arc::new(Control(Arc::clone(&head))))?;
    }
    let workers = Arc::new(Workers::new(usize::from(args.workers))?);
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("store".to_owned()), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    let fs = requests::Fuse::new(Arc::clone(&head), Arc::clone(&workers));
    let session = fuser::spawn_mount(fs, &args.mount, &config)
        .map_err(|error| format!("cannot mount on {}: {error}", args.mount.display()))?;
    let ending = Arc::new(AtomicBool::new(false));
    let flusher = {
        let (head, ending, every) = (Arc::clone(&head), Arc::clone(&ending), args.flush_every);
        std::thread::Builder::new().name("flusher".to_owned()).spawn(move || {
            let mut before = Ok(());
            while !ending.load(Relaxed) {
                std::thread::park_timeout(Duration::from_millis(every));
                let flushed = head.flush_all();
                if let Err(errno) = flushed
                    && flushed != before
                {
                    eprintln!("store: cannot write back: {errno}; it stays dirty and is tried again");
                }
                before = flushed;
            }
        })?
    };
    wait_for_end()?;
    if let Err(error) = session.umount_and_join() {
        eprintln!("store: {} is in use ({error}): it goes when its users do", args.mount.display());
        nix::mount::umount2(&args.mount, nix::mount::MntFlags::MNT_DETACH)?;
    }
    workers.end();
    // Its last round is after the last request.
    ending.store(true, Relaxed);
    flusher.thread().unpark();
    flusher.join().map_err(|_| "the flusher ended early")?;
    head.flush_all().map_err(|errno| format!("what was dirty at the end is lost: {errno}").into())
}

impl Head {
    /// Tells the metadata service that this head begins, and ends the inodes that lost their last name while
    /// the one before had them open.
    fn start(&self) -> Result<(), Errno> {
        let crumb = Crumb::fresh();
        let _here = crumb.enter();
        let _service = Service::internal(&HEAD, &START, crumb);
        for inode in self.nameless(MdsCall::Start, crumb)? {
            self.release_object(&inode, crumb)?;
        }
        Ok(())
    }

    /// A call of the metadata service.
    fn ask(&self, call: MdsCall, crumb: Crumb) -> Result<MdsReply, Errno> {
        let (reply, _) = self.mds.call(call, &[], crumb)?;
        Ok(reply)
    }

    /// A call that returns an inode.
    fn inode(&self, call: MdsCall, crumb: Crumb) -> Result<Inode, Errno> {
        match self.ask(call, crumb)? {
            MdsReply::Inode(inode) => Ok(inode),
            _ => Err(Errno::EPROTO),
        }
    }

    /// A call that may leave inodes without a name.
    fn nameless(&self, call: MdsCall, crumb: Crumb) -> Result<Vec<Inode>, Errno> {
        match self.ask(call, crumb)? {
            MdsReply::Nameless(inodes) => Ok(inodes),
            _ => Err(Errno::EPROTO),
        }
    }

    /// The nodes of these names.
    fn peers<'a>(&'a self, names: &[&str]) -> Result<Vec<&'a Peer<NodeCall>>, Errno> {
        names.iter().map(|name| self.nodes.get(*name).ok_or(Errno::ENXIO)).collect()
    }

    /// Calls nodes at once. Returns the names of those that failed, if one didn't; else why the first did.
    fn call_nodes(
        &self,
        names: &[&str],
        call: &NodeCall,
        data: &[u8],
        crumb: Crumb,
    ) -> Result<Vec<String>, Errno> {
        let replies = call_all(self.peers(names)?, call, data, crumb);
        if replies.iter().all(Result::is_err) {
            return Err(replies.into_iter().find_map(Result::err).unwrap_or(Errno::EIO));
        }
        let failed = names.iter().zip(&replies).filter(|(_, reply)| reply.is_err());
        Ok(failed.map(|(name, _)| (*name).to_owned()).collect())
    }

    /// An inode without a name that nobody has open ends, and its data.
    fn release_object(&self, inode: &Inode, crumb: Crumb) -> Result<(), Errno> {
        self.cache.forget(inode.ino, 0);
        self.ask(MdsCall::ReleaseObject { ino: inode.ino }, crumb)?;
        let names: Vec<&str> = inode.replicas().iter().map(|replica| replica.node.as_str()).collect();
        if !names.is_empty() {
            // A node that doesn't hear of it keeps the blocks; no inode has this number again.
            let _ = self.call_nodes(&names, &NodeCall::Delete { object: inode.ino }, &[], crumb);
        }
        Ok(())
    }

    /// A new file, whose replicas know of it.
    fn create(
        &self,
        parent: u64,
        name: Vec<u8>,
        (mode, uid, gid): (u16, u32, u32),
        crumb: Crumb,
    ) -> Result<Inode, Errno> {
        let down = self.nodes.values().filter(|node| node.is_down()).map(|node| node.name.clone()).collect();
        let kind = Kind::File { replicas: Vec::new() };
        let call = MdsCall::CreateObject { parent, name: name.clone(), kind, mode, uid, gid, down };
        let inode = self.inode(call, crumb)?;
        let names: Vec<&str> = inode.replicas().iter().map(|replica| replica.node.as_str()).collect();
        match self.call_nodes(&names, &NodeCall::Create { object: inode.ino }, &[], crumb) {
            Ok(missed) if missed.is_empty() => Ok(inode),
            Ok(missed) => {
                let (ino, mtime, anew) = (inode.ino, None, Vec::new());
                self.inode(MdsCall::FinishWrite { ino, size: 0, mtime, missed, anew }, crumb)
            }
            Err(errno) => {
                for inode in self.nameless(MdsCall::Remove { parent, name, directory: false }, crumb)? {
                    self.release_object(&inode, crumb)?;
                }
                Err(errno)
            }
        }
    }

    /// Changes attributes.
    fn set(&self, ino: u64, changes: Changes, crumb: Crumb) -> Result<Inode, Errno> {
        if changes.size.is_some() {
            return self.with(ino, crumb, |file| self.truncate(file, changes, crumb));
        }
        let explicit = changes.mtime.is_some();
        let inode = self.inode(MdsCall::SetAttr { ino, changes }, crumb)?;
        if let Some(file) = self.files.known(ino)
            && explicit
        {
            file.meta.lock().mtime = Some(inode.mtime);
        }
        Ok(self.as_known(inode, None))
    }
}

/// Takes faults for the head.
struct Control(Arc<Head>);

impl Serve for Control {
    type Call = NoCalls;
    const COMPONENT: &'static Name = &HEAD;

    fn faults(&self) -> &Faults {
        &self.0.faults
    }

    fn serve(&self, call: NoCalls, _: Vec<u8>, _: Crumb) -> Replied<NoCalls> {
        match call {}
    }
}
