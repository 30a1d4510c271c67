//! Faults for tests and demos: delays and extra calls, set at the start or while a daemon runs.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::{Failure, rpc};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// `slow=OP=MS`: each `OP` waits between its arrival and its work.
    Slow(String, u64),
    /// `slow-disk=MS`: each request to a storage node's disk takes so much longer.
    SlowDisk(u64),
    /// `extra-rpc=OP`: the head asks the metadata service once more than it needs to in each `OP`.
    ExtraRpc(String),
    /// `none`: no faults from now on.
    None,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("expected milliseconds, found {text}"));
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        match (name, value.split_once('=')) {
            ("slow", Some((op, delay))) => Ok(Self::Slow(op.to_owned(), number(delay)?)),
            ("slow-disk", None) => Ok(Self::SlowDisk(number(value)?)),
            ("extra-rpc", None) if !value.is_empty() => Ok(Self::ExtraRpc(value.to_owned())),
            ("none", None) if value.is_empty() => Ok(Self::None),
            _ => Err("expected slow=OP=MS, slow-disk=MS, extra-rpc=OP or none".to_owned()),
        }
    }
}

#[derive(Default)]
struct Set {
    slow: HashMap<String, Duration>,
    slow_disk: Duration,
    extra_rpc: HashSet<String>,
}

/// The faults of a daemon.
#[derive(Default)]
pub struct Faults(RwLock<Set>);

impl Faults {
    /// Those given at the start.
    pub fn new(given: &[Fault]) -> Self {
        let faults = Self::default();
        given.iter().for_each(|fault| faults.set(fault));
        faults
    }

    /// Adds one.
    pub fn set(&self, fault: &Fault) {
        let mut set = self.0.write();
        match fault {
            Fault::Slow(op, delay) => drop(set.slow.insert(op.clone(), Duration::from_millis(*delay))),
            Fault::SlowDisk(delay) => set.slow_disk = Duration::from_millis(*delay),
            Fault::ExtraRpc(op) => drop(set.extra_rpc.insert(op.clone())),
            Fault::None => *set = Set::default(),
        }
    }

    /// Waits if `op` is slow.
    pub fn delay(&self, op: &str) {
        let delay = self.0.read().slow.get(op).copied();
        delay.into_iter().for_each(std::thread::sleep);
    }

    /// Waits if the disk is slow.
    pub fn delay_disk(&self) {
        let delay = self.0.read().slow_disk;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }

    /// Whether `op` makes an extra call.
    pub fn extra_rpc(&self, op: &str) -> bool {
        self.0.read().extra_rpc.contains(op)
    }
}

/// Arguments of `fault`.
#[derive(clap::Args)]
pub struct Args {
    /// Where the daemon listens
    address: String,
    /// What to set
    #[arg(required = true)]
    faults: Vec<Fault>,
}

/// Sets faults in a running daemon.
pub fn run(args: &Args) -> Result<(), Failure> {
    for fault in &args.faults {
        rpc::set_fault(&args.address, fault)
            .map_err(|error| format!("cannot set {fault:?} in the daemon at {}: {error}", args.address))?;
    }
    Ok(())
}
