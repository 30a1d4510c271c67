//! Who waits for whom in a recorded program, and how long it would run elsewhere. Pure: no I/O, no clock.
//!
//! [`matching`] finds the edges between the calls of threads, [`woken`] those that only the kernel shows, [`timers`] which would have ended timeouts, [`lookups`] who made files that others looked for; a [`Script`] is what one thread does between and besides
//! them (Mesnier et al., "//TRACE: Parallel trace replay with approximate causal events", FAST 2007, section 4.2, where it
//! is a list of COMPUTE, SIGNAL, WAIT and I/O calls). [`check()`] finds cycles of waits in scripts, and [`evaluate()`] runs them in
//! virtual time. [`throttle`] finds dependencies that no call shows from further runs in which threads are paused.

pub mod calls;
mod check;
mod children;
pub mod compute;
pub mod critical;
mod epochs;
mod evaluate;
pub mod file_locks;
pub mod lock_order;
pub mod lookups;
pub mod matching;
mod order;
pub mod reduction;
mod script;
pub mod semaphores;
mod signals;
mod sockets;
pub mod throttle;
pub mod timers;
mod windows;
pub mod woken;

pub use check::{Problem, check};
pub use evaluate::{
    Activity, Blocked, Completion, Durations, Evaluated, Machines, On, Run, Segment, Standstill, Storage,
    Times, evaluate,
};
pub use order::{OpRef, Order};
pub use script::{Pauses, Reason, Recorded, Script, Scripts, Step, Style, Waited};
