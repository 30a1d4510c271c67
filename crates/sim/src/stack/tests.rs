//! What the simulated system does on the disk of section 5 of Shen, Zhong and Li (FAST 2005): without faults what its design
//! says, and each fault costs where its mechanism is.

use super::*;
use crate::disk::SeekCurve;

/// The disk of the paper's section 5, with the rates of a 36 GB disk of its kind.
fn medium() -> Medium {
    Medium {
        size_bytes: 36_000_000_000,
        seek: SeekCurve {
            a_ns: 1_054_600.0,
            b_ns: 6_955_500.0,
            c_ns: 2_753_900.0,
            d_ns: 6_886_700.0,
            e: 0.1171,
            allow_gap: true,
        },
        turn_ns: 6_000_000,
        rates: vec![36e6, 32e6, 28e6, 25e6, 21e6],
    }
}

fn setting(concurrency: u32, stream_kib: u64, run_kib: u64) -> Setting {
    Setting {
        workload: Workload {
            concurrency,
            stream_bytes: stream_kib << 10,
            run_bytes: run_kib << 10,
            whole_file: true,
            think_ns_per_mib: 1_000_000,
            span: 1.0,
        },
        system: System {
            prefetch_bytes: Some(128 << 10),
            scheduler: Scheduler::Elevator,
            faults: Faults::default(),
            congested_above: congested_above(),
            wait_ns: wait_ns(),
            piece_bytes: piece_bytes(),
        },
        seed: 1,
    }
}

fn run(setting: &Setting) -> Outcome {
    setting.run(&medium()).unwrap()
}

fn near(found: f64, expected: f64, relative: f64) {
    assert!((found / expected - 1.0).abs() <= relative, "expected {expected}, found {found}");
}

#[test]
fn the_elevator_chooses_among_all_handlers() {
    for concurrency in [4, 16, 64] {
        let mut setting = setting(concurrency, 64, 16);
        setting.system.prefetch_bytes = None;
        let outcome = run(&setting);
        near(outcome.request_bytes, 4096.0, 0.01);
        // Pages of a run lie at one place, so that a round over all handlers goes up and back once.
        let distance = outcome.seek_distance.unwrap() * f64::from(concurrency);
        assert!((0.8..=2.0).contains(&distance), "{distance}");
        near(outcome.rotation_ns.unwrap(), 3e6, 0.05);
        near(outcome.useful_share, 1.0, 0.02);
    }
}

#[test]
fn a_window_is_one_request() {
    let outcome = run(&setting(16, 1024, 1024));
    near(outcome.prefetch_request_bytes, 131_072.0, 0.001);
    near(outcome.request_bytes, 131_072.0, 0.02);
    near(outcome.requests_per_stream, 8.0, 0.02);
}

#[test]
fn read_ahead_beyond_a_stream_is_wasted_unless_its_file_ends() {
    let mut setting = setting(16, 256, 256);
    near(run(&setting).useful_share, 1.0, 0.02);
    setting.workload.whole_file = false;
    near(run(&setting).useful_share, 2.0 / 3.0, 0.02);
}

#[test]
fn one_handler_reads_a_run_without_a_seek() {
    let outcome = run(&setting(1, 2048, 1024));
    near(outcome.request_bytes, 1_048_576.0, 0.1);
}

#[test]
fn anticipation_reads_a_run_without_a_seek() {
    let mut setting = setting(16, 2048, 512);
    setting.system.scheduler = Scheduler::Anticipatory;
    near(run(&setting).request_bytes, 524_288.0, 0.1);
    setting.system.prefetch_bytes = None;
    near(run(&setting).request_bytes, 524_288.0, 0.1);
}

#[test]
fn each_fault_costs_where_its_mechanism_is() {
    let loss = |setting: &Setting, faults: Faults| {
        let mut faulty = setting.clone();
        faulty.system.faults = faults;
        1.0 - run(&faulty).throughput_bytes_per_s / run(setting).throughput_bytes_per_s
    };
    let cancel = Faults { cancel: true, ..Faults::default() };
    assert!(loss(&setting(128, 1024, 1024), cancel) > 0.3);
    // not congested, or a stream of one window
    near(1.0 - loss(&setting(64, 1024, 1024), cancel), 1.0, 0.02);
    near(1.0 - loss(&setting(128, 128, 128), cancel), 1.0, 0.02);

    let distance = Faults { distance: true, ..Faults::default() };
    let mut long = setting(32, 1024, 1024);
    near(1.0 - loss(&long, distance), 1.0, 0.02);
    long.system.scheduler = Scheduler::Anticipatory;
    assert!(loss(&long, distance) > 0.1);
}

#[test]
fn equal_settings_give_equal_outcomes() {
    let setting = setting(8, 256, 64);
    assert_eq!(run(&setting), run(&setting));
    let other = Setting { seed: 2, ..setting.clone() };
    assert_ne!(run(&setting), run(&other));
    near(run(&setting).throughput_bytes_per_s, run(&other).throughput_bytes_per_s, 0.03);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refused = |change: fn(&mut Setting)| {
        let mut setting = setting(8, 256, 64);
        change(&mut setting);
        setting.run(&medium()).unwrap_err().to_string()
    };
    assert!(refused(|setting| setting.workload.concurrency = 0).contains("concurrency"));
    assert!(refused(|setting| setting.workload.stream_bytes = 100).contains("stream_bytes"));
    assert!(refused(|setting| setting.workload.run_bytes = 512 << 10).contains("run_bytes"));
    assert!(refused(|setting| setting.workload.span = 0.0).contains("span"));
    assert!(refused(|setting| setting.workload.stream_bytes = 8 << 30).contains("stream_bytes"));
    assert!(refused(|setting| setting.system.piece_bytes = 0).contains("piece_bytes"));
}
