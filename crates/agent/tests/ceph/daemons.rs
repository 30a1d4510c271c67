//! Daemons that are none: a listener that answers as told, in the protocol of admin sockets.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use iotrail_agent::outbox::{Batches, Outbox};
use iotrail_agent::source::{Source as _, Tick};
use iotrail_agent::sources::ceph::settings::Collected;
use iotrail_agent::sources::ceph::socket::{Command, Conversation, Progress, SocketError, wait};
use iotrail_agent::sources::ceph::{Ceph, Options};

use crate::requests::fixture;
use crate::rows::{Row, take};

const SECOND: Duration = Duration::from_secs(1);

/// Listens, and lets `answer` do with each connection and its command what it likes.
fn listen(path: &Path, answer: impl Fn(UnixStream, serde_json::Value) + Send + Sync + 'static) {
    let listener = UnixListener::bind(path).expect("a socket");
    let answer = Arc::new(answer);
    spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            spawn(move || {
                let mut command = Vec::new();
                let mut byte = [0];
                while stream.read(&mut byte).is_ok_and(|n| n == 1) && byte[0] != 0 {
                    command.push(byte[0]);
                }
                if let Ok(command) = serde_json::from_slice(&command) {
                    answer(stream, command);
                }
            });
        }
    });
}

/// Sends a whole answer.
fn whole(mut stream: UnixStream, body: &[u8]) {
    let _ = stream.write_all(&u32::try_from(body.len()).expect("short").to_be_bytes());
    let _ = stream.write_all(body);
}

fn ask(path: &Path, streamed: bool, within: Duration) -> Result<Vec<u8>, SocketError> {
    let mut talk = Conversation::ask(path, &Command::new("status"), streamed, within)?;
    loop {
        match talk.advance()? {
            Progress::Waits => wait(std::iter::once(&talk), Duration::from_millis(20)),
            Progress::More => {}
            Progress::Done => return Ok(talk.body),
        }
    }
}

#[test]
fn answers_whole_slow_cut_endless_and_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);

    listen(&path("whole"), |stream, command| {
        whole(stream, command["prefix"].as_str().expect("text").as_bytes())
    });
    assert_eq!(ask(&path("whole"), false, SECOND).expect("an answer"), b"status");

    listen(&path("drips"), |mut stream, _| {
        for byte in [0_u8, 0, 0, 3, b'a', b'b', b'c'] {
            let _ = stream.write_all(&[byte]);
            sleep(Duration::from_millis(5));
        }
    });
    assert_eq!(ask(&path("drips"), false, SECOND).expect("an answer"), b"abc");

    listen(&path("empty"), |stream, _| whole(stream, b""));
    assert_eq!(ask(&path("empty"), false, SECOND).expect("an answer"), b"");

    listen(&path("hangs"), |_stream, _| sleep(10 * SECOND));
    let began = Instant::now();
    let error = ask(&path("hangs"), false, Duration::from_millis(200)).expect_err("late");
    assert!(matches!(error, SocketError::Late { .. }) && !error.is_gone(), "{error}");
    assert!(began.elapsed() < 5 * SECOND);

    listen(&path("vanishes"), |mut stream, _| drop(stream.write_all(&[0, 0, 1, 0, b'x'])));
    let error = ask(&path("vanishes"), false, SECOND).expect_err("cut");
    assert!(matches!(error, SocketError::Cut { left: 255, .. }), "{error}");

    listen(&path("shuts"), |stream, _| drop(stream));
    assert!(ask(&path("shuts"), false, SECOND).expect_err("cut").is_gone());

    listen(&path("huge"), |mut stream, _| {
        let _ = stream.write_all(&(1_u32 << 30).to_be_bytes());
        while stream.write_all(&[b' '; 1 << 16]).is_ok() {}
    });
    for streamed in [false, true] {
        let error = ask(&path("huge"), streamed, SECOND).expect_err("too long");
        assert!(error.to_string().contains("has 1073741824 bytes, expected at most"), "{error}");
    }

    assert!(ask(&path("nobody"), false, SECOND).expect_err("nobody").is_gone());
}

/// What a daemon is told to answer, and what it was asked.
#[derive(Default)]
pub struct Played {
    answers: Mutex<HashMap<String, Vec<u8>>>,
    asked: Mutex<Vec<String>>,
}

impl Played {
    pub fn new(path: &Path, name: &str, answers: &[(&str, &str)]) -> Arc<Self> {
        let played = Arc::new(Self::default());
        let config = format!(
            r#"{{"name":"{name}","fsid":"f00d","crush_location":"root=default rack=r1 host=n1","osd_data":"/nowhere","osd_fast_shutdown":"true"}}"#
        );
        played.say("config show", config.into_bytes());
        for (prefix, file) in answers {
            played.say(prefix, fixture(file));
        }
        let told = played.clone();
        listen(path, move |stream, command| {
            let text = |name: &str| command[name].as_str().unwrap_or_default().to_owned();
            let prefix = text("prefix");
            let value = command["val"][0].as_str().unwrap_or_default();
            let filter = command["filterstr"][0].as_str().unwrap_or_default();
            let asked = format!("{prefix} {} {value} {filter}", text("var"));
            told.asked.lock().expect("asked").push(asked.trim_end().to_owned());
            let answers = told.answers.lock().expect("answers");
            match answers.get(&prefix) {
                Some(_) if !filter.is_empty() => whole(stream, br#"{"ops":[]}"#),
                Some(answer) => whole(stream, answer),
                None if prefix.starts_with("config ") => whole(stream, br#"{"success":""}"#),
                None => whole(stream, b"ERROR: (22) Invalid argument\n"),
            }
        });
        played
    }

    pub fn say(&self, prefix: &str, answer: Vec<u8>) {
        self.answers.lock().expect("answers").insert(prefix.to_owned(), answer);
    }

    /// Refuses a command from now on.
    fn refuse(&self, prefix: &str) {
        self.say(prefix, b"ERROR: (22) Invalid argument\n".to_vec());
    }

    /// What it was asked, in order, since this was called last.
    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("asked"))
    }

    /// What it was asked whose command begins so.
    pub fn asked(&self, begin: &str) -> Vec<String> {
        let asked = self.asked.lock().expect("asked");
        asked.iter().filter(|asked| asked.starts_with(begin)).cloned().collect()
    }
}

pub const OSD: &[(&str, &str)] = &[
    ("status", "status.osd.json"),
    ("perf dump", "counters.osd.json"),
    ("perf histogram dump", "histogram.osd.json"),
    ("config diff", "diff.osd.json"),
    ("dump_historic_ops", "history.osd.0.json"),
    ("dump_historic_slow_ops", "history.osd.0.json"),
];

fn source(sockets: &Path, state: Option<PathBuf>) -> Ceph {
    source_of(sockets, state, Collected::All)
}

pub fn source_of(sockets: &Path, state: Option<PathBuf>, collected: Collected) -> Ceph {
    let sockets = vec![sockets.to_str().expect("text").to_owned()];
    let place = "h1".to_owned();
    Ceph::new(Options { sockets, state, place, collected, burst: Arc::default() }).expect("a source")
}

/// Ticks once, at a second.
pub fn tick(source: &mut Ceph, second: i64) -> (HashMap<&'static str, Vec<Row>>, Vec<String>, u64) {
    tick_after(source, second, u64::MAX)
}

/// So many rows are settled.
fn tick_after(
    source: &mut Ceph,
    second: i64,
    settled: u64,
) -> (HashMap<&'static str, Vec<Row>>, Vec<String>, u64) {
    let now = at(second, settled);
    let mut out = Outbox::new("here");
    out.begin(now);
    source.poll(now, &mut out);
    (take(&mut out), out.take_warnings().into_iter().collect(), out.take_dropped())
}

pub fn at(second: i64, settled: u64) -> Tick {
    let ns = 1_000_000_000;
    Tick { now: second * ns, before: (second > 1).then(|| (second - 1) * ns), from_wall: 0, settled }
}

fn samples(rows: &HashMap<&'static str, Vec<Row>>) -> BTreeMap<String, f64> {
    let Some(rows) = rows.get("node_sample") else { return BTreeMap::new() };
    rows.iter()
        .map(|row| {
            let crate::rows::Cell::Double(value) = row["value"] else { panic!("{row:?}") };
            let least = if row["least"] == crate::rows::Cell::Null {
                String::new()
            } else {
                format!(" {}", row["least"].int())
            };
            let key =
                format!("{} {} {}{least}", row["member"].text(), row["metric"].text(), row["name"].text());
            (key.trim_end().to_owned(), value)
        })
        .collect()
}

#[test]
fn an_osd_is_a_member_and_its_counters_grow() {
    let folder = tempfile::tempdir().expect("a folder");
    let played = Played::new(&folder.path().join("x.asok"), "osd.0", OSD);
    let mut source = source(folder.path(), None);
    let (rows, warnings, _) = tick(&mut source, 1);
    assert_eq!(warnings, Vec::<String>::new());
    let [member] = rows["member"].as_slice() else { panic!("one member") };
    for (column, value) in [("member", "osd.0"), ("role", "osd"), ("place", "r1/n1"), ("state", "up")] {
        assert_eq!(member[column].text(), value);
    }
    tick(&mut source, 2);
    let mut counters: serde_json::Value =
        serde_json::from_slice(&fixture("counters.osd.json")).expect("JSON");
    let more =
        |value: &mut serde_json::Value, by: u64| *value = (value.as_u64().expect("a count") + by).into();
    more(&mut counters["osd"]["op_w_latency"]["avgcount"], 3);
    let sum = counters["osd"]["op_w_latency"]["sum"].as_f64().expect("seconds");
    counters["osd"]["op_w_latency"]["sum"] = (sum + 0.006).into();
    more(&mut counters["osd"]["op_in_bytes"], 12_288);
    more(&mut counters["AsyncMessenger::Worker-1"]["msgr_recv_bytes"], 1_000);
    more(&mut counters["AsyncMessenger::Worker-0"]["msgr_recv_bytes"], 234);
    played.say("perf dump", serde_json::to_vec(&counters).expect("JSON"));
    let mut sizes: serde_json::Value = serde_json::from_slice(&fixture("histogram.osd.json")).expect("JSON");
    let row = &mut sizes["osd"]["op_w_latency_in_bytes_histogram"]["values"];
    more(&mut row[3][5], 2);
    more(&mut row[9][5], 1);
    played.say("perf histogram dump", serde_json::to_vec(&sizes).expect("JSON"));
    let (rows, ..) = tick(&mut source, 3);
    let samples_3 = samples(&rows);
    let of = |key: &str| samples_3.get(&format!("osd.0 {key}")).copied();
    assert_eq!(of("op write"), Some(3.0));
    assert!((of("op_time write").expect("time") - 6e6).abs() < 2.0);
    assert_eq!(of("op_bytes write"), Some(12_288.0));
    assert_eq!(of("message_in"), Some(1_234.0));
    assert_eq!(of("op read"), Some(0.0));
    assert_eq!(of("io_size write 4096"), Some(3.0));
    assert!(of("daemon_memory").is_some_and(|bytes| bytes > 0.0));
    assert!(of("space_used").is_some_and(|bytes| bytes > 0.0));

    // Counters that begin anew are no negative rate.
    played.say("perf dump", fixture("counters.osd.json"));
    assert!(samples(&tick(&mut source, 4).0).values().all(|value| *value >= 0.0));
    // Nothing was to be changed.
    assert_eq!(played.asked("config set"), Vec::<String>::new());
}

#[test]
fn settings_are_kept_changed_and_put_back() {
    let (folder, state) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let played = Played::new(&folder.path().join("x.asok"), "osd.0", OSD);
    let diff = r#"{"diff":{"osd_op_history_size":{"default":20,"override":77,"final":77}}}"#;
    played.say("config diff", diff.as_bytes().to_vec());
    let mut first = source(folder.path(), Some(state.path().to_owned()));
    // In both lists, told once.
    let writes = |rows: &HashMap<&'static str, Vec<Row>>| {
        rows.get("service_op")
            .map_or(0, |ops| ops.iter().filter(|op| op["client"].text() == "client.4226").count())
    };
    let mut told = 0;
    for second in 1..=3 {
        let (rows, warnings, dropped) = tick(&mut first, second);
        assert_eq!((warnings.len(), dropped), (0, 0), "{warnings:?}");
        told += writes(&rows);
    }
    assert_eq!(told, 1);
    let set = [
        "config set osd_op_history_size 40000",
        "config set osd_op_history_duration 60",
        "config set osd_op_history_slow_op_size 2000",
        "config set osd_op_history_slow_op_threshold 1",
    ];
    assert_eq!(played.asked("config set"), set);
    // Killed: the next one knows what was before, though now it is what the first one set.
    drop(first);
    played.say("config diff", br#"{"diff":{"osd_op_history_size":{"override":40000}}}"#.to_vec());
    let mut second = source(folder.path(), Some(state.path().to_owned()));
    for s in 1..=3 {
        let rows = tick(&mut second, s).0;
        told += writes(&rows);
    }
    assert_eq!(told, 2, "each agent tells the write, whose breadcrumb is the same");
    // What ended since the last tick is told before that.
    let history = String::from_utf8(fixture("history.osd.0.json")).expect("text");
    played.say("dump_historic_ops", history.replace("client.4226.0:2", "client.4226.0:3").into_bytes());
    let mut out = Outbox::new("here");
    out.begin(at(4, 0));
    second.leave(at(4, 0), &mut out);
    assert_eq!(writes(&take(&mut out)), 1);
    let unset = played.asked("config unset");
    assert_eq!(played.asked("config set").last().expect("set"), "config set osd_op_history_size 77");
    assert_eq!(unset.len(), 3, "{unset:?}");
    assert_eq!(std::fs::read_dir(state.path()).expect("a folder").count(), 0);
}

/// `config set` at an OSD in `OSD::shutdown` makes it and the thread that answers wait for each other for ever, unless it
/// ends at once.
#[test]
fn settings_of_an_osd_that_ends_slowly_are_changed_once() {
    for collected in [Collected::All, Collected::Sampled] {
        let (folder, state) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let played = Played::new(&folder.path().join("x.asok"), "osd.0", OSD);
        played.say("config show", br#"{"name":"osd.0","fsid":"f00d","osd_fast_shutdown":"false"}"#.to_vec());
        played.say("config diff", br#"{"diff":{}}"#.to_vec());
        let one = r#"{"description":"osd_repop_reply(client.1.0:1 1.1 e1/1 ondisk, result = 0)","initiated_at":"x","age":1},"#;
        let many = format!("{{\"ops\":[{}]}}", one.repeat(1_000).trim_end_matches(','));
        played.say("dump_historic_ops", many.clone().into_bytes());
        played.say("dump_historic_slow_ops", many.into_bytes());
        let mut watched = source_of(folder.path(), Some(state.path().to_owned()), collected);
        for second in 1..=90 {
            tick(&mut watched, second);
        }
        let duration = if collected == Collected::All { 15 } else { 6 };
        let set = [
            "config set osd_op_history_size 40000".to_owned(),
            format!("config set osd_op_history_duration {duration}"),
            "config set osd_op_history_slow_op_size 2000".to_owned(),
            "config set osd_op_history_slow_op_threshold 1".to_owned(),
        ];
        assert_eq!(played.asked("config set"), set);
        assert_eq!(played.asked("config unset"), Vec::<String>::new());
        assert!(!played.asked("dump_historic_ops").is_empty());
    }
}

/// `config set` at an OSD in `OSD::init` makes it and the thread that answers wait for each other for ever.
#[test]
fn a_daemon_that_starts_or_stops_is_asked_for_nothing_but_its_status() {
    let (folder, state) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let played = Played::new(&folder.path().join("x.asok"), "osd.0", OSD);
    let status = String::from_utf8(fixture("status.osd.json")).expect("text");
    let says = |state: &str| {
        let other = status.replace("\"state\":\"active\"", &format!("\"state\":\"{state}\""));
        played.say("status", other.into_bytes());
    };
    let mut second = 0;
    let mut ticks = |source: &mut Ceph, n: i64| {
        let mut all = Vec::new();
        for _ in 0..n {
            second += 1;
            let (rows, warnings, _) = tick(source, second);
            assert_eq!(warnings, Vec::<String>::new());
            all.extend(
                rows.into_iter().flat_map(|(table, rows)| rows.into_iter().map(move |row| (table, row))),
            );
        }
        all
    };
    let mut source = source(folder.path(), Some(state.path().to_owned()));
    // Before it knows the command. Whose socket it is, only its configuration says: this process is no ceph-osd.
    played.refuse("status");
    assert!(ticks(&mut source, 20).is_empty());
    assert_eq!(played.take_asked(), ["status", "config show"]);
    for state in ["initializing", "preboot", "booting", "waiting_for_healthy"] {
        says(state);
        sleep(Duration::from_millis(600));
        assert!(ticks(&mut source, 20).is_empty());
        let asked = played.take_asked();
        assert!(asked.len() <= 1 && asked.iter().all(|asked| asked == "status"), "{state}: {asked:?}");
    }
    says("active");
    sleep(Duration::from_secs(7));
    let rows = ticks(&mut source, 3);
    assert!(rows.iter().any(|(table, row)| *table == "member" && row["state"].text() == "up"));
    let asked = played.take_asked();
    assert_eq!(asked[..3], ["status", "config show", "config diff"]);
    assert_eq!(asked.iter().filter(|asked| asked.starts_with("config set")).count(), 4);
    assert!(asked.iter().any(|asked| asked == "perf dump"));
    // Each tick begins with the question whether it still is.
    says("stopping");
    let rows = ticks(&mut source, 20);
    assert_eq!(
        rows.iter().filter(|(table, row)| *table == "member" && row["state"].text() == "down").count(),
        1
    );
    assert_eq!(played.take_asked(), ["status"]);
    // What was changed isn't put back then, and known to the next agent.
    let mut out = Outbox::new("here");
    out.begin(at(100, 0));
    source.leave(at(100, 0), &mut out);
    let asked = played.take_asked();
    assert!(asked.iter().all(|asked| asked == "status"), "{asked:?}");
    assert!(state.path().join("ceph.json").exists());
}

#[test]
fn what_a_daemon_refused_is_not_asked_each_tick() {
    let folder = tempfile::tempdir().expect("a folder");
    // The user of a library knows no status; this one not even its counters.
    let user = Played::new(&folder.path().join("client.rados.asok"), "client.rados", &[]);
    let osd = Played::new(&folder.path().join("x.asok"), "osd.0", OSD);
    osd.refuse("perf histogram dump");
    let mut source = source(folder.path(), None);
    let mut said = Vec::new();
    for second in 1..=90 {
        said.extend(tick(&mut source, second).1);
    }
    assert_eq!(user.take_asked(), ["status", "config show", "perf dump"]);
    assert_eq!(osd.asked("perf histogram dump").len(), 1);
    assert_eq!(osd.asked("perf dump").len(), 89);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().all(|said| said.contains("asked again in a minute, then more rarely")), "{said:?}");
}

#[test]
fn what_began_before_history_was_on_is_not_told() {
    let (folder, state) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let played = Played::new(&folder.path().join("x.asok"), "osd.0", OSD);
    let history = String::from_utf8(fixture("history.osd.0.json")).expect("text");
    // Seconds since the epoch of 2026-11-21, a day after the fixture.
    let day = 1_795_219_200;
    let told = |source: &mut Ceph, second| {
        let (rows, warnings, dropped) = tick(source, second);
        assert_eq!((warnings.len(), dropped), (0, 0), "{warnings:?}");
        rows.get("service_op").map_or(0, |ops| ops.iter().filter(|op| op["kind"].text() == "server").count())
    };
    let mut first = source(folder.path(), Some(state.path().to_owned()));
    let before: usize = (0..5).map(|second| told(&mut first, day + second)).sum();
    assert_eq!(before, 0);
    // Killed: the next one goes on from where that one began.
    drop(first);
    let mut next = source(folder.path(), Some(state.path().to_owned()));
    // The list of slow requests still has what is too old.
    played.say("dump_historic_ops", history.replace("2026-11-20T", "2026-11-22T").into_bytes());
    let since: usize = (60..65).map(|second| told(&mut next, day + second)).sum();
    assert_eq!(since, 2);
    // One that leaves in peace forgets since when it told.
    let mut out = Outbox::new("here");
    out.begin(at(day + 65, 0));
    next.leave(at(day + 65, 0), &mut out);
    assert_eq!(std::fs::read_dir(state.path()).expect("a folder").count(), 0);
}

#[test]
fn a_full_history_is_said_and_made_larger() {
    let (folder, state) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let played = Played::new(&folder.path().join("x.asok"), "osd.0", OSD);
    let one = r#"{"description":"osd_repop_reply(client.1.0:1 1.1 e1/1 ondisk, result = 0)","initiated_at":"x","age":1},"#;
    let many = format!("{{\"ops\":[{}]}}", one.repeat(40_000).trim_end_matches(','));
    played.say("dump_historic_ops", many.into_bytes());
    // What was there before the first agent, which is killed, is nobody's loss.
    let mut first = source(folder.path(), Some(state.path().to_owned()));
    for second in 1..=4 {
        let (_, warnings, dropped) = tick_after(&mut first, second, 0);
        assert_eq!((warnings, dropped), (Vec::new(), 0));
    }
    drop(first);
    assert_eq!(
        played.asked("dump_historic_ops   192.0.2.1:0/0"),
        Vec::<String>::new(),
        "what isn't settled stays"
    );
    let mut next = source(folder.path(), Some(state.path().to_owned()));
    let (mut said, mut lost) = (Vec::new(), 0);
    for second in 1..=4 {
        let (_, warnings, dropped) = tick(&mut next, second);
        said.extend(warnings);
        lost += dropped;
    }
    assert!(
        said.iter().any(|said| said.contains("is full, so some are missing; it is made 80000")),
        "{said:?}"
    );
    assert!(lost > 0);
    let set = played.asked("config set");
    assert!(set.contains(&"config set osd_op_history_size 80000".to_owned()), "{set:?}");
    // And what was read is purged, by a duration that is soon what it was.
    let at = set.iter().position(|set| set == "config set osd_op_history_duration 3").expect("purged");
    assert!(set[at..].contains(&"config set osd_op_history_duration 60".to_owned()), "{set:?}");
    assert!(!played.asked("dump_historic_ops   192.0.2.1:0/0").is_empty());
}

#[test]
fn one_that_hangs_holds_up_no_other_and_one_that_goes_is_down() {
    let folder = tempfile::tempdir().expect("a folder");
    listen(&folder.path().join("a.asok"), |_stream, _| sleep(30 * SECOND));
    listen(&folder.path().join("garbage.asok"), |stream, _| whole(stream, b"\xff\xfe{\"name\":"));
    Played::new(&folder.path().join("z.asok"), "osd.0", OSD);
    let mut source = source(folder.path(), None);
    let mut warned = Vec::new();
    for second in 1..=3 {
        let began = Instant::now();
        let (rows, warnings, _) = tick(&mut source, second);
        assert!(began.elapsed() < 3 * SECOND);
        assert!(rows.contains_key("node_sample") || second == 1, "tick {second}");
        warned.extend(warnings);
    }
    assert!(
        warned.iter().any(|said| said.contains("garbage.asok") && said.contains("not what Ceph says")),
        "{warned:?}"
    );
    std::fs::remove_file(folder.path().join("z.asok")).expect("removed");
    let (rows, ..) = tick(&mut source, 4);
    let member = rows["member"].last().expect("a change");
    assert_eq!((member["member"].text(), member["state"].text()), ("osd.0", "down"));
    assert!(!tick(&mut source, 5).0.contains_key("member"), "it is said once");
}

#[test]
fn a_client_has_its_name_once_the_cluster_has_let_it_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = [("status", "status.client.json"), ("perf dump", "counters.client.json")];
    let played = Played::new(&folder.path().join("client.admin.7.asok"), "client.admin", &client);
    let status = String::from_utf8(fixture("status.client.json")).expect("text");
    let early = status.replace("\"id\":4394", "\"id\":0");
    assert_ne!(early, status);
    played.say("status", early.into_bytes());
    let mut source = source(folder.path(), None);
    for second in 1..=2 {
        assert!(!tick(&mut source, second).0.contains_key("member"));
    }
    played.say("status", status.into_bytes());
    assert_eq!(tick(&mut source, 3).0["member"][0]["member"].text(), "client.4394");
}

#[test]
fn clients_and_mdss() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = [("status", "status.client.json"), ("perf dump", "counters.client.json")];
    let fuse = Played::new(&folder.path().join("client.admin.7.asok"), "client.admin", &client);
    Played::new(&folder.path().join("client.rados.asok"), "client.rados", &client[1..]);
    let mds = [("status", "status.mds.json"), ("perf dump", "counters.mds.json")];
    Played::new(&folder.path().join("m.asok"), "mds.m2", &mds);
    let mut source = source(folder.path(), None);
    let (rows, warnings, _) = tick(&mut source, 1);
    assert_eq!(warnings, Vec::<String>::new());
    let members: BTreeMap<&str, &Row> =
        rows["member"].iter().map(|row| (row["member"].text(), row)).collect();
    assert_eq!(members["client.4394"]["detail"].text(), "mounted at /mnt/ceph");
    assert_eq!(members["mds.m2"]["detail"].text(), "rank 0 of cephfs");
    let library = format!("client.rados.{}", std::process::id());
    assert!(members.contains_key(library.as_str()), "{members:?}");
    tick(&mut source, 2);
    let text = String::from_utf8(fixture("counters.client.json")).expect("text");
    let dirty = text
        .replace("\"data_written\":0", "\"data_written\":8192")
        .replace("\"cache_ops_hit\":0", "\"cache_ops_hit\":7");
    assert_ne!(text, dirty);
    fuse.say("perf dump", dirty.into_bytes());
    let samples = samples(&tick(&mut source, 3).0);
    assert_eq!(samples["client.4394 cache_dirty"], 8192.0);
    assert_eq!(samples["client.4394 cache_hit"], 7.0);
    assert_eq!(samples["mds.m2 op create"], 0.0);
    assert!(samples.contains_key("mds.m2 journal_flush") && samples.contains_key("mds.m2 inodes"));
    std::fs::remove_file(folder.path().join("client.admin.7.asok")).expect("removed");
    let (rows, ..) = tick(&mut source, 4);
    assert_eq!(rows["member"].last().expect("a change")["state"].text(), "left");
}

#[test]
fn a_long_history_is_handed_over_in_parts() {
    let (folder, state) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let played = Played::new(&folder.path().join("x.asok"), "osd.0", OSD);
    let events: String =
        ["initiated", "dispatched", "queued_for_pg", "reached_pg", "started", "commit_sent", "done"]
            .iter()
            .map(|event| {
                format!(r#"{{"event":"{event}","time":"2026-11-20T22:55:00.426797+0000","duration":0.1}},"#)
            })
            .collect();
    let entries: Vec<String> = (0..19_000)
        .map(|tid| {
            format!(
                r#"{{"description":"osd_repop(client.1.0:{tid} 1.1 e1/1 1:f:::x:head v 1'1, mlcod=1'1)","initiated_at":"2026-11-20T22:55:00.426797+0000","age":1,"duration":1,"type_data":{{"flag_point":"x","events":[{}]}}}}"#,
                events.trim_end_matches(',')
            )
        })
        .collect();
    played
        .say("dump_historic_ops", format!("{{\"size\":20000,\"ops\":[{}]}}", entries.join(",")).into_bytes());
    played.say("dump_historic_slow_ops", b"{\"ops\":[]}".to_vec());
    let mut source = source(folder.path(), Some(state.path().to_owned()));
    let parts = Rc::new(RefCell::new(Vec::new()));
    let mut out = Outbox::with_hand_over("here", {
        let parts = parts.clone();
        move |batches| parts.borrow_mut().push(batches)
    });
    for second in 1..=6 {
        out.begin(at(second, 0));
        source.poll(at(second, 0), &mut out);
        assert!(out.rows() < 60_000, "{} rows at the end of a tick", out.rows());
        assert_eq!((out.take_warnings().len(), out.take_dropped()), (0, 0));
        parts.borrow_mut().push(out.take());
    }
    let parts = parts.take();
    let rows = |part: &Batches| part.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>();
    assert!(parts.iter().all(|part| rows(part) < 60_000));
    assert_eq!(out.said(), parts.iter().map(|part| rows(part) as u64).sum::<u64>());
    let ops: usize = parts
        .iter()
        .flatten()
        .filter(|(table, _)| table.name == "service_op")
        .map(|(_, b)| b.num_rows())
        .sum();
    // One served, and four moments within each.
    assert_eq!(ops, 19_000 * 5);
}
