//! The sealer with real programs on the other side: every call arrives, through the end of the
//! program, of its threads, and of the recorder itself.
//!
//! The programs are this test binary itself, run with a role in the environment.

mod programs;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use iotrail_format::call::Call;
use iotrail_format::ids::FileId;
use iotrail_format::segment::{NONE, ProcessState, SESSION_ENV, TextKind};
use iotrail_sdk::post::Draft;
use iotrail_sdk::{attach, post};
use iotrail_trail::seal::Sealed;
use iotrail_trail::seal::recover::{Recovered, recover};
use iotrail_trail::seal::session::SessionFile;
use iotrail_trail::{Error, Snapshot};

use programs::{COUNTER, ROLE, TRAIL, lost, record, run_as, session_of, start};

fn pread(file: i64, pos: i64) {
    let draft =
        Draft { opcode: Call::Pread as u16, kind: 0, fd: 3, object: file, pos, length: 512, aux: NONE };
    if let Some(pending) = post::begin(&draft) {
        post::end(&pending, &draft, 512, 0);
    }
}

fn attach_here() {
    assert!(attach::init(std::env::var(SESSION_ENV).unwrap().as_bytes()));
}

/// Not a test of its own: what the programs of the other tests do.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "threads" => {
            attach_here();
            let path = b"/some/where/a path that needs more than one slot of forty-eight bytes";
            let file = FileId::of_path(path).0;
            post::text(TextKind::Path, file, path);
            post::text(TextKind::Exe, 0, b"/usr/bin/producer");
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        (0..10_007).for_each(|n| pread(file, n * 512));
                        attach::thread_ends();
                    });
                }
            });
            attach::image_ends(ProcessState::Exited, 5);
            std::process::exit(5);
        }
        "endless" => {
            attach_here();
            let counter = std::fs::File::options().write(true).open(std::env::var(COUNTER).unwrap()).unwrap();
            for n in 0_u64.. {
                pread(1, n as i64);
                counter.write_all_at(&(n + 1).to_le_bytes(), 0).unwrap();
            }
        }
        "recorder" => record(),
        other => panic!("no role {other}"),
    }
}

/// Calls that the endless program has counted as returned.
fn calls_in(counter: &Path) -> u64 {
    u64::from_le_bytes(std::fs::read(counter).unwrap().try_into().unwrap())
}

/// Waits until the endless program has counted so many calls.
fn reaches(counter: &Path, calls: u64) {
    for _ in 0..60_000 {
        if calls_in(counter) >= calls {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the program stopped at {} calls", calls_in(counter));
}

fn rows(trail: &Path, table: &str) -> u64 {
    Snapshot::newest(trail).unwrap().rows(table)
}

#[test]
fn every_call_of_a_program_is_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("a.trail");
    let (dir, sealer) = start(&trail);
    for _ in 0..2 {
        let status = run_as("threads", &[(SESSION_ENV, &dir)]).wait().unwrap();
        assert_eq!(status.code(), Some(5));
    }
    let sealed: Sealed = sealer.finish(&[]).unwrap();
    assert_eq!(sealed.totals.calls, 2 * 3 * 10_007);
    assert_eq!((sealed.totals.lost, sealed.totals.processes, sealed.totals.files), (0, 2, 1));
    assert_eq!(sealed.totals.read, 2 * 3 * 10_007 * 512);
    assert_eq!(rows(&trail, "file_op"), 2 * 3 * 10_007);
    assert_eq!(rows(&trail, "process"), 2);
    // The main thread and three others of each.
    assert_eq!(rows(&trail, "thread"), 2 * 4);
    assert_eq!(rows(&trail, "file"), 1);
    assert!(!dir.exists(), "the session is removed");
    assert!(SessionFile::read(&trail).unwrap().is_none());
    assert!(matches!(recover(&trail).unwrap(), Recovered::Nothing));
}

#[test]
fn a_killed_recorder_and_program_lose_no_call_that_returned() {
    for (round, millis) in [40_u64, 150, 400, 900].into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let (trail, counter) = (folder.path().join("k.trail"), folder.path().join("counter"));
        std::fs::write(&counter, [0; 8]).unwrap();
        let mut recorder = run_as("recorder", &[(TRAIL, &trail)]);
        let session = session_of(&trail);
        let mut program = run_as("endless", &[(SESSION_ENV, &session), (COUNTER, &counter)]);
        reaches(&counter, 200);
        std::thread::sleep(Duration::from_millis(millis));
        assert!(
            matches!(recover(&trail), Err(Error::Recording { .. })),
            "a recording that goes on is left alone"
        );
        // In one order and in the other.
        let (first, second) =
            if round % 2 == 0 { (&mut recorder, &mut program) } else { (&mut program, &mut recorder) };
        first.kill().unwrap();
        second.kill().unwrap();
        first.wait().unwrap();
        second.wait().unwrap();

        let returned = calls_in(&counter);
        assert!(matches!(recover(&trail).unwrap(), Recovered::Added), "there was a session");
        // The last call may have been posted and not yet counted by the program, or still be in flight.
        let found = rows(&trail, "file_op") + lost(&trail);
        assert!((returned..=returned + 1).contains(&found), "{returned} returned, {found} found");
        assert_eq!(rows(&trail, "process"), 1);
        assert_eq!(rows(&trail, "thread"), 1);
        assert!(!session.exists());
        assert!(matches!(recover(&trail).unwrap(), Recovered::Nothing));
    }
}

#[test]
fn a_program_that_outlives_its_recorder_stops_posting_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (trail, counter) = (folder.path().join("o.trail"), folder.path().join("counter"));
    std::fs::write(&counter, [0; 8]).unwrap();
    let (dir, sealer) = start(&trail);
    let mut program = run_as("endless", &[(SESSION_ENV, &dir), (COUNTER, &counter)]);
    reaches(&counter, 200);
    let sealed = sealer.finish(&[]).unwrap();
    assert_eq!(sealed.running, [program.id()]);
    assert!(!dir.exists());
    reaches(&counter, calls_in(&counter) + 200);
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(rows(&trail, "file_op") > 100);
    // That it still runs; and what the ring had no room for, where the sealer gets too little of a CPU.
    assert_eq!(rows(&trail, "unseen"), 1 + u64::from(sealed.totals.lost != 0));
}

#[test]
fn a_trail_that_cannot_be_written_for_a_while_keeps_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("w.trail");
    let (dir, sealer) = start(&trail);
    let (data, away) = (trail.join("data"), folder.path().join("away"));
    std::fs::rename(&data, &away).unwrap();
    std::fs::write(&data, "in the way").unwrap();
    run_as("threads", &[(SESSION_ENV, &dir)]).wait().unwrap();
    // The first journal is written after two seconds, which fails; the next one goes on filling.
    std::thread::sleep(Duration::from_millis(2800));
    run_as("threads", &[(SESSION_ENV, &dir)]).wait().unwrap();
    std::fs::remove_file(&data).unwrap();
    std::fs::rename(&away, &data).unwrap();
    let sealed = sealer.finish(&[]).unwrap();
    assert_eq!(sealed.totals.lost, 0);
    assert_eq!(rows(&trail, "file_op"), 2 * 3 * 10_007);
    assert_eq!((rows(&trail, "process"), rows(&trail, "thread"), rows(&trail, "file")), (2, 8, 1));
    assert!(!dir.exists());
}
