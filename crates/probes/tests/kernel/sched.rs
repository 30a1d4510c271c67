//! CPU slices and who woke whom, with both backends.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use iotrail_probes::{Backend, CpuSlice, Event, Left, Options, Scope, Wake};

use crate::loop_device::{LoopDevice, access, accesses};
use crate::{Recorded, backends, record};

fn recorded(backend: Backend, work: impl Fn()) -> Recorded {
    let recorded =
        record(&Options { sched: Scope::Targets, backend: Some(backend), ..Options::default() }, work);
    for slice in recorded.slices() {
        assert!(slice.start <= slice.end, "{backend:?} {slice:?}");
    }
    recorded
}

/// A process can be waited for before its last thread has left the CPU for good.
fn last(slice: &CpuSlice) -> bool {
    matches!(slice.left, Left::Ended | Left::Running)
}

/// Each switch that the kernel didn't show is one slice less.
fn at_least(wanted: usize, found: usize, recorded: &Recorded) {
    assert!(found + recorded.unseen as usize >= wanted, "{wanted} {found} {}", recorded.unseen);
}

/// This thread's CPU time, ns.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn burn(ns: u64) {
    let end = cpu_time() + ns;
    while cpu_time() < end {}
}

/// Time that the hypervisor gave to others, of all CPUs, ns: it is in slices, but not in CPU times.
fn stolen() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let ticks: u64 = stat.lines().next().unwrap().split_whitespace().nth(8).unwrap().parse().unwrap();
    ticks * 10_000_000 // USER_HZ is 100
}

#[test]
fn slices_add_up_to_the_cpu_time() {
    for backend in backends() {
        let before = stolen();
        let recorded = recorded(backend, || {
            let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(|| burn(150_000_000))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let slices = recorded.slices();
        assert!(slices.iter().all(|slice| slice.pid == recorded.pid), "{backend:?}");
        let found: u64 = slices.iter().map(|slice| slice.end - slice.start).sum();
        let tolerance = (recorded.cpu_ns / 50).max(20_000_000) + (stolen() - before);
        assert!(found <= recorded.cpu_ns + tolerance, "{backend:?} {found} {}", recorded.cpu_ns);
        if recorded.unseen == 0 {
            assert!(found + tolerance >= recorded.cpu_ns, "{backend:?} {found} {}", recorded.cpu_ns);
        }
        // Three threads and their maker.
        at_least(4, slices.iter().filter(|slice| last(slice)).count(), &recorded);
    }
}

#[test]
fn why_a_thread_left() {
    for backend in backends() {
        let device = LoopDevice::new(8 << 20);
        let file = device.open_direct();
        let count = |slices: &[&CpuSlice], left| slices.iter().filter(|slice| slice.left == left).count();

        let slept = recorded(backend, || (0..13).for_each(|_| std::thread::sleep(Duration::from_millis(1))));
        at_least(13, count(&slept.slices(), Left::Sleep), &slept);

        let waited = recorded(backend, || access(&file, &accesses(101, 8 << 20)));
        at_least(1, count(&waited.slices(), Left::Disk), &waited);
        at_least(1, waited.slices().into_iter().filter(|slice| last(slice)).count(), &waited);
    }
}

#[test]
fn children_are_followed() {
    for backend in backends() {
        let recorded = recorded(backend, || {
            let children: Vec<_> = (0..5).map(|_| crate::Child::fork(|| burn(1_000_000))).collect();
            for child in children {
                child.go();
                assert_eq!(child.wait(), 0);
            }
        });
        let mut pids: Vec<_> =
            recorded.slices().iter().filter(|slice| last(slice)).map(|slice| slice.pid).collect();
        pids.sort();
        pids.dedup();
        // Five and their parent.
        at_least(6, pids.len(), &recorded);
        assert!(pids.len() <= 6, "{backend:?} {pids:?}");
    }
}

/// Threads pass a word to and fro through pipes, then sleep.
#[test]
fn who_woke_whom() {
    const TIMES: usize = 50;
    for backend in backends() {
        let options = Options { wake: Scope::Targets, backend: Some(backend), ..Options::default() };
        let recorded = record(&options, || {
            let (mut there, mut back) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
            let other = std::thread::spawn(move || {
                for _ in 0..TIMES {
                    there.0.read_exact(&mut [0]).unwrap();
                    back.1.write_all(b".").unwrap();
                }
            });
            for _ in 0..TIMES {
                // by then the other one sleeps, mostly: on a busy machine it may not have run yet
                std::thread::sleep(Duration::from_millis(1));
                there.1.write_all(b".").unwrap();
                back.0.read_exact(&mut [0]).unwrap();
            }
            other.join().unwrap();
        });
        let wakes: Vec<&Wake> =
            recorded.all(|event| if let Event::Wake(wake) = event { Some(wake) } else { None });
        assert!(wakes.iter().all(|wake| wake.pid == recorded.pid), "{backend:?}");
        let by_other = |wake: &&&Wake| {
            wake.tid != recorded.pid && !wake.interrupt && wake.by == (recorded.pid, recorded.pid)
        };
        at_least(TIMES - 10, wakes.iter().filter(by_other).count(), &recorded);
        let by_timer = |wake: &&&Wake| wake.tid == recorded.pid && wake.interrupt;
        at_least(TIMES - 10, wakes.iter().filter(by_timer).count(), &recorded);
        // nobody else wakes it but what starts it and what ends it
        let by_others = wakes.iter().filter(|wake| !wake.interrupt && wake.by.0 != recorded.pid).count();
        assert!(by_others <= 3, "{backend:?} {wakes:?}");
    }
}
