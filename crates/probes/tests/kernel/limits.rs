//! What happens where there is no room, or no permission.

use std::io::{self, Read, Write};

use iotrail_probes::{Backend, HAS_EBPF, Options, Probes, Scope};

use crate::children::Child;
use crate::loop_device::{LoopDevice, access, accesses};
use crate::{alone, ebpf_permitted, permitted, syscall};

const COUNT: usize = 1009;

#[test]
fn what_a_full_ring_drops_is_counted() {
    if !ebpf_permitted() {
        return;
    }
    let options = Options { buffer_bytes: 4096, ..syscall::options() };
    let _alone = alone();
    let mut probes = Probes::start(&options).unwrap();
    let child = Child::fork(|| {
        for n in 0..COUNT {
            // SAFETY: takes no memory; it fails.
            unsafe { libc::lseek(-1, n as i64, libc::SEEK_SET) };
        }
    });
    probes.add_target(child.pid).unwrap();
    child.go();
    assert_eq!(child.wait(), 0);
    let mut given = 0;
    let dropped = probes.finish(&mut |_| given += 1).unwrap();
    assert!(given > 0 && dropped.total() > 0, "{given} {dropped:?}");
    // And the process's end.
    assert_eq!(given + dropped.total() as usize, COUNT + 1);
}

#[test]
fn what_full_pages_drop_is_counted() {
    if !permitted() {
        return;
    }
    let device = LoopDevice::new(8 << 20);
    let file = device.open_direct();
    let options = Options {
        disk: Scope::Targets,
        buffer_bytes: 4096,
        backend: Some(Backend::Tracefs),
        ..Options::default()
    };
    let _alone = alone();
    let mut probes = Probes::start(&options).unwrap();
    let child = Child::fork(|| access(&file, &accesses(COUNT as u64, 8 << 20)));
    probes.add_target(child.pid).unwrap();
    child.go();
    assert_eq!(child.wait(), 0);
    let mut given = 0;
    let dropped = probes.finish(&mut |_| given += 1).unwrap();
    assert!(given < COUNT && dropped.total() > 0, "{given} {dropped:?}");
}

#[test]
fn without_permission_it_says_what_to_do() {
    let (mut hear, mut say) = io::pipe().unwrap();
    let child = Child::fork(|| {
        const NOBODY: u32 = 65534;
        // SAFETY: takes numbers only. Whoever has no privileges to begin with is refused just as well.
        unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) };
        let started = Probes::start(&Options { disk: Scope::All, ..Options::default() });
        let refused = started.err().map(|refused| refused.to_string()).unwrap_or_default();
        say.write_all(refused.as_bytes()).unwrap();
    });
    child.go();
    assert_eq!(child.wait(), 0);
    drop(say);
    let mut said = String::new();
    hear.read_to_string(&mut said).unwrap();
    let (reason, hint) = said.split_once('\n').unwrap();
    assert!(reason.contains("eBPF: ") && reason.contains("tracefs: "), "{said}");
    let refused = reason.matches("not permitted").count() + reason.matches("denied").count();
    assert_eq!(refused, if HAS_EBPF { 2 } else { 1 }, "{said}");
    assert!(hint.contains("root") && hint.contains("CAP_BPF and CAP_PERFMON"), "{said}");
}
