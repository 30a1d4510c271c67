//! A sample of the requests of an OSD that is none: what is in it, and what it adds up to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use iotrail_agent::outbox::Outbox;
use iotrail_agent::source::Source as _;
use iotrail_agent::sources::ceph::Ceph;
use iotrail_agent::sources::ceph::sample::second_of;
use iotrail_agent::sources::ceph::settings::Collected;

use crate::daemons::{OSD, Played, at, source_of, tick};
use crate::requests::fixture;
use crate::rows::{Cell, Row, take};

const SECOND: i64 = 1_000_000_000;
/// 2026-11-21 in seconds since the epoch.
const DAY: i64 = 1_795_219_200;

/// A request at the OSD.
#[derive(Clone, Copy)]
struct Request {
    number: i64,
    /// ns since the epoch, in whole microseconds.
    arrived: i64,
    took: i64,
}

impl Request {
    fn is_slow(&self) -> bool {
        self.took >= SECOND
    }

    fn entry(&self) -> String {
        let time = |ts: i64| {
            let (seconds, us) = (ts / SECOND - DAY, ts % SECOND / 1_000);
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            format!("2026-11-21T{hours:02}:{minutes:02}:{seconds:02}.{us:06}+0000")
        };
        let events: Vec<String> = [
            ("initiated", 0),
            ("queued_for_pg", self.took / 10),
            ("started", self.took / 5),
            ("op_commit", self.took / 10 * 9),
            ("commit_sent", self.took),
            ("done", self.took),
        ]
        .iter()
        .map(|(event, after)| {
            let at = time(self.arrived + after / 1_000 * 1_000);
            format!(r#"{{"event":"{event}","time":"{at}","duration":0}}"#)
        })
        .collect();
        format!(
            r#"{{"description":"osd_op(client.7.0:{} 1.1 1:f:::x:head [write 0~4096] snapc 0=[] ondisk+write e1)","initiated_at":"{}","age":1,"duration":1,"type_data":{{"flag_point":"done","events":[{}]}}}}"#,
            self.number,
            time(self.arrived),
            events.join(",")
        )
    }
}

/// An OSD under a load, and an agent that looks at it each second.
struct Scene {
    played: Arc<Played>,
    source: Ceph,
    all: Vec<Request>,
    rows: HashMap<&'static str, Vec<Row>>,
    warnings: Vec<String>,
    second: i64,
    /// Seconds in which the OSD kept many requests, and since when it does; 0: it doesn't.
    kept: i64,
    keeps_since: i64,
    seed: u64,
    _folders: [tempfile::TempDir; 2],
}

impl Scene {
    fn new(seed: u64) -> Self {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let played = Played::new(&folders[0].path().join("x.asok"), "osd.0", OSD);
        let source = source_of(folders[0].path(), Some(folders[1].path().to_owned()), Collected::Sampled);
        let (all, rows, warnings) = (Vec::new(), HashMap::new(), Vec::new());
        let (second, kept, keeps_since) = (DAY + 3600, 0, 0);
        Self { played, source, all, rows, warnings, second, kept, keeps_since, seed, _folders: folders }
    }

    fn random(&mut self, below: i64) -> i64 {
        // Knuth, MMIX.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.seed >> 33) % below.unsigned_abs()) as i64
    }

    /// A second passes, with so many requests of 1 to 40 ms and those that are planted; then the agent looks.
    fn pass(&mut self, requests: i64, planted: &[i64]) {
        for place in 0..requests + planted.len() as i64 {
            let took = match usize::try_from(place - requests) {
                Ok(place) => planted[place],
                Err(_) => 1_000_000 + self.random(39_000) * 1_000,
            };
            let arrived = self.second * SECOND + self.random(1_000_000) * 1_000;
            self.all.push(Request { number: self.all.len() as i64, arrived, took });
        }
        self.second += 1;
        let now = self.second * SECOND + 300_000_000;
        let ended = |request: &&Request| request.arrived + request.took + 50_000_000 <= now;
        let list = |requests: &mut dyn Iterator<Item = &Request>| {
            let entries: Vec<String> = requests.map(Request::entry).collect();
            format!("{{\"size\":1,\"ops\":[{}]}}", entries.join(",")).into_bytes()
        };
        // As an OSD does: what ended while its history was short is gone, but for the last 20.
        let since = if self.keeps_since == 0 { i64::MAX } else { self.keeps_since };
        let kept = |request: &&Request| {
            now - request.arrived <= 6 * SECOND && request.arrived + request.took >= since
        };
        let before = self.all.iter().filter(ended).filter(|request| !kept(request)).rev().take(20);
        let mut shown: Vec<&Request> = before.chain(self.all.iter().filter(ended).filter(kept)).collect();
        shown.sort_by_key(|request| request.arrived);
        self.played.say("dump_historic_ops", list(&mut shown.into_iter()));
        let slow = |request: &&Request| request.is_slow();
        self.played.say("dump_historic_slow_ops", list(&mut self.all.iter().filter(ended).filter(slow)));
        let done: Vec<&Request> = self.all.iter().filter(ended).collect();
        let mut counters: serde_json::Value =
            serde_json::from_slice(&fixture("counters.osd.json")).expect("JSON");
        let took: i64 = done.iter().map(|request| request.took).sum();
        counters["osd"]["op"] = done.len().into();
        counters["osd"]["op_w_latency"]["avgcount"] = done.len().into();
        counters["osd"]["op_w_latency"]["sum"] = (took as f64 / 1e9).into();
        counters["osd"]["subop_w_latency"]["avgcount"] = 0.into();
        self.played.say("perf dump", serde_json::to_vec(&counters).expect("JSON"));
        // At the whole second: a tick's time is one.
        let (rows, warnings, dropped) = tick(&mut self.source, self.second);
        assert_eq!(dropped, 0);
        let sets = self.played.asked("config ");
        let size = sets.iter().rev().find(|set| set.contains("osd_op_history_size"));
        match size.map(String::as_str) {
            Some("config set osd_op_history_size 40000") if self.keeps_since == 0 => self.keeps_since = now,
            Some("config unset osd_op_history_size") => self.keeps_since = 0,
            _ => {}
        }
        self.kept += i64::from(self.keeps_since != 0);
        self.warnings.extend(warnings);
        for (table, more) in rows {
            self.rows.entry(table).or_default().extend(more);
        }
    }

    /// Weights of the requests that were told, by number.
    fn told(&self) -> BTreeMap<i64, Option<i64>> {
        let mut told = BTreeMap::new();
        for row in self.rows["service_op"].iter().filter(|row| row["kind"].text() == "server") {
            let weight = if row["weight"] == Cell::Null { None } else { Some(row["weight"].int()) };
            let other = told.insert(row["span"].int(), weight);
            assert!(other.is_none_or(|other| other == weight), "told with {other:?}, then with {weight:?}");
        }
        told
    }
}

#[test]
fn a_sample_is_whole_seconds_and_adds_up_to_all() {
    let minutes = 30;
    let mut scene = Scene::new(7);
    for second in 0..minutes * 60 {
        let requests = 20 + scene.random(21);
        // A spike that each full minute has.
        scene.pass(if second % 60 == 0 { 200 } else { requests }, &[]);
    }
    assert_eq!(scene.warnings, Vec::<String>::new(), "nothing is noticed");
    let told = scene.told();
    // The burst with which an agent begins, and one second of each minute; of what is near only what was under way.
    let in_second = |request: &Request| {
        let from = second_of(request.arrived / SECOND / 60);
        (from..from + SECOND).contains(&request.arrived)
    };
    let burst: Vec<i64> =
        told.iter().filter(|(_, weight)| weight.is_none()).map(|(number, _)| *number).collect();
    let began = scene.all[usize::try_from(burst[0]).expect("a number")].arrived / SECOND;
    let end = began + 10;
    let last = scene.all.last().expect("requests").arrived - 5 * SECOND;
    let (mut all, mut sum) = (0_i64, 0_i64);
    for request in
        scene.all.iter().filter(|request| request.arrived >= began * SECOND && request.arrived < last)
    {
        let weight = told.get(&request.number).copied();
        all += 1;
        sum += match weight {
            Some(weight) => weight.unwrap_or(1),
            None => 0,
        };
        if request.arrived / SECOND < end {
            assert_eq!(weight, Some(None), "in the burst");
        } else if in_second(request) {
            assert_eq!(weight, Some(Some(60)), "in a second that is collected");
        } else {
            assert!(weight.is_none_or(|weight| weight == Some(0)), "{weight:?}");
        }
    }
    let of_paths = told.values().filter(|weight| **weight == Some(0)).count();
    assert!(of_paths > 0 && of_paths < told.len() / 5, "{of_paths} of {}", told.len());
    // 30 seconds of 1,800, of a mean of 33 with a spread of 22: 60 * sqrt(30) * 22.
    let error = 60.0 * 30_f64.sqrt() * 22.0;
    assert!(((sum - all) as f64).abs() < 3.0 * error, "{sum} for {all}, error {error}");
    // Its settings were set once, but for the length of its history: it is long near what is collected.
    let size = |set: &String| set.contains("osd_op_history_size");
    let (sizes, others): (Vec<String>, Vec<String>) = scene
        .played
        .asked("config ")
        .into_iter()
        .filter(|set| set != "config show" && set != "config diff")
        .partition(size);
    assert_eq!(others.len(), 3, "{others:?}");
    assert!((2 * minutes..2 * minutes + 4).contains(&(sizes.len() as i64)), "{sizes:?}");
    assert!(sizes.iter().step_by(2).all(|set| set == "config set osd_op_history_size 40000"), "{sizes:?}");
    assert!(
        sizes.iter().skip(1).step_by(2).all(|set| set == "config unset osd_op_history_size"),
        "{sizes:?}"
    );
    assert!(scene.kept < minutes * 8, "{} s of {} min", scene.kept, minutes);
    // Counters say how many were not, the last time when the agent leaves.
    let mut out = Outbox::new("here");
    out.begin(at(scene.second + 1, 0));
    scene.source.leave(at(scene.second + 1, 0), &mut out);
    for (table, more) in take(&mut out) {
        scene.rows.entry(table).or_default().extend(more);
    }
    let told = scene.told();
    let unseen: i64 = scene.rows["unseen"].iter().map(|row| row["amount"].int()).sum();
    assert!(scene.rows["unseen"].iter().all(|row| row["kind"].text() == "requests_not_collected"));
    let counted = told.values().filter(|weight| **weight != Some(0)).count() as i64;
    let completed = scene.all.len() as i64;
    // All but those that had not ended, and what was there when it was looked at first.
    assert!(unseen + counted <= completed && unseen + counted >= completed - 300, "{unseen} + {counted}");
    assert!(scene.rows["unseen"].len() <= 6, "now and then");
}

#[test]
fn each_slow_request_is_there_complete() {
    let mut scene = Scene::new(11);
    for second in 0..400 {
        let planted: &[i64] = match second {
            77 => &[SECOND],
            78 => &[SECOND - 1_000],
            130 => &[4_200_000_000, 1_700_000_000],
            231 => &[30_000_000_000],
            _ => &[],
        };
        scene.pass(30, planted);
    }
    let told = scene.told();
    let slow: Vec<&Request> = scene.all.iter().filter(|request| request.is_slow()).collect();
    assert_eq!(slow.len(), 4);
    for request in slow {
        assert_eq!(told.get(&request.number), Some(&None), "{} ns", request.took);
        let rows = &scene.rows["service_op"];
        let server: Vec<&Row> = rows
            .iter()
            .filter(|row| row["kind"].text() == "server" && row["span"].int() == request.number)
            .collect();
        let [server] = server[..] else { panic!("once") };
        assert_eq!((server["ts"].int(), server["dur"].int()), (request.arrived, request.took));
        let events =
            rows.iter().filter(|row| row["kind"].text() == "event" && row["crumb"] == server["crumb"]);
        assert_eq!(events.count(), 2, "queued_for_pg and started");
        assert_eq!(scene.rows["disk_op"].iter().filter(|row| row["crumb"] == server["crumb"]).count(), 1);
    }
    // They were noticed, and all that came for 10 s after the first of them is there.
    let [notice] = &scene.warnings[..] else { panic!("{:?}", scene.warnings) };
    assert!(notice.starts_with("osd.0: it has slow requests"), "{notice}");
    let bursts: std::collections::BTreeSet<i64> = scene
        .all
        .iter()
        .filter(|request| !request.is_slow() && told.get(&request.number) == Some(&None))
        .map(|request| request.arrived / SECOND)
        .collect();
    assert_eq!(bursts.len(), 20, "the burst at the begin and this one: {bursts:?}");
}

#[test]
fn requests_that_take_much_longer_are_a_burst() {
    let mut scene = Scene::new(13);
    for _ in 0..120 {
        scene.pass(30, &[]);
    }
    assert_eq!(scene.warnings, Vec::<String>::new());
    for _ in 0..20 {
        scene.pass(0, &[400_000_000; 30]);
    }
    let [notice] = &scene.warnings[..] else { panic!("{:?}", scene.warnings) };
    assert!(notice.contains("take five times as long"), "{notice}");
}
