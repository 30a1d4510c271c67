//! Mechanisms one by one, on a device whose requests take a fixed time and on a disk that takes one at a time.

use super::*;
use crate::file::DeviceFile;
use crate::fixed::{Fixed, Parameters};

const MS: Nanos = 1_000_000;

/// A device that reads one request after another, each in 5 ms.
fn fixed() -> Box<dyn Device> {
    Box::new(Fixed::new(Parameters {
        capacity_bytes: 16 << 30,
        servers: 1,
        read_ns: 5 * MS,
        write_ns: 0,
        flush_ns: 0,
        trim_ns: 0,
        rate_bytes_per_s: i64::MAX as u64,
    }))
}

/// A disk that takes one request at a time.
fn disk() -> Box<dyn Device> {
    let text = include_str!("../../devices/hdd-10k.toml")
        .replace("value = \"sptf\"", "value = \"fcfs\"")
        .replace("queue_depth = { value = 64", "queue_depth = { value = 1");
    DeviceFile::parse(&text).unwrap().build()
}

fn setting(concurrency: u32, scheduler: Scheduler) -> Setting {
    Setting {
        workload: Workload {
            concurrency,
            stream_bytes: 1 << 20,
            run_bytes: 256 << 10,
            whole_file: false,
            think_ns_per_mib: 0,
            span: 1.0,
        },
        read_bytes: PAGE,
        system: System {
            readahead_bytes: 128 << 10,
            scheduler,
            depth: 1,
            tags: 128,
            direct: false,
            request_bytes: request_bytes(),
        },
        warm_up_ns: 2000 * MS,
        length_ns: 10_000 * MS,
        seed: 1,
    }
}

#[test]
fn direct_reads_take_what_the_device_takes() {
    let mut one = setting(1, Scheduler::None);
    one.system.direct = true;
    let seen = one.run(fixed()).unwrap();
    assert_eq!((seen.requests, seen.throughput_bytes_per_s), (2000, 4096.0 * 200.0));
    assert_eq!((seen.service_ns, seen.idle_ns, seen.useful_share), (Some(5e6), Some(0.0), Some(1.0)));
    // 4 MiB a ms: 4 KiB are computed in 1 ms
    one.workload.think_ns_per_mib = 256 * MS;
    let seen = one.run(fixed()).unwrap();
    assert!((seen.requests.abs_diff(10_000 / 6)) <= 1, "{seen:?}");
    assert!((seen.idle_ns.unwrap() - 1e6).abs() < 1e4, "{seen:?}");
}

#[test]
fn larger_reads_are_larger_requests() {
    let mut one = setting(4, Scheduler::None);
    (one.system.direct, one.read_bytes) = (true, 64 << 10);
    assert_eq!(one.run(fixed()).unwrap().request_bytes, Some(65536.0));
    one.system.request_bytes = 16 << 10;
    assert_eq!(one.run(fixed()).unwrap().request_bytes, Some(16384.0));
}

#[test]
fn windows_that_wait_together_join() {
    let of = |scheduler| setting(64, scheduler).run(disk()).unwrap();
    let (none, deadline) = (of(Scheduler::None), of(Scheduler::MqDeadline));
    let joined = |one: &Outcome| one.request_bytes.unwrap() / one.asked_bytes.unwrap();
    // What is asked for at the end of the measurement is served after it.
    assert!((joined(&none) - 1.0).abs() < 0.05, "{none:?}");
    assert!(joined(&deadline) > 1.3, "{deadline:?}");
}

#[test]
fn a_scheduler_sorts_what_the_driver_does_not_have() {
    let of = |scheduler, depth| {
        let mut one = setting(64, scheduler);
        (one.system.depth, one.system.direct) = (depth, true);
        one.run(disk()).unwrap().seek_distance.unwrap()
    };
    // A third of the disk is the mean distance of places drawn at random.
    assert!((of(Scheduler::None, 1) - 1.0 / 3.0).abs() < 0.03);
    assert!(of(Scheduler::MqDeadline, 1) < 0.1);
    assert!(of(Scheduler::MqDeadline, 128) > 0.25);
}

#[test]
fn bfq_serves_one_process_after_another() {
    let mut one = setting(8, Scheduler::Bfq);
    one.workload.run_bytes = 1 << 20;
    (one.system.direct, one.workload.think_ns_per_mib) = (true, MS);
    let bfq = one.run(disk()).unwrap();
    one.system.scheduler = Scheduler::MqDeadline;
    let deadline = one.run(disk()).unwrap();
    assert!(bfq.throughput_bytes_per_s > 4.0 * deadline.throughput_bytes_per_s, "{bfq:?} {deadline:?}");
}

#[test]
fn what_can_not_be_is_refused() {
    type Change = fn(&mut Setting);
    let wrong: [(Change, &str); 6] = [
        (|one| one.workload.concurrency = 0, "concurrency"),
        (|one| one.read_bytes = 100, "read_bytes"),
        (|one| one.workload.run_bytes = 2 << 20, "run_bytes"),
        (|one| one.system.depth = 0, "depth"),
        (|one| one.length_ns = 0, "length_ns"),
        (|one| one.workload.stream_bytes = 8 << 30, "stream_bytes"),
    ];
    for (change, name) in wrong {
        let mut one = setting(1, Scheduler::None);
        change(&mut one);
        let error = one.run(fixed()).unwrap_err().to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
}
