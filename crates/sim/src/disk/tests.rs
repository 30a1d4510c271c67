//! The disk as a whole; parts have their tests with them.

use proptest::prelude::*;

use super::*;
use crate::device::run;

/// 10,000 rpm, 200 cylinders of 4 tracks, 100 and 50 sectors each; skews equal to the switches.
fn parameters() -> Parameters {
    Parameters {
        capacity_bytes: (100 * 4 * 100 + 100 * 4 * 50) * 512,
        sector_bytes: 512,
        heads: 4,
        zones: vec![
            Zone { cylinders: 100, sectors_per_track: 100 },
            Zone { cylinders: 100, sectors_per_track: 50 },
        ],
        revolution_ns: 6_000_000,
        track_skew_ns: 600_000,
        cylinder_skew_ns: 1_200_000,
        head_switch_ns: 600_000,
        cylinder_switch_ns: 1_200_000,
        seek: Seek::Curve(SeekCurve {
            a_ns: 1e6,
            b_ns: 8e6,
            c_ns: 3e6,
            d_ns: 8e6,
            e: 0.25,
            allow_gap: false,
        }),
        write_settle_ns: 300_000,
        zero_latency: false,
        read_cache: None,
        write_cache: None,
        bus: Bus {
            rate_bytes_per_s: 100_000_000,
            read_overlap: true,
            read_ns: 100_000,
            write_ns: 150_000,
            read_hit_ns: 50_000,
            write_hit_ns: 70_000,
        },
        queue_depth: 1,
        scheduler: Scheduler::Fcfs,
        age_limit_ns: None,
        power: None,
    }
}

fn disk(change: impl FnOnce(&mut Parameters)) -> Disk {
    let mut parameters = parameters();
    change(&mut parameters);
    Disk::new(parameters).expect("valid parameters")
}

fn request(op: Op, sector: u64, sectors: u64) -> Request {
    Request { op, pos: sector * 512, length: sectors * 512 }
}

/// Completions by request.
fn completions(disk: &mut Disk, requests: &[(Nanos, Request)]) -> Vec<Completion> {
    let mut all = vec![None; requests.len()];
    run(disk, requests.iter().copied(), |at, completion| {
        assert!(all[at].replace(completion).is_none(), "request {at} completed twice");
    });
    all.into_iter().map(|completion| completion.expect("completed")).collect()
}

/// Pseudo-random numbers below a limit (Knuth's MMIX generator).
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

const MS: Nanos = 1_000_000;

#[test]
fn a_read_takes_its_command_seek_rotation_and_transfer() {
    // Cylinder 50, head 2, sector 10: its angle is 50 × (3 × 0.6 + 1.2) + 2 × 0.6 + 10/100 × 6 = 151.8 ms, or 1.8 of 6 ms.
    let sector = (50 * 4 + 2) * 100 + 10;
    let done = completions(&mut disk(|_| ()), &[(1000 * MS, request(Op::Read, sector, 20))]);
    // Command 0.1 ms; seek over 50 of 200 cylinders 1 + 8 × √0.25 = 5 ms. 1005.1 ms is 3.1 ms into a revolution: the sector
    // passes 4.7 ms later. 20 sectors in 1.2 ms, the last one over the bus in 5.12 µs.
    assert_eq!(done[0].done, 1000 * MS + 100_000 + 5 * MS + 4_700_000 + 1_200_000 + 5_120);
    assert_eq!((done[0].issued, done[0].cached), (1000 * MS, false));
}

#[test]
fn a_slow_bus_delays_a_read() {
    let sector = (50 * 4 + 2) * 100 + 10;
    let with = |read_overlap| {
        let mut disk = disk(|p| (p.bus.rate_bytes_per_s, p.bus.read_overlap) = (5_120_000, read_overlap));
        completions(&mut disk, &[(1000 * MS, request(Op::Read, sector, 20))])[0].done - 1009 * MS - 800_000
    };
    // 60 µs a sector of the medium, 100 µs of the bus.
    assert_eq!(with(true), 20 * 100_000);
    assert_eq!(with(false), 20 * 160_000);
}

#[test]
fn a_write_has_to_settle() {
    let sector = (50 * 4 + 2) * 100 + 10;
    let done = completions(&mut disk(|_| ()), &[(1000 * MS, request(Op::Write, sector, 20))]);
    // Command 0.15, seek 5, settle 0.3: 1005.45 ms, 3.45 ms into a revolution.
    assert_eq!(done[0].done, 1000 * MS + 5_450_000 + 4_350_000 + 1_200_000);
}

#[test]
fn random_reads_wait_half_a_revolution() {
    let (mut seed, mut at) = (1, 0);
    let requests: Vec<_> = (0..20_000)
        .map(|_| {
            at += 20 * MS + random(&mut seed, 6 * MS);
            (at, request(Op::Read, random(&mut seed, 40_000), 1))
        })
        .collect();
    let mut disk = disk(|parameters| {
        parameters.seek = Seek::Table(vec![SeekPoint { distance: 1.0, time_ns: 600_000 }]);
    });
    let all = completions(&mut disk, &requests);
    let total: Nanos = all.iter().map(|completion| completion.done - completion.issued).sum();
    let rest = 100_000 + 600_000 + 60_000 + 5_120;
    let latency = (total / 20_000 - rest) as f64 / 1e6;
    // Standard error of the mean of a uniform distribution: 6 / √12 / √20,000 = 0.012 ms. A few of the heads don't move.
    assert!((latency - 3.0).abs() < 0.04, "{latency} ms");
}

#[test]
fn a_long_read_goes_at_the_tracks_rate_minus_switches() {
    // All of the outer zone: 400 tracks, 300 head switches, 99 cylinder switches.
    let done = completions(&mut disk(|_| ()), &[(0, request(Op::Read, 0, 40_000))]);
    let transfer = 400 * 6 * MS + 300 * 600_000 + 99 * 1_200_000;
    // It starts after the command, when sector 0 comes round.
    assert_eq!(done[0].done, 6 * MS + transfer + 5_120);
}

fn cached(parameters: &mut Parameters) {
    parameters.read_cache = Some(ReadCache {
        segments: 2,
        segment_bytes: 80 * 512,
        read_ahead_bytes: 50 * 512,
        read_ahead_on_hit: false,
        track_buffer: false,
    });
}

#[test]
fn read_ahead_serves_what_follows() {
    let mut disk = disk(cached);
    let all = completions(
        &mut disk,
        &[
            (0, request(Op::Read, 0, 10)),
            // Sectors 10 to 59 are read ahead. These are there,
            (50 * MS, request(Op::Read, 10, 10)),
            (51 * MS, request(Op::Read, 55, 5)),
            // this is not.
            (52 * MS, request(Op::Read, 61, 1)),
            // and this is still there.
            (100 * MS, request(Op::Read, 0, 1)),
        ],
    );
    let is_cached: Vec<_> = all.iter().map(|completion| completion.cached).collect();
    assert_eq!(is_cached, [false, true, true, false, true]);
    let hit = 50_000 + 10 * 5_120;
    assert_eq!(all[1].done, 50 * MS + hit);
}

#[test]
fn a_read_in_the_read_ahead_waits_for_the_platter_only() {
    let mut disk = disk(cached);
    let all = completions(&mut disk, &[(0, request(Op::Read, 0, 10)), (7 * MS, request(Op::Read, 30, 10))]);
    // Sectors 30 to 39 have passed 2.4 ms into the second revolution.
    assert_eq!(all[1].done, 8_400_000 + 5_120);
    assert!(!all[1].cached);
}

#[test]
fn a_track_buffer_keeps_the_track() {
    let hits = |second: Nanos| {
        let reads = [
            (0, request(Op::Read, 50, 1)),
            (second, request(Op::Read, 10, 2)),
            (second + MS, request(Op::Read, 1, 1)),
            (second + 2 * MS, request(Op::Read, 99, 1)),
            (second + 3 * MS, request(Op::Read, 100, 1)),
        ];
        let all = completions(
            &mut disk(|parameters| {
                cached(parameters);
                let cache = parameters.read_cache.as_mut().expect("set");
                (cache.segment_bytes, cache.track_buffer) = (120 * 512, true);
            }),
            &reads,
        );
        all.iter().map(|completion| completion.cached).collect::<Vec<_>>()
    };
    // The head is ready at 0.1 ms, within sector 1: what passes from there is in memory at 6 ms, sector 1 at 6.1 ms.
    assert_eq!(hits(20 * MS), [false, true, true, true, false]);
    assert_eq!(hits(5 * MS), [false, true, false, true, false]);
}

#[test]
fn zero_latency_reads_start_where_the_head_arrives() {
    let mut disk = disk(|parameters| parameters.zero_latency = true);
    // Ready 0.1 ms after sector 0 has begun to pass: the whole track takes one revolution from there.
    let all = completions(&mut disk, &[(0, request(Op::Read, 0, 100)), (50 * MS, request(Op::Read, 90, 5))]);
    assert_eq!(all[0].done, 6_100_000 + 5_120);
    // 50.1 ms is 2.1 ms into a revolution, sector 90 passes at 5.4 ms.
    assert_eq!(all[1].done, 48 * MS + 5_700_000 + 5_120);
}

#[test]
fn the_shortest_access_first_is_faster_and_nothing_starves() {
    let (mut seed, mut requests) = (7, Vec::new());
    for at in 0..2000 {
        requests.push((at * 2 * MS, request(Op::Read, random(&mut seed, 60_000), 8)));
    }
    let with = |scheduler, age_limit_ns| {
        let mut disk = disk(|parameters| {
            (parameters.queue_depth, parameters.scheduler) = (32, scheduler);
            parameters.age_limit_ns = age_limit_ns;
        });
        let all = completions(&mut disk, &requests);
        let last = all.iter().map(|completion| completion.done).max().expect("some");
        let sorted = |all: &[Completion]| all.iter().map(|completion| completion.issued).is_sorted();
        (last, sorted(&all))
    };
    let (fcfs, fcfs_in_order) = with(Scheduler::Fcfs, None);
    let (look, _) = with(Scheduler::CLook, None);
    let (sptf, sptf_in_order) = with(Scheduler::Sptf, None);
    assert!(sptf < look && look < fcfs, "{sptf} {look} {fcfs}");
    assert!(fcfs_in_order && !sptf_in_order);
    // With no patience at all it is first come, first served.
    assert!(with(Scheduler::Sptf, Some(0)).1);
}

#[test]
fn no_request_waits_far_beyond_the_age_limit() {
    // One far request among many near ones, which would always be preferred.
    let far = request(Op::Read, 59_999, 1);
    let mut seed = 3;
    let mut requests = vec![(0, request(Op::Read, 0, 1)), (1, far)];
    for at in 1..2000 {
        requests.push((at * MS, request(Op::Read, random(&mut seed, 400), 1)));
    }
    let waited = |age_limit_ns| {
        let mut disk = disk(|parameters| {
            (parameters.queue_depth, parameters.scheduler) = (32, Scheduler::Sptf);
            parameters.age_limit_ns = age_limit_ns;
        });
        completions(&mut disk, &requests)[1].done
    };
    assert!(waited(None) > 1000 * MS);
    // It goes first once the one in service is done.
    assert!(waited(Some(100 * MS)) < 135 * MS);
}

fn buffered(parameters: &mut Parameters) {
    parameters.write_cache = Some(WriteCache { size_bytes: 64 * 512, destage_above: 0.5, idle_ns: 20 * MS });
}

#[test]
fn a_cached_write_takes_the_bus_and_a_flush_the_medium() {
    let mut disk = disk(buffered);
    let all = completions(
        &mut disk,
        &[
            (0, request(Op::Write, 1000, 8)),
            (MS, request(Op::Write, 1008, 8)),
            (2 * MS, request(Op::Flush, 0, 0)),
        ],
    );
    assert_eq!(all[0].done, 70_000 + 8 * 5_120);
    assert!(all[0].cached && all[1].cached);
    // Both writes as one: seek over 2 of 200 cylinders 1.8 ms, settle 0.3 ms: 4.1 ms. Cylinder 2, head 2 starts at 7.2, or
    // 1.2 ms into a revolution: it comes at 7.2. 16 sectors take 0.96 ms.
    assert_eq!(all[2].done, 7_200_000 + 960_000 + 70_000);
}

#[test]
fn a_full_write_cache_stalls_writes() {
    let mut disk = disk(buffered);
    let mut seed = 5;
    let requests: Vec<_> =
        (0..200).map(|at| (at * 100_000, request(Op::Write, random(&mut seed, 7000) * 8, 8))).collect();
    let all = completions(&mut disk, &requests);
    // Eight writes fit in; then each waits for a destage.
    assert!(all[..8].iter().all(|completion| completion.done - completion.issued < 200_000));
    let last = all[199].done;
    assert!(last > 200 * 2 * MS, "{last}");
}

#[test]
fn dirty_data_is_written_when_idle_and_is_read_from_memory() {
    let mut disk = disk(buffered);
    let requests = [
        (0, request(Op::Write, 1000, 8)),
        (5 * MS, request(Op::Read, 1002, 4)),
        // The destage at 25 ms is over by now.
        (60 * MS, request(Op::Read, 1002, 4)),
        (61 * MS, request(Op::Flush, 0, 0)),
    ];
    let all = completions(&mut disk, &requests);
    assert!(all[1].cached && !all[2].cached);
    assert_eq!(all[3].done - all[3].issued, 70_000);
}

#[test]
fn a_trim_makes_room_for_a_stalled_write() {
    let mut disk = disk(|parameters| {
        buffered(parameters);
        parameters.queue_depth = 4;
    });
    let requests = [
        (0, request(Op::Write, 0, 32)),
        (1, request(Op::Write, 1000, 32)),
        // The first one is being destaged until 2 ms at least.
        (2, request(Op::Write, 2000, 32)),
        (MS, request(Op::Trim, 1000, 32)),
    ];
    let all = completions(&mut disk, &requests);
    assert_eq!(all[2].done, MS + 70_000 + 70_000 + 32 * 5_120);
}

#[test]
fn energy_counts_what_the_disk_does() {
    let power = Power { idle_w: 5.0, seek_w: 9.0, transfer_w: 7.0 };
    let mut disk = disk(|parameters| parameters.power = Some(power));
    let sector = (50 * 4 + 2) * 100 + 10;
    completions(&mut disk, &[(1000 * MS, request(Op::Read, sector, 20))]);
    let expected = 5.0 * 2.0 + 4.0 * 0.005 + 2.0 * 0.0012;
    assert!((disk.energy(2000 * MS).expect("known") - expected).abs() < 1e-9);
    assert!(disk_without_power().energy(1).is_none());
}

fn disk_without_power() -> Disk {
    disk(|_| ())
}

#[test]
fn invalid_parameters_are_named() {
    let refused = |change: fn(&mut Parameters)| {
        let mut parameters = parameters();
        change(&mut parameters);
        Disk::new(parameters).map(|_| ()).map_err(|error| error.field)
    };
    type Change = fn(&mut Parameters);
    let cases: [(Change, &str); 12] = [
        (|p| p.heads = 0, "heads"),
        (|p| p.zones.clear(), "zones"),
        (|p| p.zones[1].sectors_per_track = 0, "zones[1].sectors_per_track"),
        (|p| p.capacity_bytes += 512, "capacity_bytes"),
        (|p| p.capacity_bytes -= 1, "capacity_bytes"),
        (|p| p.revolution_ns = 0, "revolution_ns"),
        (|p| p.track_skew_ns = 6_000_000, "track_skew_ns"),
        (|p| p.bus.rate_bytes_per_s = 0, "bus.rate_bytes_per_s"),
        (|p| p.queue_depth = 0, "queue_depth"),
        (|p| p.seek = Seek::Table(vec![]), "seek.table"),
        (|p| p.power = Some(Power { idle_w: f64::NAN, seek_w: 0.0, transfer_w: 0.0 }), "power.idle_w"),
        (
            |p| p.write_cache = Some(WriteCache { size_bytes: 1, destage_above: 0.5, idle_ns: 0 }),
            "write_cache.size_bytes",
        ),
    ];
    for (change, field) in cases {
        assert_eq!(refused(change), Err(field.to_owned()));
    }
}

#[test]
fn the_largest_and_slowest_disk_computes_without_overflow() {
    let mut disk = disk(|parameters| {
        parameters.heads = 64;
        parameters.zones = vec![Zone { cylinders: 4_000_000, sectors_per_track: 100_000 }];
        parameters.sector_bytes = 4096;
        parameters.capacity_bytes = 64 * 4_000_000 * 100_000 * 4096;
        parameters.revolution_ns = 1_000_000_000;
        (parameters.track_skew_ns, parameters.cylinder_skew_ns) = (999_999_999, 999_999_999);
        (parameters.head_switch_ns, parameters.cylinder_switch_ns) = (1_000_000_000, 1_000_000_000);
        parameters.bus.rate_bytes_per_s = 1000;
        cached(parameters);
    });
    // In 2025, as of the Unix epoch.
    let now = 1_750_000_000_000_000_000;
    let capacity = disk.capacity();
    let requests = [
        (now, Request { op: Op::Read, pos: 0, length: capacity }),
        (now, Request { op: Op::Write, pos: capacity - 4096, length: 4096 }),
    ];
    let all = completions(&mut disk, &requests);
    assert!(all[1].done > all[0].done && all[0].done > now);
}

prop_compose! {
    fn any_parameters()(
        (heads, revolution_ns, sector_bytes) in (1_u32..6, 1_000_u64..20_000_000, prop::sample::select(vec![512, 520, 4096])),
        zones in prop::collection::vec((1_u32..40, 1_u32..60), 1..4),
        (skews, switches) in ((0_u64..1000, 0_u64..1000), (0_u64..30_000_000, 0_u64..30_000_000)),
        seek in prop_oneof![
            Just(parameters().seek),
            (0_u64..10_000_000).prop_map(|time_ns| Seek::Table(vec![SeekPoint { distance: 0.5, time_ns }])),
        ],
        (write_settle_ns, zero_latency, missing) in (0_u64..1_000_000, any::<bool>(), 0_u64..50),
        read_cache in prop::option::of((1_u32..5, 1_u64..300, 0_u64..300, any::<bool>(), any::<bool>())),
        write_cache in prop::option::of((1_u64..200, 0.0..1.0_f64, 0_u64..50_000_000)),
        (bytes_per_s, overhead) in (1_000_000_u64..1_000_000_000, 0_u64..1_000_000),
        (queue_depth, scheduler, age_limit_ns) in (
            1_u32..40,
            prop::sample::select(vec![Scheduler::Fcfs, Scheduler::CLook, Scheduler::Sptf]),
            prop::option::of(0_u64..100_000_000),
        ),
    ) -> Parameters {
        let zones: Vec<_> =
            zones.into_iter().map(|(cylinders, sectors_per_track)| Zone { cylinders, sectors_per_track }).collect();
        let all: u64 = zones.iter().map(|zone| u64::from(zone.cylinders * zone.sectors_per_track * heads)).sum();
        let bytes = u64::from(sector_bytes);
        Parameters {
            capacity_bytes: all.saturating_sub(missing).max(1) * bytes,
            sector_bytes, heads, zones, revolution_ns,
            track_skew_ns: skews.0 * revolution_ns / 1000,
            cylinder_skew_ns: skews.1 * revolution_ns / 1000,
            head_switch_ns: switches.0,
            cylinder_switch_ns: switches.1,
            seek, write_settle_ns, zero_latency,
            read_cache: read_cache.map(|(segments, size, ahead, read_ahead_on_hit, track_buffer)| ReadCache {
                segments,
                segment_bytes: size * bytes,
                read_ahead_bytes: ahead.min(size) * bytes,
                read_ahead_on_hit,
                track_buffer,
            }),
            write_cache: write_cache.map(|(sectors, destage_above, idle_ns)| WriteCache {
                size_bytes: sectors * bytes, destage_above, idle_ns,
            }),
            bus: Bus {
                rate_bytes_per_s: bytes_per_s,
                read_overlap: missing % 2 == 0,
                read_ns: overhead,
                write_ns: overhead / 2,
                read_hit_ns: overhead / 3,
                write_hit_ns: overhead / 4,
            },
            queue_depth, scheduler, age_limit_ns,
            power: Some(Power { idle_w: 5.0, seek_w: 9.0, transfer_w: 7.0 }),
        }
    }
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Read),
        8 => Just(Op::Write),
        1 => Just(Op::Flush),
        1 => Just(Op::Trim),
    ]
}

proptest! {
    /// Each request completes once, not before its command and transfer; times don't decrease; equal runs are equal.
    #[test]
    fn requests_are_conserved(
        parameters in any_parameters(),
        steps in prop::collection::vec((0_u64..20_000_000, any_op(), any::<u64>(), 0_u64..150_000), 1..80),
    ) {
        let mut arrival = 0;
        let requests: Vec<_> = steps.into_iter().map(|(wait, op, pos, length)| {
            // Bursts now and then.
            arrival += if wait % 3 == 0 { 0 } else { wait };
            let pos = pos % parameters.capacity_bytes;
            let length = length.min(parameters.capacity_bytes - pos);
            (arrival, if op == Op::Flush { Request { op, pos: 0, length: 0 } } else { Request { op, pos, length } })
        }).collect();
        let mut disk = Disk::new(parameters.clone()).expect("valid");
        let mut all = vec![None; requests.len()];
        let mut energy = 0.0;
        let end = {
            let mut report = |at: usize, completion: Completion| {
                assert!(all[at].replace(completion).is_none(), "completed twice");
            };
            run(&mut disk, requests.iter().copied(), &mut report)
        };
        for ((arrival, request), completion) in requests.iter().zip(&all) {
            let completion = completion.expect("completed");
            let bus = &parameters.bus;
            let (overhead, bytes) = match request.op {
                Op::Read => (bus.read_hit_ns.min(bus.read_ns), request.length),
                Op::Write => (bus.write_hit_ns.min(bus.write_ns), request.length),
                Op::Flush | Op::Trim => (bus.write_hit_ns, 0),
            };
            let transfer = bytes * 1_000_000_000 / bus.rate_bytes_per_s;
            prop_assert!(completion.issued >= *arrival);
            prop_assert!(completion.done >= arrival + overhead + transfer);
            if completion.cached {
                prop_assert!(completion.done >= completion.issued + overhead + transfer);
            }
        }
        for step in 0..20 {
            let now = disk.energy(end * step / 10).expect("known");
            prop_assert!(now >= energy);
            energy = now;
        }
        let mut again = Disk::new(parameters).expect("valid");
        prop_assert_eq!(
            completions(&mut again, &requests),
            all.into_iter().map(|completion| completion.expect("completed")).collect::<Vec<_>>()
        );
    }
}
