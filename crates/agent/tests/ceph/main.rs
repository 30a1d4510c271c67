//! The Ceph source against what real daemons printed, and against daemons that misbehave.

mod daemons;
mod requests;
mod rows;
mod sampled;
