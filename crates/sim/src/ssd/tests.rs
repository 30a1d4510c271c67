//! The flash drive: conservation, the mapping beside a naive one, write amplification beside Desnoyers (SYSTOR 2012), and
//! preconditioning beside long writing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::ftl::Stream;
use super::*;
use crate::{Op, device};

/// A drive of 8 planes with 16 blocks of 8 pages each.
fn small() -> Parameters {
    Parameters {
        channels: 2,
        chips_per_channel: 1,
        dies_per_chip: 2,
        planes_per_die: 2,
        blocks_per_plane: 16,
        pages_per_block: 8,
        page_bytes: 4096,
        over_provisioning: 0.4,
        gc_threshold_blocks: 2,
        gc_hard_threshold_blocks: 1,
        write_buffer_bytes: 64 << 10,
        victim: Victim::Greedy,
        ..Parameters::default()
    }
}

fn ssd(parameters: &Parameters) -> Ssd {
    Ssd::new(parameters.clone()).expect("valid parameters")
}

fn request(op: Op, pos: u64, length: u64) -> Request {
    Request { op, pos, length }
}

/// Runs requests, each with its arrival, and returns the completion of each. Checks that there is one for each, in time.
fn complete(ssd: &mut Ssd, requests: &[(Nanos, Request)]) -> Vec<Completion> {
    let mut completions = vec![None; requests.len()];
    let mut last = 0;
    device::run(ssd, requests.iter().copied(), |index, completion| {
        let arrival = requests[index].0;
        assert!(arrival <= completion.issued && completion.issued <= completion.done);
        assert!(last <= completion.done, "completions are in order");
        last = completion.done;
        assert_eq!(completions[index].replace(completion), None, "one completion for each request");
    });
    assert_eq!(ssd.next_event(), None);
    ssd.ftl.check();
    completions.into_iter().map(|completion| completion.expect("a completion")).collect()
}

/// How long one request takes on a drive.
fn time(ssd: &mut Ssd, op: Op, pos: u64, length: u64) -> Nanos {
    complete(ssd, &[(0, request(op, pos, length))])[0].done
}

/// Pages that hold data.
fn mapped(ssd: &Ssd) -> BTreeSet<u64> {
    (0..ssd.ftl.geometry.pages)
        .filter(|&page| ssd.ftl.find_page(ssd.ftl.geometry.slot(page)).is_some())
        .collect()
}

/// Writes whole pages at random from a time on, `depth` of them at a time. Returns when it ended, and the mean response
/// time in ns.
fn overwrite(ssd: &mut Ssd, from: Nanos, count: u64, depth: u64) -> (Nanos, f64) {
    let (mut random, mut completions, mut now) = (Random::new(from), Vec::new(), from);
    let (pages, page_bytes) = (ssd.ftl.geometry.pages as u32, u64::from(ssd.parameters.page_bytes));
    let mut submitted = Vec::new();
    let mut total = 0;
    let mut submit = |ssd: &mut Ssd, submitted: &mut Vec<Nanos>, now| {
        if (submitted.len() as u64) < count {
            let pos = u64::from(random.below(pages)) * page_bytes;
            ssd.submit(now, Id(submitted.len() as u64), request(Op::Write, pos, page_bytes));
            submitted.push(now);
        }
    };
    (0..depth).for_each(|_| submit(ssd, &mut submitted, now));
    while let Some(next) = ssd.next_event() {
        now = next;
        ssd.advance(now, &mut completions);
        for completion in completions.drain(..) {
            total += completion.done - submitted[completion.id.0 as usize];
            submit(ssd, &mut submitted, now);
        }
    }
    (now, total as f64 / count as f64)
}

#[test]
fn a_read_takes_the_sum_of_its_steps() {
    let parameters = small();
    // Fetch, command, read of the page, 4096 bytes over the channel and over the link, completion.
    let expected = 39 + 290 + 75_000 + 12_288 + 1248 + 11;
    assert_eq!(time(&mut ssd(&parameters), Op::Read, 0, 4096), expected);
    // Eight pages lie in eight planes. Two planes of a die read together; two dies share a channel.
    let together = time(&mut ssd(&parameters), Op::Read, 0, 8 * 4096);
    assert!(together < expected + 4 * 12_288 + 8 * 1248, "{together}");
    let parameters = Parameters { die_interleaving: false, multi_plane: false, ..parameters };
    let chip_by_chip = time(&mut ssd(&parameters), Op::Read, 0, 8 * 4096);
    assert!(chip_by_chip > 4 * 75_000, "{chip_by_chip}");
}

#[test]
fn a_write_takes_the_sum_of_its_steps() {
    let buffered = time(&mut ssd(&small()), Op::Write, 0, 4096);
    assert_eq!(buffered, 39 + 1248 + 26 + 1280 + 11);
    let parameters = Parameters { write_buffer_bytes: 0, ..small() };
    let through = time(&mut ssd(&parameters), Op::Write, 0, 4096);
    assert_eq!(through, 39 + 1248 + 361 + 12_288 + 750_000 + 11);
}

#[test]
fn pages_have_the_times_of_their_type() {
    let parameters = Parameters {
        read_ns: vec![10_000, 20_000, 40_000],
        planes_per_die: 1,
        dies_per_chip: 1,
        channels: 1,
        zero_unwritten: true,
        ..small()
    };
    let mut ssd = ssd(&parameters);
    let writes: Vec<_> = (0..4).map(|page| (0, request(Op::Write, page * 4096, 4096))).collect();
    complete(&mut ssd, &writes);
    let start = 10_000_000;
    let reads: Vec<_> =
        (0..4).map(|page| (start + page * 1_000_000, request(Op::Read, page * 4096, 4096))).collect();
    let times: Vec<_> = complete(&mut ssd, &reads)
        .iter()
        .zip(&reads)
        .map(|(completion, read)| completion.done - read.0)
        .collect();
    let fixed = times[0] - 10_000;
    assert_eq!(times, [10_000, 20_000, 40_000, 10_000].map(|time| fixed + time));
}

#[test]
fn a_partial_write_reads_what_it_keeps() {
    let parameters = Parameters { write_buffer_bytes: 0, ..small() };
    let mut ssd = ssd(&parameters);
    let writes = [(0, 0, 1024), (1_000_000, 0, 1024), (2_000_000, 512, 1024), (3_000_000, 0, 4096)];
    let requests: Vec<_> =
        writes.iter().map(|&(at, pos, length)| (at, request(Op::Write, pos, length))).collect();
    let completions = complete(&mut ssd, &requests);
    // Only the third leaves a sector of the page that has data.
    assert_eq!(ssd.counters().pages_filled, 1);
    let times: Vec<_> =
        completions.iter().zip(&requests).map(|(completion, request)| completion.done - request.0).collect();
    assert!(times[2] > times[1] + 75_000, "{times:?}");
    assert_eq!(ssd.ftl.known_sectors(ssd.ftl.geometry.slot(0)), 0xff);
}

#[test]
fn reads_are_served_by_the_write_buffer() {
    let mut ssd = ssd(&small());
    let completions =
        complete(&mut ssd, &[(0, request(Op::Write, 0, 8192)), (10_000, request(Op::Read, 4096, 4096))]);
    assert!(completions[1].cached && completions[1].done < 20_000);
    let completions = complete(&mut ssd, &[(10_000_000, request(Op::Read, 4096, 4096))]);
    assert!(!completions[0].cached);
}

#[test]
fn overwrites_in_the_write_buffer_are_merged() {
    let mut ssd = ssd(&small());
    // The plane is busy with the first page, so that the writes of another one wait behind it.
    let other = 8 * 4096;
    let mut requests = vec![(0, request(Op::Write, 0, 4096))];
    requests.extend((0..10).map(|at| (20_000 + at, request(Op::Write, other, 4096))));
    complete(&mut ssd, &requests);
    assert_eq!(ssd.counters().pages_programmed, 2);
}

#[test]
fn a_flush_drains_the_write_buffer_unless_it_is_protected() {
    let requests = [
        (0, request(Op::Flush, 0, 0)),
        (1_000, request(Op::Write, 0, 32 << 10)),
        (100_000, request(Op::Flush, 0, 0)),
        (100_001, request(Op::Write, 0, 4096)),
    ];
    let completions = complete(&mut ssd(&small()), &requests);
    assert!(completions[0].done < 1_000, "nothing to drain");
    assert!(completions[1].done < 100_000);
    assert!(completions[2].done > 750_000, "{completions:?}");
    assert!(completions[3].done < completions[2].done, "it does not hold up others");
    let protected = Parameters { write_buffer_protected: true, ..small() };
    assert!(complete(&mut ssd(&protected), &requests)[2].done < 101_000);
}

#[test]
fn a_full_write_buffer_makes_writes_wait() {
    let parameters = Parameters { write_buffer_bytes: 8192, ..small() };
    let requests: Vec<_> = (0..8).map(|page| (0, request(Op::Write, page * 8 * 4096, 4096))).collect();
    let completions = complete(&mut ssd(&parameters), &requests);
    assert!(completions[1].done < 50_000);
    assert!(completions[2].done > 750_000);
}

#[test]
fn trimmed_pages_are_not_moved() {
    let parameters = small();
    let moved = |trims: bool| {
        let mut ssd = ssd(&parameters);
        ssd.precondition(1.0, Fill::Random).expect("a new drive");
        if trims {
            complete(&mut ssd, &[(0, request(Op::Trim, 0, u64::MAX))]);
            assert_eq!(mapped(&ssd).len(), 0);
        }
        let mut at = 1_000_000;
        for page in 0..ssd.ftl.geometry.pages {
            complete(&mut ssd, &[(at, request(Op::Write, page * 4096, 4096))]);
            at += 10_000_000;
        }
        ssd.counters().pages_moved
    };
    assert_eq!(moved(true), 0);
    assert!(moved(false) > 0);
}

#[test]
fn a_page_trimmed_in_part_keeps_its_data() {
    let mut ssd = ssd(&small());
    complete(&mut ssd, &[(0, request(Op::Write, 0, 4 * 4096))]);
    complete(&mut ssd, &[(10_000_000, request(Op::Trim, 100, 2 * 4096))]);
    assert_eq!(mapped(&ssd), BTreeSet::from([0, 2, 3]));
}

#[test]
fn writes_stall_while_a_plane_is_full() {
    for gc_priority in [Priority::Background, Priority::Exclusive] {
        let parameters = Parameters { gc_priority, ..small() };
        let mut ssd = ssd(&parameters);
        ssd.precondition(1.0, Fill::Sequential).expect("a new drive");
        overwrite(&mut ssd, 0, 2000, 64);
        ssd.ftl.check();
        assert!(ssd.counters().stalls > 0);
        assert_eq!(mapped(&ssd).len() as u64, ssd.ftl.geometry.pages);
        assert!(ssd.counters().erases > 100);
    }
}

#[test]
fn requests_without_bytes_and_beyond_the_end_complete() {
    let mut ssd = ssd(&small());
    let capacity = ssd.capacity();
    let mut requests = Vec::new();
    for op in [Op::Read, Op::Write, Op::Flush, Op::Trim] {
        for (pos, length) in
            [(0, 0), (capacity, 0), (capacity - 1, 1), (capacity, 4096), (u64::MAX, u64::MAX)]
        {
            requests.push((0, request(op, pos, length)));
        }
    }
    complete(&mut ssd, &requests);
    assert_eq!(mapped(&ssd), BTreeSet::from([ssd.ftl.geometry.pages - 1]));
}

#[test]
fn the_queue_depth_limits_what_is_in_the_drive() {
    let parameters = Parameters { queue_depth: 2, ..small() };
    let requests: Vec<_> = (0..4).map(|page| (0, request(Op::Read, page * 4096, 4096))).collect();
    let completions = complete(&mut ssd(&parameters), &requests);
    assert_eq!(completions[1].issued, 0);
    assert_eq!(completions[2].issued, completions[0].done);
}

#[test]
fn reads_suspend_programs_and_erases() {
    let requests = [(0, request(Op::Write, 0, 4096)), (100_000, request(Op::Read, 8 * 4096, 4096))];
    let waiting = complete(&mut ssd(&small()), &requests);
    let parameters = Parameters { suspend_program_ns: Some(10_000), write_buffer_bytes: 0, ..small() };
    let suspending = complete(&mut ssd(&parameters), &requests);
    assert!(waiting[1].done > 750_000);
    assert!(suspending[1].done < 200_000);
    let read = 10_000 + 290 + 75_000 + 12_288;
    let alone = time(&mut ssd(&parameters), Op::Write, 0, 4096);
    assert_eq!(suspending[0].done, alone + read, "the program goes on where it was");
}

#[test]
fn mapping_entries_that_are_not_in_memory_are_read() {
    let parameters = Parameters { mapping_cache_entries: Some(16), zero_unwritten: false, ..small() };
    let mut ssd = ssd(&parameters);
    let read = |at, page: u64| (at, request(Op::Read, page * 4096, 4096));
    let requests = [read(0, 1), read(1_000_000, 1), read(2_000_000, 2)];
    let times: Vec<_> = complete(&mut ssd, &requests)
        .iter()
        .zip(&requests)
        .map(|(done, request)| done.done - request.0)
        .collect();
    assert_eq!(ssd.counters().mapping_pages_read, 2);
    assert_eq!(times[0] - times[1], 290 + 75_000 + 1536);
    let writes: Vec<_> =
        (0..64).map(|page| (3_000_000 + page * 5_000_000, request(Op::Write, page * 4096, 4096))).collect();
    complete(&mut ssd, &writes);
    let counters = ssd.counters();
    assert!(counters.mapping_pages_written > 0 && counters.mapping_pages_written < 64, "{counters:?}");
    assert_eq!(counters.pages_programmed, 64 + counters.mapping_pages_written);
}

#[test]
fn energy_is_power_by_time() {
    assert_eq!(ssd(&small()).energy(1_000_000_000), None);
    let power = Power { idle_w: 1.0, read_w: 2.0, program_w: 4.0, erase_w: 8.0 };
    let mut ssd = ssd(&Parameters { power: Some(power), ..small() });
    assert_eq!(ssd.energy(1_000_000_000), Some(1.0));
    time(&mut ssd, Op::Read, 0, 2 * 4096);
    let expected = 1.0 + 2.0 * 2.0 * 75e-6;
    assert!((ssd.energy(1_000_000_000).expect("power is given") - expected).abs() < 1e-9);
}

#[test]
fn allocation_orders_stripe_pages() {
    let planes = |name: &str| {
        let allocation = parse_allocation(name).expect("an allocation");
        let parameters = Parameters { allocation, ..small() };
        let geometry = geometry::Geometry::new(&parameters);
        (0..4).map(|page| geometry.plane_of_slot(geometry.slot(page))).collect::<Vec<_>>()
    };
    assert_eq!(planes("CWDP"), [0, 4, 2, 6]);
    assert_eq!(planes("PDWC"), [0, 1, 2, 3]);
    assert_eq!(parse_allocation("CWDP"), Some(CWDP));
    assert_eq!(["CCDP", "CWD", "CWDPP", "cwdp", ""].map(parse_allocation), [None; 5]);
    let geometry = geometry::Geometry::new(&small());
    assert!((0..geometry.pages).all(|page| geometry.logical_page(geometry.slot(page)) == page));
}

#[test]
fn parameters_that_make_no_sense_are_named() {
    let default = Parameters::default;
    let cases = [
        ("channels", Parameters { channels: 0, ..default() }),
        ("channels", Parameters { channels: 65, ..default() }),
        ("dies_per_chip", Parameters { dies_per_chip: 0, ..default() }),
        ("pages_per_block", Parameters { pages_per_block: 0, ..default() }),
        ("blocks_per_plane", Parameters { blocks_per_plane: 0, ..default() }),
        ("blocks_per_plane", Parameters { blocks_per_plane: u32::MAX, ..default() }),
        ("page_bytes", Parameters { page_bytes: 1000, ..default() }),
        ("page_bytes", Parameters { page_bytes: 33 * 512, ..default() }),
        ("sector_bytes", Parameters { sector_bytes: 0, ..default() }),
        ("allocation", Parameters { allocation: [Dimension::Die; 4], ..default() }),
        ("over_provisioning", Parameters { over_provisioning: f64::NAN, ..default() }),
        ("over_provisioning", Parameters { over_provisioning: 0.0, ..default() }),
        ("over_provisioning", Parameters { over_provisioning: 0.03, ..default() }),
        ("over_provisioning", Parameters { over_provisioning: 0.999_999_9, ..default() }),
        ("read_ns", Parameters { read_ns: vec![], ..default() }),
        ("program_ns[0]", Parameters { program_ns: vec![u64::MAX], ..default() }),
        ("link_rate_bytes_per_s", Parameters { link_rate_bytes_per_s: 0, ..default() }),
        ("queue_depth", Parameters { queue_depth: 0, ..default() }),
        ("victim.random-greedy", Parameters { victim: Victim::RandomGreedy(0), ..default() }),
        ("gc_hard_threshold_blocks", Parameters { gc_hard_threshold_blocks: 0, ..default() }),
        ("gc_threshold_blocks", Parameters { gc_threshold_blocks: 10, ..default() }),
        ("mapping_cache_entries", Parameters { mapping_cache_entries: Some(0), ..default() }),
        ("mapping_entry_bytes", Parameters { mapping_entry_bytes: 0, ..default() }),
    ];
    for (field, parameters) in cases {
        let error = Ssd::new(parameters).map(|_| ()).expect_err(field);
        assert_eq!(error.field, field, "{error}");
    }
    let error = Parameters { channels: 0, ..default() }.validate().expect_err("no channel");
    assert_eq!(error.to_string(), "channels: expected 1 to 64, found 0");
    let mut ssd = ssd(&small());
    assert!(ssd.precondition(1.5, Fill::Random).is_err());
    assert!(ssd.precondition(1.0, Fill::Random).is_ok());
    assert!(ssd.precondition(1.0, Fill::Random).is_err());
}

/// One plane of many blocks: 32 Ki pages.
fn plane(victim: Victim, over_provisioning: f64) -> Parameters {
    Parameters {
        channels: 1,
        chips_per_channel: 1,
        dies_per_chip: 1,
        planes_per_die: 1,
        blocks_per_plane: 512,
        pages_per_block: 64,
        over_provisioning,
        gc_threshold_blocks: 2,
        gc_hard_threshold_blocks: 1,
        victim,
        ..Parameters::default()
    }
}

/// Write amplification of random writes without timing, after `rounds` times the capacity.
fn amplification(ssd: &mut Ssd, rounds: u32) -> f64 {
    let pages = ssd.ftl.geometry.pages as u32;
    let (mut random, mut moved, mut written) = (Random::new(7), 0, 0);
    for write in 0..(rounds + 4) * pages {
        let is_counted = write >= rounds * pages;
        while ssd.ftl.free_blocks(0) < ssd.parameters.gc_threshold_blocks as usize {
            let victim = ssd.ftl.take_victim(0, &mut random).expect("a block with invalid pages");
            moved += if is_counted { ssd.ftl.valid_pages(victim).count() } else { 0 };
            ssd.ftl.clean_block(victim);
        }
        written += usize::from(is_counted);
        let all = ssd.ftl.all_sectors();
        let page = ssd.ftl.write_slot(random.below(pages), all, Stream::Host).expect("a free page");
        ssd.ftl.finish_program(page);
    }
    1.0 + moved as f64 / written as f64
}

/// Write amplification of FIFO cleaning under uniform random writes (Desnoyers, "Analytic modeling of SSD write performance",
/// SYSTOR 2012), with `ratio` physical pages for each logical one: ratio / (ratio + W(-ratio e^-ratio)).
fn fifo_model(ratio: f64) -> f64 {
    let argument = -ratio * (-ratio).exp();
    // Newton's method on w e^w = argument, in the branch from -1 to 0.
    let lambert = (0..100).fold(0.0, |w: f64, _| w - (w * w.exp() - argument) / (w.exp() * (w + 1.0)));
    ratio / (ratio + lambert)
}

#[test]
fn write_amplification_is_that_of_the_model() {
    for over_provisioning in [0.1, 0.2, 0.4] {
        let fifo = amplification(&mut ssd(&plane(Victim::Fifo, over_provisioning)), 6);
        let greedy = amplification(&mut ssd(&plane(Victim::Greedy, over_provisioning)), 6);
        let choices = amplification(&mut ssd(&plane(Victim::RandomGreedy(10), over_provisioning)), 6);
        let ssd = ssd(&plane(Victim::Fifo, over_provisioning));
        // Free blocks, and on average half of each open one, hold nothing.
        let physical = (512 - 2) * 64;
        let model = fifo_model(f64::from(physical) / ssd.ftl.geometry.pages as f64);
        println!(
            "{over_provisioning}: model {model:.3}, FIFO {fifo:.3}, greedy {greedy:.3}, 10 choices {choices:.3}"
        );
        assert!((fifo / model - 1.0).abs() < 0.02, "{over_provisioning}: {fifo}, model {model}");
        assert!(greedy < fifo && greedy < choices);
    }
}

#[test]
fn preconditioning_is_as_long_writing() {
    let measure = |mut ssd: Ssd, rounds: u64| {
        let pages = ssd.ftl.geometry.pages;
        let (now, _) = overwrite(&mut ssd, 0, rounds * pages, 8);
        let start = ssd.counters();
        let (_, mean) = overwrite(&mut ssd, now, 4 * pages, 8);
        let end = ssd.counters();
        let programmed = end.pages_programmed - start.pages_programmed;
        (programmed as f64 / (end.host_pages_written - start.host_pages_written) as f64, mean)
    };
    for (victim, over_provisioning) in
        [(Victim::Greedy, 0.2), (Victim::Fifo, 0.1), (Victim::RandomGreedy(4), 0.3)]
    {
        let parameters = Parameters {
            channels: 2,
            planes_per_die: 2,
            blocks_per_plane: 128,
            pages_per_block: 32,
            gc_threshold_blocks: 3,
            ..plane(victim, over_provisioning)
        };
        let mut conditioned = ssd(&parameters);
        conditioned.precondition(1.0, Fill::Random).expect("a new drive");
        conditioned.ftl.check();
        let (fast, slow) = (measure(conditioned, 0), measure(ssd(&parameters), 8));
        println!("{victim:?} {over_provisioning}: preconditioned {fast:?}, written {slow:?}");
        assert!((fast.0 / slow.0 - 1.0).abs() < 0.03, "{fast:?} {slow:?}");
        assert!((fast.1 / slow.1 - 1.0).abs() < 0.05, "{fast:?} {slow:?}");
    }
}

prop_compose! {
    fn any_parameters()(
        (channels, chips_per_channel, dies_per_chip, planes_per_die) in (1u32..3, 1u32..3, 1u32..3, 1u32..3),
        (die_interleaving, multi_plane, link_full_duplex) in any::<(bool, bool, bool)>(),
        (write_buffer_protected, copy_back, zero_unwritten) in any::<(bool, bool, bool)>(),
        write_buffer_bytes in prop::sample::select(vec![0, 1000, 4096, 20_000, 1 << 20]),
        suspend_ns in prop::option::of(0u64..20_000),
        victim in prop::sample::select(vec![Victim::Greedy, Victim::Fifo, Victim::RandomGreedy(3)]),
        gc_priority in prop::sample::select(vec![Priority::Background, Priority::Exclusive]),
        mapping_cache_entries in prop::sample::select(vec![None, None, Some(16), Some(64)]),
        queue_depth in prop::sample::select(vec![1, 3, 1000]),
        allocation in prop::sample::select(vec![CWDP, PDWC]),
        (erase_ns, request_ns) in (0u64..4_000_000, 0u64..1000),
        seed in any::<u64>(),
    ) -> Parameters {
        Parameters {
            channels, chips_per_channel, dies_per_chip, planes_per_die,
            die_interleaving, multi_plane, link_full_duplex, write_buffer_protected, copy_back, zero_unwritten,
            write_buffer_bytes, suspend_program_ns: suspend_ns, suspend_erase_ns: suspend_ns,
            victim, gc_priority, mapping_cache_entries, mapping_entry_bytes: 512, queue_depth, allocation, erase_ns, request_ns, seed,
            blocks_per_plane: 12, pages_per_block: 4, page_bytes: 2048, over_provisioning: 0.7,
            ..small()
        }
    }
}

/// Requests of all kinds on a space of some megabytes, most of them within the capacity.
fn any_requests() -> impl Strategy<Value = Vec<(Nanos, Request)>> {
    let op =
        prop::sample::select(vec![Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Flush, Op::Trim]);
    let one = (0u64..200_000, op, 0u64..200_000, 0u64..20_000);
    prop::collection::vec(one, 1..200).prop_map(|parts| {
        let mut now = 0;
        let request = |(wait, op, pos, length)| {
            now += wait;
            let is_flush = op == Op::Flush;
            (now, request(op, if is_flush { 0 } else { pos }, if is_flush { 0 } else { length }))
        };
        parts.into_iter().map(request).collect()
    })
}

/// Takes completions, and checks that pages which were in the write buffer before a completed flush are programmed.
fn check_flushes(ssd: &Ssd, completions: &mut Vec<Completion>, taken: &[u64]) {
    for completion in completions.drain(..) {
        assert!(ssd.buffer.drained() >= taken[completion.id.0 as usize]);
    }
}

proptest! {
    #[test]
    fn each_request_completes_once(parameters in any_parameters(), requests in any_requests(), full in 0.0f64..1.0) {
        let run = || {
            let mut ssd = ssd(&parameters);
            ssd.precondition(full, Fill::Random).expect("a new drive");
            let completions = complete(&mut ssd, &requests);
            (completions, ssd.counters())
        };
        let (completions, counters) = run();
        let programmed = counters.host_pages_written + counters.pages_moved + counters.mapping_pages_written;
        prop_assert_eq!(counters.pages_programmed, programmed);
        prop_assert_eq!((completions, counters), run(), "equal input gives equal output");
    }

    #[test]
    fn the_mapping_is_that_of_the_last_writes(parameters in any_parameters(), requests in any_requests()) {
        let mut ssd = ssd(&parameters);
        let (mut oracle, mut now, mut completions) = (BTreeSet::new(), 0, Vec::new());
        for (_, request) in requests {
            // Each begins when the one before is acknowledged, which may be before it is in flash.
            ssd.advance(now, &mut completions);
            ssd.submit(now, Id(0), request);
            completions.clear();
            while let Some(next) = ssd.next_event().filter(|_| completions.is_empty()) {
                now = next;
                ssd.advance(now, &mut completions);
            }
            let Request { op, pos, length } = request;
            let end = (pos + length).min(ssd.capacity());
            match op {
                Op::Write if pos < end => oracle.extend(pos / 2048..end.div_ceil(2048)),
                Op::Trim => (pos.div_ceil(2048)..end / 2048).for_each(|page| {
                    oracle.remove(&page);
                }),
                _ => (),
            }
        }
        complete(&mut ssd, &[]);
        prop_assert_eq!(mapped(&ssd), oracle);
    }

    #[test]
    fn a_flush_leaves_nothing_of_before_in_the_write_buffer(parameters in any_parameters(), requests in any_requests()) {
        let parameters = Parameters { write_buffer_protected: false, ..parameters };
        let mut ssd = ssd(&parameters);
        let mut completions = vec![];
        // By request that is a flush, the pages that the buffer had taken when it came.
        let mut taken = vec![0; requests.len()];
        for (at, &(arrival, request)) in requests.iter().enumerate() {
            while let Some(next) = ssd.next_event().filter(|&next| next <= arrival) {
                ssd.advance(next, &mut completions);
                check_flushes(&ssd, &mut completions, &taken);
            }
            if request.op == Op::Flush && ssd.buffer.is_enabled() {
                taken[at] = ssd.counters().host_pages_written;
            }
            ssd.submit(arrival, Id(at as u64), request);
        }
        while let Some(next) = ssd.next_event() {
            ssd.advance(next, &mut completions);
            check_flushes(&ssd, &mut completions, &taken);
        }
    }

    #[test]
    fn any_numbers_are_refused_or_work(
        counts in prop::array::uniform8(prop::sample::select(vec![0u32, 1, 2, 3, 8, 100, 1 << 20, u32::MAX])),
        times in prop::array::uniform4(prop::sample::select(vec![0u64, 1, 1000, 1 << 40, u64::MAX])),
        over_provisioning in prop::sample::select(vec![f64::NAN, -1.0, 0.0, 1e-9, 0.1, 0.5, 0.999, 1.0, f64::INFINITY]),
    ) {
        let [channels, chips_per_channel, dies_per_chip, planes_per_die, blocks_per_plane, pages_per_block, page_bytes, more] =
            counts;
        let parameters = Parameters {
            channels, chips_per_channel, dies_per_chip, planes_per_die, blocks_per_plane, pages_per_block, over_provisioning,
            page_bytes: page_bytes.wrapping_mul(512),
            gc_threshold_blocks: more,
            gc_hard_threshold_blocks: 1,
            erase_ns: times[0],
            read_ns: vec![times[1]],
            request_ns: times[2],
            channel_rate_bytes_per_s: times[3],
            ..Parameters::default()
        };
        // Larger drives work too, but their tables take long to check.
        let cells = u64::from(blocks_per_plane).saturating_mul(u64::from(pages_per_block)).saturating_mul(parameters.planes());
        if parameters.validate().is_ok() && cells < 1 << 16 {
            let mut ssd = ssd(&parameters);
            complete(&mut ssd, &[(0, request(Op::Write, 0, 1 << 20)), (0, request(Op::Read, 0, 1 << 20))]);
        }
    }
}
