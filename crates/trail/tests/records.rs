//! Records of requests, from programs that post them to the rows of their tables.
//!
//! The programs are this test binary itself, run with a role in the environment.

mod programs;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use iotrail_format::call::Call;
use iotrail_format::segment::{NONE, SESSION_ENV};
use iotrail_sdk::declared::{RecordType, Value};
use iotrail_sdk::names::Refused;
use iotrail_sdk::post::{self, Draft};
use iotrail_sdk::request::{Buffer, Crumb, Disk, Follow as _, Name, Service, Symbol};
use iotrail_sdk::{api, request};
use iotrail_trail::Snapshot;
use iotrail_trail::seal::Sealed;
use iotrail_trail::seal::recover::{Recovered, recover};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use programs::{COUNTER, NODE, ROLE, TRAIL, lost, record, run_as, session_of, start};

/// Requests of each thread.
const EACH: i64 = 1009;

static HEAD: Name = Name::new("head");
static CACHE: Name = Name::new("blocks");
static WRITE: Name = Name::new("write");
static DISK: Name = Name::new("sda");
static PEER: Name = Name::new("storage-1");

const WIDE: &str = "wide\tTen columns.\na\tBIGINT\tns\tFirst.\nb\tVARCHAR\t\tText.\nc\tDOUBLE\t\tReal.\n\
                    d\tBIGINT\t\tx\ne\tBIGINT\t\tx\nf\tBIGINT\t\tx\ng\tVARCHAR\t\tx\nh\tBIGINT\t\tx\n\
                    i\tDOUBLE\t\tx\nj\tVARCHAR\t\tLast.";

fn pread(pos: i64) {
    let draft = Draft { opcode: Call::Pread as u16, kind: 0, fd: 3, object: 7, pos, length: 512, aux: NONE };
    if let Some(pending) = post::begin(&draft) {
        post::end(&pending, &draft, 512, 0);
    }
}

/// A request of a client, with everything a component may post.
fn serve(client: Symbol, n: i64) {
    let crumb = Crumb::fresh();
    let here = crumb.enter();
    let mut request = Service::server(&HEAD, &WRITE, crumb).client(client).file(9).at(n as u64 * 512, 512);
    request::buffer(&HEAD, &CACHE, Buffer::Write, crumb, 9, n as u64 * 512, 512);
    pread(n);
    let call = crumb.split();
    {
        let _call = Service::client_of(&HEAD, &PEER, call);
        request::transmit(&HEAD, &PEER, call, 600);
    }
    let mut disk = Disk::queued(&DISK, &WRITE, call, n as u64 * 4096, 4096);
    disk.issued();
    drop(disk);
    request.status(i32::from(n % 2 == 1) * 5);
    drop(request);
    drop(here);
    pread(-n);
}

/// Computes for so long, by the thread's CPU clock.
fn compute(long: Duration) {
    let clock = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a timespec to write to.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let end = clock() + long;
    while clock() < end {}
}

/// Not a test of its own: what the programs of the tests do.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    assert!(api::init() || role == "recorder");
    match role.as_str() {
        "requests" => {
            api::role("head");
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    scope.spawn(move || {
                        let client = Symbol::new(&format!("client-{thread}"));
                        (0..EACH).for_each(|n| serve(client, n));
                    });
                }
            });
        }
        "declares" => {
            let wide = RecordType::declare(WIDE).unwrap();
            assert_eq!(RecordType::declare("wide\tOther.").err(), Some(Refused::Differs));
            assert_eq!(RecordType::declare(WIDE).map(|again| again.on()), Ok(true));
            let text = Symbol::new("some text");
            for n in 0..EACH {
                let crumb = Crumb::fresh();
                let values = [
                    Value::Int(n),
                    Value::Text(text),
                    Value::Real(n as f64 / 2.0),
                    Value::Null,
                    Value::Int(5),
                    Value::Int(6),
                    Value::Text(Symbol::NONE),
                    Value::Int(8),
                    Value::Real(9.5),
                    Value::Text(text),
                ];
                wide.post(crumb, &values);
                request::buffer(&HEAD, &CACHE, Buffer::ReadHit, crumb, 1, 0, 1);
            }
        }
        "declares otherwise" => {
            let other = RecordType::declare("wide\tOne column.\na\tVARCHAR\t\tOther type.").unwrap();
            other.post(Crumb::NONE, &[Value::Text(Symbol::new("x"))]);
        }
        "forks" => {
            // Named before the fork, used after it.
            let client = Symbol::new("before the fork");
            serve(client, 0);
            // SAFETY: the child only posts and leaves.
            match unsafe { libc::fork() } {
                0 => {
                    serve(client, 1);
                    serve(Symbol::new("in the child"), 2);
                    // SAFETY: ends the child at once.
                    unsafe { libc::_exit(0) }
                }
                child => {
                    serve(client, 3);
                    // SAFETY: waits for the child just made.
                    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                }
            }
        }
        "polls" => {
            let crumb = Crumb::fresh();
            let mut polls = 0;
            let work = std::future::poll_fn(move |_| {
                pread(polls);
                polls += 1;
                if polls < 4 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
            });
            let here = crumb.enter();
            let mut task = Box::pin(work.in_current_crumb());
            drop(here);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            while task.as_mut().poll(&mut context).is_pending() {
                pread(100);
            }
        }
        "waits and computes" => {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let here = Crumb::fresh().enter();
                    std::thread::sleep(Duration::from_millis(200));
                    drop(here);
                    compute(Duration::from_millis(50));
                    let here = Crumb::fresh().enter();
                    compute(Duration::from_millis(50));
                    drop(here);
                    // What it computes on the way to what it takes is for that.
                    compute(Duration::from_millis(50));
                    std::thread::sleep(Duration::from_millis(100));
                    drop(Crumb::fresh().take());
                });
            });
        }
        "endless" => {
            let counter = File::options().write(true).open(std::env::var(COUNTER).unwrap()).unwrap();
            let wide = RecordType::declare(WIDE).unwrap();
            for n in 0_u64.. {
                // One of each, so that the counts of both tables are known.
                wide.post(Crumb::fresh(), &[Value::Int(n as i64)]);
                request::transmit(&HEAD, &PEER, Crumb::fresh(), n);
                counter.write_all_at(&(n + 1).to_le_bytes(), 0).unwrap();
            }
        }
        "recorder" => record(),
        other => panic!("no role {other}"),
    }
}

fn recorded(roles: &[&str]) -> (tempfile::TempDir, PathBuf, Sealed) {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("a.trail");
    let (dir, sealer) = start(&trail);
    for role in roles {
        assert!(run_as(role, &[(SESSION_ENV, &dir)]).wait().unwrap().success());
    }
    let sealed = sealer.finish(&[]).unwrap();
    assert_eq!(sealed.totals.lost, 0);
    (folder, trail, sealed)
}

fn batches(trail: &Path, table: &str) -> Vec<RecordBatch> {
    let snapshot = Snapshot::newest(trail).unwrap();
    let open = |path: &str| File::open(trail.join(path)).unwrap();
    let files = snapshot.files(table).iter().map(|file| open(&file.path));
    files
        .flat_map(|file| ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap())
        .map(Result::unwrap)
        .collect()
}

fn ints(trail: &Path, table: &str, column: &str) -> Vec<Option<i64>> {
    let of = |batch: &RecordBatch| {
        batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
    };
    batches(trail, table).iter().flat_map(of).collect()
}

fn texts(trail: &Path, table: &str, column: &str) -> Vec<Option<String>> {
    let of = |batch: &RecordBatch| {
        let column = batch.column_by_name(column).unwrap();
        match column.as_dictionary_opt::<Int32Type>() {
            Some(dictionary) => {
                let words = dictionary.values().as_string::<i32>();
                let text = |key: Option<usize>| key.map(|key| words.value(key).to_owned());
                dictionary.keys_iter().map(text).collect::<Vec<_>>()
            }
            None => column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect(),
        }
    };
    batches(trail, table).iter().flat_map(of).collect()
}

fn counts<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, i64> {
    let mut counts = BTreeMap::new();
    values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn each_record_is_a_row_with_what_it_names() {
    let (_folder, trail, sealed) = recorded(&["requests"]);
    let requests = 3 * EACH;
    assert_eq!(sealed.totals.records, 6 * requests as u64);
    assert_eq!(
        counts(texts(&trail, "service_op", "kind")),
        BTreeMap::from([(some("client"), requests), (some("server"), requests)])
    );
    assert_eq!(
        counts(texts(&trail, "service_op", "client")),
        BTreeMap::from([
            (None, requests),
            (some("client-0"), EACH),
            (some("client-1"), EACH),
            (some("client-2"), EACH)
        ])
    );
    assert_eq!(
        counts(texts(&trail, "service_op", "component")),
        BTreeMap::from([(some("head"), 2 * requests)])
    );
    let failed = 3 * (EACH / 2);
    assert_eq!(
        counts(ints(&trail, "service_op", "status")),
        BTreeMap::from([(Some(0), 2 * requests - failed), (Some(5), failed)])
    );
    // Crumbs are no one else's, positive, and in order.
    let crumbs = ints(&trail, "service_op", "crumb");
    assert_eq!(crumbs.iter().collect::<HashSet<_>>().len() as i64, 2 * requests);
    assert!(crumbs.iter().all(|crumb| crumb.is_some_and(|crumb| crumb > 0)));
    // A request's own calls have its breadcrumb, those after it have none.
    let of_calls: HashSet<_> =
        ints(&trail, "file_op", "crumb").into_iter().filter(|c| *c != Some(0)).collect();
    assert_eq!(of_calls.len() as i64, requests);
    assert!(of_calls.iter().all(|crumb| crumbs.contains(crumb)));
    let (crumb, pos) = (ints(&trail, "file_op", "crumb"), ints(&trail, "file_op", "pos"));
    assert!(
        crumb
            .iter()
            .zip(&pos)
            .all(|(crumb, pos)| pos.unwrap() == 0 || (*crumb == Some(0)) == (pos.unwrap() < 0))
    );

    assert_eq!(counts(texts(&trail, "stitch", "kind")), BTreeMap::from([(some("split"), requests)]));
    assert_eq!(counts(texts(&trail, "stitch", "parent_node")), BTreeMap::from([(some(NODE), requests)]));
    let parents: HashSet<_> = ints(&trail, "stitch", "parent_crumb").into_iter().collect();
    assert_eq!(parents, of_calls);
    assert_eq!(counts(ints(&trail, "network_transmit", "length")), BTreeMap::from([(Some(600), requests)]));
    assert_eq!(
        counts(texts(&trail, "network_transmit", "receiver")),
        BTreeMap::from([(some("storage-1"), requests)])
    );
    let (ts, issued, dur) =
        (ints(&trail, "disk_op", "ts"), ints(&trail, "disk_op", "issued"), ints(&trail, "disk_op", "dur"));
    assert!(
        (0..ts.len())
            .all(|at| ts[at] <= issued[at] && issued[at].unwrap() <= ts[at].unwrap() + dur[at].unwrap())
    );
    assert_eq!(counts(texts(&trail, "disk_op", "kind")), BTreeMap::from([(some("program"), requests)]));
    assert_eq!(counts(texts(&trail, "buffer_op", "cache")), BTreeMap::from([(some("blocks"), requests)]));
    assert_eq!(texts(&trail, "process", "role"), [some("head")]);
    assert_eq!(Snapshot::newest(&trail).unwrap().node.iter().collect::<Vec<_>>(), [NODE]);
    // Each request's time on its thread.
    let slices: HashSet<_> = ints(&trail, "cpu_slice", "crumb").into_iter().collect();
    assert_eq!(slices, of_calls);
}

#[test]
fn a_declared_type_is_a_table_and_a_different_one_of_its_name_is_refused() {
    let (_folder, trail, sealed) = recorded(&["declares", "declares otherwise"]);
    assert_eq!(sealed.totals.records, 2 * EACH as u64);
    let described = &Snapshot::newest(&trail).unwrap().tables["wide"];
    assert_eq!(described.meaning, "Ten columns.");
    assert_eq!((described.columns.len(), described.columns[5].unit.as_str()), (15, "ns"));
    let a: HashSet<_> = ints(&trail, "wide", "a").into_iter().collect();
    assert_eq!(a, (0..EACH).map(Some).collect());
    assert_eq!(counts(texts(&trail, "wide", "b")), BTreeMap::from([(some("some text"), EACH)]));
    assert_eq!(counts(texts(&trail, "wide", "g")), BTreeMap::from([(None, EACH)]));
    assert_eq!(counts(texts(&trail, "wide", "j")), BTreeMap::from([(some("some text"), EACH)]));
    assert_eq!(counts(ints(&trail, "wide", "d")), BTreeMap::from([(None, EACH)]));
    assert_eq!(counts(ints(&trail, "wide", "h")), BTreeMap::from([(Some(8), EACH)]));
    let halves: f64 = batches(&trail, "wide")
        .iter()
        .flat_map(|batch| batch.column_by_name("c").unwrap().as_primitive::<Float64Type>().values().to_vec())
        .sum();
    assert_eq!(halves, (EACH * (EACH - 1) / 2) as f64 / 2.0);
    assert_eq!(texts(&trail, "unseen", "kind"), [some("redeclared_type")]);
    assert_eq!(ints(&trail, "unseen", "amount"), [Some(1)]);
    // The table goes the ways of the others.
    let other = trail.with_file_name("merged.trail");
    assert_eq!(
        iotrail_trail::merge(std::slice::from_ref(&trail), &other, false).unwrap().rows("wide"),
        EACH as u64
    );
    assert_eq!(iotrail_trail::check(&other, false).unwrap().lost, 0);
    iotrail_trail::compact(&other, Duration::ZERO).unwrap();
    assert_eq!(ints(&other, "wide", "a").len() as i64, EACH);
}

#[test]
fn a_forked_child_knows_what_its_parent_named() {
    let (_folder, trail, _) = recorded(&["forks"]);
    assert_eq!(
        counts(texts(&trail, "service_op", "client")),
        BTreeMap::from([(None, 4), (some("before the fork"), 3), (some("in the child"), 1)])
    );
    assert_eq!(ints(&trail, "service_op", "crumb").into_iter().collect::<HashSet<_>>().len(), 8);
    assert_eq!(ints(&trail, "process", "pid").len(), 2);
}

#[test]
fn a_task_has_its_breadcrumb_only_while_it_is_polled() {
    let (_folder, trail, _) = recorded(&["polls"]);
    let (crumb, pos) = (ints(&trail, "file_op", "crumb"), ints(&trail, "file_op", "pos"));
    assert_eq!(pos, [0, 100, 1, 100, 2, 100, 3].map(Some));
    assert!(crumb.iter().zip(&pos).all(|(crumb, pos)| (*crumb == Some(0)) == (*pos == Some(100))));
    // the four polls, and where the task was made
    assert_eq!(texts(&trail, "cpu_slice", "kind"), vec![some("user"); 5]);
}

#[test]
fn time_on_a_cpu_is_not_time_that_passes() {
    let (_folder, trail, _) = recorded(&["waits and computes"]);
    let columns = ["ts", "dur", "cpu_ns"].map(|column| ints(&trail, "cpu_slice", column));
    let mut slices: Vec<[i64; 3]> =
        (0..columns[0].len()).map(|row| columns.each_ref().map(|column| column[row].unwrap())).collect();
    slices.sort_unstable();
    let [sleeps, computes, takes, _] = slices[..] else { panic!("{slices:?}") };
    assert!(sleeps[1] >= 200_000_000 && sleeps[2] < 20_000_000, "{sleeps:?}");
    assert!(computes[1] >= computes[2] && (50_000_000..60_000_000).contains(&computes[2]), "{computes:?}");
    assert!(takes[1] == takes[2] && (50_000_000..60_000_000).contains(&takes[2]), "{takes:?}");
}

#[test]
fn a_killed_recorder_and_program_lose_no_record_that_was_posted() {
    let folder = tempfile::tempdir().unwrap();
    let (trail, counter) = (folder.path().join("k.trail"), folder.path().join("counter"));
    std::fs::write(&counter, [0; 8]).unwrap();
    let posted = || u64::from_le_bytes(std::fs::read(&counter).unwrap().try_into().unwrap());
    let mut recorder = run_as("recorder", &[(TRAIL, &trail)]);
    let session = session_of(&trail);
    let mut program = run_as("endless", &[(SESSION_ENV, &session), (COUNTER, &counter)]);
    let mut wait = || {
        std::thread::sleep(Duration::from_millis(20));
        assert!(program.try_wait().unwrap().is_none() && recorder.try_wait().unwrap().is_none());
    };
    // Beyond the first journal, which is written after two seconds, so that names come from the carry.
    while !Snapshot::newest(&trail).is_ok_and(|snapshot| snapshot.rows("wide") > 0) {
        wait();
    }
    let then = posted();
    while posted() < then + 1000 {
        wait();
    }
    recorder.kill().unwrap();
    program.kill().unwrap();
    recorder.wait().unwrap();
    program.wait().unwrap();
    assert!(matches!(recover(&trail).unwrap(), Recovered::Added), "there was a session");
    let found = ["wide", "network_transmit"].map(|table| ints(&trail, table, "crumb").len() as u64);
    let (posted, lost) = (posted(), lost(&trail));
    // What found no room is counted, of both tables together. The last record of each may have been posted and not
    // yet counted by the program; of one under way when the program was killed, each of its two slots is counted.
    assert!(found.iter().all(|rows| *rows <= posted + 1), "{posted} posted, {found:?} found");
    let all = found.iter().sum::<u64>() + lost;
    assert!(
        (2 * posted..=2 * (posted + 1) + 1).contains(&all),
        "{posted} posted, {found:?} found, {lost} lost"
    );
    let named = texts(&trail, "network_transmit", "receiver");
    assert!(named.iter().all(|name| name.as_deref() == Some("storage-1")));
    assert!(!named.is_empty());
}
