//! `store`: a small distributed store whose parts post what they do through iotrail's SDK.
//!
//! One binary, three daemons, in the shape of Figure 4 of Stardust (SIGMETRICS 2006): `head` stands where its
//! NFS server stands, `mds` is the metadata service, `node` a storage-node. README.md draws how a write goes
//! through them and which record each point posts.

mod block;
mod calls;
mod faults;
mod head;
mod journal;
mod mds;
mod node;
mod rpc;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nix::sys::signal::{SigSet, Signal};

/// A small distributed store, instrumented with iotrail's SDK.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Mount the store and serve its users
    Head(head::Args),
    /// Keep names, attributes, and where each file's replicas are
    Mds(mds::Args),
    /// Keep blocks
    Node(node::Args),
    /// Set a fault in a running daemon, such as slow=READ=5, slow-disk=10, extra-rpc=write
    Fault(faults::Args),
}

/// What a daemon says when it can't go on: what, where, why, what to do.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A size as people write it: bytes, or with K, M, G.
fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.to_ascii_uppercase().chars().last() {
        Some('K') => (&text[..text.len() - 1], 10),
        Some('M') => (&text[..text.len() - 1], 20),
        Some('G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| "expected bytes, or a number with K, M or G")?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// Signals that end a daemon cleanly; blocked in all threads, taken by [`wait_for_end`].
fn end_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT])
}

/// Until somebody ends the daemon.
fn wait_for_end() -> Result<(), Failure> {
    end_signals().wait().map_err(|error| format!("cannot wait for signals: {error}"))?;
    Ok(())
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // Before any thread is started: all inherit it.
    let ended = end_signals().thread_block().map_err(Failure::from).and_then(|()| match command {
        Command::Head(args) => head::run(args),
        Command::Mds(args) => mds::run(args),
        Command::Node(args) => node::run(args),
        Command::Fault(args) => faults::run(&args),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("store: error: {failure}");
            ExitCode::FAILURE
        }
    }
}
