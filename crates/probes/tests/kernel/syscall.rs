//! System calls and io_uring, with eBPF.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use iotrail_probes::{Backend, Change, Event, Options, Probes, Scope, Syscall, What};
use tempfile::TempDir;

use crate::children::Child;
use crate::loop_device::{LoopDevice, access_by_ring, accesses, run};
use crate::{alone, ebpf_permitted, record};

pub fn options() -> Options {
    Options { syscall: Scope::Targets, backend: Some(Backend::Bpf), ..Options::default() }
}

#[test]
fn calls_of_a_static_program() {
    if !ebpf_permitted() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("calls");
    // Said when it runs: clones that share compiled tests are elsewhere.
    let source = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/tests/kernel/programs/calls.c";
    run(Command::new("gcc").args(["-static", "-O1", "-o"]).arg(&program).arg(source));
    let recorded = record(&options(), || panic!("{}", Command::new(&program).arg(folder.path()).exec()));

    let calls = recorded.calls();
    let begin = calls.iter().position(|call| call.path.as_deref() == Some(b"begin")).unwrap();
    let found: Vec<_> = calls[begin..]
        .iter()
        .map(|call| (i64::from(call.nr), call.path.as_deref(), call.path2.as_deref(), call.ret))
        .collect();
    let path = |path: &'static str| Some(path.as_bytes());
    let mut wanted = vec![(libc::SYS_openat, path("begin"), None, 3)];
    wanted.extend([(libc::SYS_pwrite64, None, None, 13); 101]);
    wanted.extend([
        (libc::SYS_lseek, None, None, 5),
        (libc::SYS_read, None, None, 17),
        (libc::SYS_writev, None, None, 17),
        (libc::SYS_fdatasync, None, None, 0),
        (libc::SYS_ftruncate, None, None, 0),
        (libc::SYS_newfstatat, path("begin"), None, 0),
        (libc::SYS_renameat2, path("begin"), path("then"), 0),
        (libc::SYS_open, path("missing"), None, -i64::from(libc::ENOENT)),
        (libc::SYS_open, None, None, -i64::from(libc::EFAULT)),
        (libc::SYS_open, path("cold"), None, -i64::from(libc::ENOENT)),
        (libc::SYS_mkdir, path("folder"), None, 0),
        (libc::SYS_rmdir, path("folder"), None, 0),
        (libc::SYS_unlink, path("then"), None, 0),
        (libc::SYS_close, None, None, 0),
    ]);
    assert_eq!(found, wanted);
    assert!(calls.iter().all(|call| call.end.is_some_and(|end| call.start <= end)));
    let positions = calls[begin + 1..begin + 102].iter().map(|call| call.args[3]);
    assert!(positions.eq((0..101).map(|n| n * 13)));

    // What openat made is what all the others but those on paths were given.
    let file = calls[begin].opened[1].unwrap();
    let inode = std::fs::metadata(folder.path()).unwrap().ino();
    assert!(file.what == What::File && !file.append && file.inode != inode);
    let of = |nr: i64| calls[begin..].iter().filter(move |call| i64::from(call.nr) == nr);
    let used = [libc::SYS_pwrite64, libc::SYS_lseek, libc::SYS_read, libc::SYS_writev, libc::SYS_close];
    assert!(used.into_iter().flat_map(of).all(|call| call.opened == [Some(file), None]));
    let of = |nr: i64| of(nr).next().unwrap();
    assert_eq!(of(libc::SYS_read).moved, Some((5, 22)));
    assert_eq!((of(libc::SYS_writev).moved, of(libc::SYS_writev).told), (Some((22, 39)), Some(17)));

    let changes: Vec<_> = recorded.changes().into_iter().map(|process| process.change.clone()).collect();
    let text = |path: &Path| Some(path.as_os_str().as_bytes().to_vec());
    let mut arguments = [program.as_path(), folder.path()].map(|path| text(path).unwrap()).join(&0);
    arguments.push(0);
    let executed = Change::Executed { file: text(&program), arguments: Some(arguments) };
    assert_eq!(changes, [executed, Change::Ended { status: 0 }]);
}

#[test]
fn a_call_under_way_is_given_at_the_end() {
    if !ebpf_permitted() {
        return;
    }
    let _alone = alone();
    let mut probes = Probes::start(&options()).unwrap();
    let (empty, tell) = io::pipe().unwrap();
    let child = Child::fork(|| {
        // SAFETY: reads into a byte of our own.
        unsafe { libc::read(empty.as_raw_fd(), [0u8].as_mut_ptr().cast(), 1) };
    });
    probes.add_target(child.pid).unwrap();
    child.go();
    child.until_reading(empty.as_raw_fd());
    let mut events = Vec::new();
    probes.poll(Duration::ZERO, &mut |event| events.push(event)).unwrap();
    probes.finish(&mut |event| events.push(event)).unwrap();
    child.kill();
    child.wait();
    drop(tell);
    let unfinished = |event: &&Event| matches!(event, Event::Syscall(Syscall { end: None, .. }));
    assert_eq!(events.iter().filter(unfinished).count(), 1, "{events:?}");
}

#[test]
fn requests_on_a_ring() {
    if !ebpf_permitted() {
        return;
    }
    const COUNT: u64 = 1009;
    const BYTES: u64 = 32 << 20;
    let device = LoopDevice::new(BYTES);
    let file = device.open_direct();
    let wanted = accesses(COUNT, BYTES);
    let recorded = record(&options(), || access_by_ring(&file, &wanted).unwrap());
    let mut ops = recorded.uring_ops();
    ops.sort_by_key(|op| op.user_data);
    assert_eq!(ops.len(), COUNT as usize);
    for (n, (op, access)) in ops.into_iter().zip(wanted).enumerate() {
        let opcode = if access.write { io_uring::opcode::Write::CODE } else { io_uring::opcode::Read::CODE };
        let length = u64::from(access.length);
        assert_eq!((op.user_data, op.opcode, op.fd), (n as u64, opcode, Some(file.as_raw_fd())));
        assert_eq!((op.pos, op.length, op.result), (Some(access.pos), Some(length), access.length as i32));
        assert!(op.completed.is_some_and(|completed| op.submitted <= completed), "{op:?}");
        assert_eq!((op.pid, op.tid), (recorded.pid, recorded.pid));
        assert_eq!(op.opened.map(|opened| opened.inode), Some(file.metadata().unwrap().ino()));
    }
}
