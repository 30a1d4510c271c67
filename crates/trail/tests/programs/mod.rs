//! Programs for tests of the sealer: the test binary itself, run with a role in the environment.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use iotrail_format::schema::UNSEEN;
use iotrail_trail::seal::Sealer;
use iotrail_trail::seal::session::{Budget, Session, SessionFile};
use iotrail_trail::{TrailReader, TrailWriter};

/// What the program is to do.
pub const ROLE: &str = "IOTRAIL_TEST_ROLE";
/// The trail of a recorder.
pub const TRAIL: &str = "IOTRAIL_TEST_TRAIL";
/// The file in which an endless program counts.
pub const COUNTER: &str = "IOTRAIL_TEST_COUNTER";
/// The node of each recording.
pub const NODE: &str = "test-node";

/// Starts this binary's test `role` as a program.
pub fn run_as(role: &str, set: &[(&str, &Path)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "role", "--nocapture"]).env(ROLE, role).envs(set.iter().copied());
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

/// Begins to seal into a new trail. Returns the session's directory.
pub fn start(trail: &Path) -> (PathBuf, Sealer) {
    let budget = Budget::of(32 << 20);
    let session = Session::create_on(NODE, budget.segments).unwrap();
    let dir = session.dir().to_owned();
    let writer = TrailWriter::create(trail, false).unwrap();
    (dir, Sealer::start(writer, session, budget, &[("command".into(), Some("test".into()))]).unwrap())
}

/// The role of a recorder that only a signal ends.
pub fn record() -> ! {
    let _sealer = start(Path::new(&std::env::var_os(TRAIL).unwrap())).1;
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Calls and records that the trail says it does not hold: whoever counted them, a killed recorder or its recovery.
pub fn lost(trail: &Path) -> u64 {
    let reader = TrailReader::open(trail).unwrap();
    let files = reader.snapshot().files(UNSEEN.name);
    let batches = files.iter().flat_map(|file| reader.file(&UNSEEN, file).unwrap()).map(Result::unwrap);
    let of_batch = |batch: RecordBatch| {
        let kinds = batch.column_by_name("kind").unwrap().as_dictionary::<Int32Type>();
        let words = kinds.values().as_string::<i32>();
        let amounts = batch.column_by_name("amount").unwrap().as_primitive::<Int64Type>();
        let rows = kinds.keys_iter().flatten().zip(amounts.values());
        let is_loss = |key: usize| matches!(words.value(key), "dropped" | "interrupted" | "no_memory");
        rows.filter(|(key, _)| is_loss(*key)).map(|(_, amount)| *amount as u64).sum::<u64>()
    };
    batches.map(of_batch).sum()
}

/// The session's directory of a recorder that was just started.
pub fn session_of(trail: &Path) -> PathBuf {
    for _ in 0..30_000 {
        // Written when the recorder is ready for programs; it may be seen half-written.
        if let Ok(Some(file)) = SessionFile::read(trail) {
            return file.session_dir;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("the recorder never began");
}
