//! A real collector in a process of its own, and real clients.

mod durable;
mod live;
mod otlp;
mod refuse;
mod support;

/// Not a test: what a collector's process runs, which is started from this binary.
#[test]
fn as_collector() {
    support::be_collector();
}
