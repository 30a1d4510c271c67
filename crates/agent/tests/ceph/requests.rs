//! Histories that daemons printed, as rows. The large ones are a benchmark of 4,626 replicated writes, which is not
//! in the repository.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use iotrail_agent::outbox::Outbox;
use iotrail_agent::source::Tick;
use iotrail_agent::sources::ceph::history::{History, Round};
use iotrail_agent::sources::ceph::requests::{Requests, Teller};

use crate::rows::{Cell, Row, take};

pub fn fixture(name: &str) -> Vec<u8> {
    let path =
        Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/fixtures/ceph").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn requests(member: &str) -> Requests {
    let (fsid, fs) = ("f00d".to_owned(), "cephfs".to_owned());
    Requests::new(Teller { member: member.to_owned(), fsid, fs, thread: 7 })
}

fn outbox() -> Outbox {
    let mut out = Outbox::new("here");
    out.begin(Tick { now: 2, before: Some(1), from_wall: 0, settled: 0 });
    out
}

fn read(history: &mut History, requests: &mut Requests, dump: &[u8], out: &mut Outbox) -> Round {
    let mut body = Vec::new();
    for chunk in dump.chunks(100_000) {
        body.extend_from_slice(chunk);
        assert_eq!(history.read(&mut body, false, requests, out), None);
    }
    history.read(&mut body, true, requests, out).expect("the end");
    history.end(2, true).0
}

fn told(member: &str, name: &str) -> HashMap<&'static str, Vec<Row>> {
    let mut out = outbox();
    let round = read(&mut History::default(), &mut requests(member), &fixture(name), &mut out);
    assert_eq!(round.lost, 0);
    take(&mut out)
}

fn ops<'a>(rows: &'a HashMap<&'static str, Vec<Row>>, kind: &str, op: &str) -> Vec<&'a Row> {
    rows["service_op"].iter().filter(|row| row["kind"].text() == kind && row["op"].text() == op).collect()
}

#[test]
fn a_write_and_its_replica_are_joined() {
    let primary = told("osd.0", "history.osd.0.json");
    let [write] = ops(&primary, "server", "write")[..] else { panic!("one write") };
    assert_eq!(write["client"], Cell::Text("client.4226".into()));
    assert_eq!((write["pos"].int(), write["length"].int(), write["span"].int()), (0, 4096, 2));
    assert!(write["dur"].int() > 0);
    let path = primary["file"].iter().find(|row| row["file"] == write["file"]).expect("its object");
    assert!(path["path"].text().starts_with("1/benchmark_data_"), "{path:?}");

    // Both calls are parts of it, begin within it and end before the reply.
    let calls: Vec<_> =
        ops(&primary, "client", "repop").into_iter().filter(|call| call["length"].int() == 4096).collect();
    assert_eq!(calls.len(), 2);
    let stitches = |kind: &str, parent: &Cell| -> Vec<&Row> {
        primary["stitch"]
            .iter()
            .filter(|s| s["kind"].text() == kind && s["parent_crumb"] == *parent)
            .collect()
    };
    assert_eq!(stitches("split", &write["crumb"]).len(), 2);
    let end = |row: &Row| row["ts"].int() + row["dur"].int();
    for call in &calls {
        assert!(call["ts"].int() > write["ts"].int() && end(call) <= end(write));
    }

    // One of them is the replica's own record.
    let replica = told("osd.1", "history.osd.1.json");
    let [repop] = ops(&replica, "server", "repop")[..] else { panic!("one replica") };
    assert_eq!(repop["client"], Cell::Null);
    let to: Vec<&Row> = calls.iter().flat_map(|call| stitches("rpc", &call["crumb"])).collect();
    let nodes: HashSet<&str> = to.iter().map(|stitch| stitch["node"].text()).collect();
    assert_eq!(nodes, HashSet::from(["@osd.1", "@osd.2"]));
    assert!(to.iter().any(|s| s["node"].text() == "@osd.1" && s["crumb"] == repop["crumb"]));
    assert_eq!(repop["file"], write["file"]);

    // Each got the bytes over the network; the store has them until they are durable, before the reply.
    let sent: Vec<&Row> = primary["network_transmit"].iter().filter(|t| t["length"].int() == 4096).collect();
    assert_eq!(sent.len(), 2);
    for call in &calls {
        let [to] = sent.iter().filter(|t| t["crumb"] == call["crumb"]).collect::<Vec<_>>()[..] else {
            panic!("one message a call: {sent:?}")
        };
        assert_eq!(to["sender"].text(), "osd.0");
        assert!(["osd.1", "osd.2"].contains(&to["receiver"].text()));
    }
    for (rows, request, length) in [(&primary, write, Cell::Int(4096)), (&replica, repop, Cell::Null)] {
        let stored: Vec<&Row> = rows["disk_op"].iter().filter(|d| d["crumb"] == request["crumb"]).collect();
        let [stored] = stored[..] else { panic!("the store's work once") };
        assert_eq!((stored["op"].text(), &stored["length"]), ("write", &length));
        assert!(stored["ts"].int() > request["ts"].int() && end(stored) <= end(request));
    }

    for event in ["dispatched", "queued_for_pg", "reached_pg", "started"] {
        let at = ops(&primary, "event", event);
        assert!(at.iter().any(|row| row["crumb"] == write["crumb"] && row["dur"] == Cell::Int(0)), "{event}");
    }
}

/// An entry with events at milliseconds of a second.
fn entry(description: &str, events: &[(&str, i64)]) -> String {
    let events: Vec<String> = events
        .iter()
        .map(|(name, ms)| {
            format!(r#"{{"event":"{name}","time":"2026-11-20T22:55:00.{ms:03}000+0000","duration":0}}"#)
        })
        .collect();
    format!(
        r#"{{"ops":[{{"description":"{description}","age":1,"type_data":{{"events":[{}]}}}}]}}"#,
        events.join(",")
    )
}

fn told_entry(member: &str, entry: &str) -> HashMap<&'static str, Vec<Row>> {
    let mut out = outbox();
    let round = read(&mut History::default(), &mut requests(member), entry.as_bytes(), &mut out);
    assert_eq!((round.told, round.lost), (1, 0));
    take(&mut out)
}

const WRITE: &str =
    "osd_op(client.1.0:2 1.1f 1:fd93604e:::name:head [write 0~4096] snapc 0=[] ondisk+write e15)";
const PART: &str = "osd_repop(client.1.0:2 1.1f e15/12 1:fd93604e:::name:head v 15'295, mlcod=15'293)";

#[test]
fn a_write_that_a_change_of_placement_stopped_failed_and_is_another_than_its_repetition() {
    let begun = [("initiated", 0), ("started", 1), ("waiting for subops from 1,2", 2)];
    let stopped = told_entry("osd.0", &entry(WRITE, &[&begun[..], &[("done", 9)]].concat()));
    let [write] = ops(&stopped, "server", "write")[..] else { panic!("one write") };
    assert_eq!((write["dur"].int(), write["status"].int()), (9_000_000, i64::from(libc::ECANCELED)));
    for call in ops(&stopped, "client", "repop") {
        assert_eq!((&call["dur"], &call["status"]), (&Cell::Null, &Cell::Null));
    }
    // A replica that doesn't take part any more leaves it too; repeated there, it is a request of its own.
    let part = told_entry("osd.2", &entry(PART, &[("initiated", 3), ("done", 4)]));
    let [part] = ops(&part, "server", "repop")[..] else { panic!("one part") };
    assert_eq!(part["status"].int(), i64::from(libc::ECANCELED));
    let again = told_entry("osd.2", &entry(WRITE, &[("initiated", 8), ("commit_sent", 9)]));
    let [again] = ops(&again, "server", "write")[..] else { panic!("one write") };
    assert_eq!(again["status"].int(), 0);
    assert_ne!(again["crumb"], part["crumb"]);
    assert!(stopped["stitch"].iter().any(|s| s["node"].text() == "@osd.2" && s["crumb"] == part["crumb"]));

    // Begun anew by the same primary it calls again: each replica once, the one that is left out without an answer.
    let anew =
        [("waiting for subops from 1", 5), ("sub_op_commit_rec", 7), ("op_commit", 7), ("commit_sent", 8)];
    let rows = told_entry("osd.0", &entry(WRITE, &[&begun[..], &anew].concat()));
    let [write] = ops(&rows, "server", "write")[..] else { panic!("one write") };
    assert_eq!(write["status"].int(), 0);
    let calls: Vec<_> = ops(&rows, "client", "repop").iter().map(|call| call["dur"].clone()).collect();
    assert_eq!(calls, [Cell::Int(2_000_000), Cell::Null]);
    assert_eq!(rows["network_transmit"].len(), 2);
    // A read says nothing but that it is done.
    let read =
        told_entry("osd.0", &entry(&WRITE.replace("write 0", "read 0"), &[("initiated", 1), ("done", 2)]));
    assert_eq!(ops(&read, "server", "read")[0]["status"].int(), 0);
}

#[test]
fn what_was_taken_is_not_taken_again() {
    let dump = fixture("history.osd.0.json");
    let (mut history, mut requests, mut out) = (History::default(), requests("osd.0"), outbox());
    let first = read(&mut history, &mut requests, &dump, &mut out);
    assert!(first.told >= 2);
    assert_eq!(first.sums.replica_out, 2 * (4096 + 90));
    assert_eq!((first.sums.small.0, first.sums.large.0), (1, 1));
    let rows = out.take();
    assert!(!rows.is_empty());
    // Ages grow.
    let aged = String::from_utf8(dump).expect("text").replace("\"age\":", "\"age\":1");
    let again = read(&mut history, &mut requests, aged.as_bytes(), &mut out);
    assert_eq!((again.found, again.told), (first.found, 0));
    assert!(out.take().is_empty());
}

#[test]
fn forwards_peers_and_own_work_of_mdss() {
    let (m1, m2) = (told("mds.m1", "history.mds.m1.json"), told("mds.m2", "history.mds.m2.json"));
    let creates = |rows| -> Vec<Row> { ops(rows, "server", "create").into_iter().cloned().collect() };
    let (forwarded, served) = (creates(&m1), creates(&m2));
    // m1 had it twice, and forwarded it each time; m2 served it.
    assert_eq!((forwarded.len(), served.len()), (2, 1));
    let parent = |rows: &HashMap<&'static str, Vec<Row>>, child: &Row| -> Option<Cell> {
        let stitch = rows.get("stitch")?.iter().find(|stitch| stitch["crumb"] == child["crumb"])?;
        assert_eq!((stitch["kind"].text(), stitch["parent_node"].text()), ("rpc", ""));
        Some(stitch["parent_crumb"].clone())
    };
    let (first, second) = (&forwarded[0], &forwarded[1]);
    assert_eq!(parent(&m1, first), None);
    assert_eq!(parent(&m1, second), Some(first["crumb"].clone()));
    assert_eq!(parent(&m2, &served[0]), Some(second["crumb"].clone()));
    assert_eq!(ops(&m1, "event", "forward").len(), forwarded.len());

    // The reply is early, the journal's end after it.
    let create = &served[0];
    let journal = ops(&m2, "internal", "journal");
    let journal =
        journal.iter().find(|row| row["crumb"] == create["crumb"]).expect("its event in the journal");
    let end = |row: &Row| row["ts"].int() + row["dur"].int();
    assert!(end(create) < end(journal));
    assert_eq!(create["client"], Cell::Text("client.4402".into()));

    let [rename] = ops(&m2, "server", "rename")[..] else { panic!("one rename") };
    let [peer] = ops(&m1, "server", "peer_request")[..] else { panic!("one peer") };
    assert_eq!(parent(&m1, peer), Some(rename["crumb"].clone()));
    assert_eq!(ops(&m2, "internal", "exportdir").len(), 1);
}

/// Compact, as daemons print when asked for `json`; samples were kept as `json-pretty`.
fn compact(pretty: &[u8]) -> Vec<u8> {
    let (mut text, mut inside, mut escaped) = (Vec::with_capacity(pretty.len() / 2), false, false);
    for &c in pretty {
        if inside {
            inside = escaped || c != b'"';
            escaped = !escaped && c == b'\\';
        } else {
            inside = c == b'"';
        }
        if inside || !c.is_ascii_whitespace() {
            text.push(c);
        }
    }
    text
}

fn sample(name: &str) -> Option<Vec<u8>> {
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let places = [std::env::var_os("IOTRAIL_SHARED").map(PathBuf::from), Some(root.join("../shared"))];
    let path =
        places.into_iter().flatten().map(|p| p.join("ceph/samples").join(name)).find(|p| p.exists())?;
    let mut text = Vec::new();
    GzDecoder::new(File::open(path).expect(name)).read_to_end(&mut text).expect(name);
    Some(compact(&text))
}

#[test]
fn every_write_of_a_benchmark_is_joined_with_its_replicas() {
    let mut primaries = Vec::new();
    let mut calls: HashMap<i64, (i64, String)> = HashMap::new();
    let mut replicas: HashSet<(String, i64)> = HashSet::new();
    for osd in 0..3 {
        let Some(dump) = sample(&format!("hist-4k.osd.{osd}.json.gz")) else {
            eprintln!("skipped: no shared/ceph/samples beside the repository");
            return;
        };
        let (member, mut out) = (format!("osd.{osd}"), outbox());
        let round = read(&mut History::default(), &mut requests(&member), &dump, &mut out);
        assert_eq!(round.lost, 0);
        let rows = take(&mut out);
        for row in rows["service_op"].iter().filter(|row| row["kind"].text() == "server") {
            if row["op"].text() == "repop" {
                assert!(replicas.insert((format!("@{member}"), row["crumb"].int())), "twice: {row:?}");
            } else {
                primaries.push((row["crumb"].int(), row["client"].text().to_owned()));
            }
        }
        let parts: HashMap<i64, i64> = rows["stitch"]
            .iter()
            .filter(|row| row["kind"].text() == "split")
            .map(|row| (row["crumb"].int(), row["parent_crumb"].int()))
            .collect();
        for row in rows["stitch"].iter().filter(|row| row["kind"].text() == "rpc") {
            let primary = parts[&row["parent_crumb"].int()];
            calls.insert(row["crumb"].int(), (primary, row["node"].text().to_owned()));
        }
    }
    assert_eq!(primaries.iter().filter(|(_, client)| client.starts_with("client.")).count(), 4_626);
    assert_eq!(primaries.iter().filter(|(_, client)| client.starts_with("mds.")).count(), 5);
    assert_eq!(replicas.len(), 9_262);
    // Each client's write has both its replicas' own records; of the MDSs' some lie outside of the dumps.
    let mut joined: HashMap<i64, usize> = HashMap::new();
    for (crumb, (primary, node)) in calls {
        *joined.entry(primary).or_default() += usize::from(replicas.contains(&(node, crumb)));
    }
    let of_clients: Vec<usize> = primaries
        .iter()
        .filter(|(_, client)| client.starts_with("client."))
        .map(|(crumb, _)| joined[crumb])
        .collect();
    assert_eq!(of_clients, vec![2; 4_626]);
}

#[test]
fn metadata_operations_of_a_benchmark() {
    let Some(dump) = sample("hist.mds.m1.json.gz") else {
        eprintln!("skipped: no shared/ceph/samples beside the repository");
        return;
    };
    let mut out = outbox();
    let round = read(&mut History::default(), &mut requests("mds.m1"), &dump, &mut out);
    assert_eq!((round.found, round.told, round.lost), (452, 452, 0));
    let rows = take(&mut out);
    let counts: Vec<usize> = ["create", "getattr", "lookup", "mkdir", "readdir"]
        .map(|op| ops(&rows, "server", op).len())
        .into_iter()
        .collect();
    assert_eq!(counts, [402, 36, 6, 4, 4]);
    assert_eq!(ops(&rows, "internal", "journal").len(), 406);
}
