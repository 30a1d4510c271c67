//! What was acknowledged is in the trail once, whatever is killed when.

use std::time::Duration;

use crate::support::{Collector, Config, column, now, requests, requests_of_long_name, rows, rows_of};
use iotrail_format::schema::{MEMBER, SERVICE_OP, STITCH};
use iotrail_trail::arrays::Value;

/// Agents send while the collector is killed again and again, and send again what wasn't answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_time_it_has_each_row_once() {
    const AGENTS: u64 = 4;
    const MESSAGES: u64 = 120;
    const ROWS: i64 = 7;
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config::new(folder.path());
    let mut collector = Collector::start(&config);
    // The others are started on the port of the first.
    config.listen = collector.address.to_string();
    let address = collector.address;
    let agents: Vec<_> = (0..AGENTS)
        .map(|agent| {
            tokio::spawn(async move {
                let mut next = 1;
                while next <= MESSAGES {
                    let channel = tonic::transport::Channel::from_shared(format!("http://{address}"));
                    let Ok(channel) = channel.expect("an address").connect().await else {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    };
                    let mut client = crate::support::Client::over(channel, &format!("agent-{agent}"));
                    let until = (next + 10).min(MESSAGES + 1);
                    let first = |number: u64| ((agent * MESSAGES + number) as i64) * ROWS + 1;
                    let batches = (next..until).map(|number| requests(first(number), ROWS)).collect();
                    let (answered, _) = client.put("service_op", next, batches).await;
                    next = answered.last().map_or(next, |last| last + 1);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        })
        .collect();
    for round in 0..5 {
        tokio::time::sleep(Duration::from_millis(130 + 90 * round)).await;
        collector.kill();
        collector = Collector::start(&config);
    }
    for agent in agents {
        agent.await.expect("an agent that is answered at last");
    }
    assert!(collector.end());
    let crumbs = column(&config.trail, &SERVICE_OP, "crumb");
    assert_eq!(crumbs.len() as u64, AGENTS * MESSAGES * ROWS as u64);
    let mut distinct = crumbs.clone();
    distinct.dedup();
    assert_eq!(distinct.len(), crumbs.len());
}

/// A history is read anew by a restarted agent: other numbers, another name, the same rows; the collector was killed
/// before, once with the rows in its log, once with them sealed.
#[tokio::test]
async fn what_comes_again_is_taken_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config::new(folder.path());
    config.seal_ms = 60_000;
    let rows = requests(1, 101);
    for (round, seal) in [false, true, false].into_iter().enumerate() {
        let collector = Collector::start(&config);
        let mut client = collector.client(&format!("agent-{round}")).await;
        client.repeats = true;
        let (answered, ended) = client.put("service_op", 1, vec![rows.clone(), rows.slice(0, 50)]).await;
        assert_eq!((answered, ended.is_ok()), (vec![1, 2], true));
        if seal {
            collector.seal().await;
        }
        // Of the second message at least, and of the first too if it came before.
        let expected = if round == 0 { 50.0 } else { 151.0 };
        while collector.metric("iotrail_collector_duplicates_total").await < expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        collector.kill();
    }
    let collector = Collector::start(&config);
    collector.seal().await;
    assert_eq!(collector.rows("service_op"), 101);
    assert!(collector.end());
}

/// Machines that a sender didn't know are put in, also of rows that waited over a crash.
#[tokio::test]
async fn members_and_parents_are_looked_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config::new(folder.path());
    let stitch = |crumb: i64, parent_node: &str, parent: i64, node: &str| {
        rows_of(
            &STITCH,
            &[&[
                ("ts", now().into()),
                ("crumb", crumb.into()),
                ("node", node.into()),
                ("parent_node", parent_node.into()),
                ("parent_crumb", parent.into()),
                ("kind", "rpc".into()),
            ]],
        )
    };
    let collector = Collector::start(&config);
    let mut client = collector.client("a").await;
    client.repeats = true;
    let batches = vec![
        stitch(10, "@osd.1", 1, "n-a"),
        stitch(11, "", 2, "n-a"),
        stitch(12, "", 3, "@osd.1"),
        stitch(13, "n-z", 4, "n-a"),
    ];
    assert_eq!(client.put("stitch", 1, batches).await.0, [1, 2, 3, 4]);
    // What is known is there soon; the others wait, over a crash too.
    while collector.rows("stitch") == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(collector.rows("stitch"), 1);
    collector.kill();
    let collector = Collector::start(&config);
    let mut client = collector.client("a").await;
    client.repeats = true;
    let member = |node: &str, process: Value| {
        rows_of(
            &MEMBER,
            &[&[
                ("ts", now().into()),
                ("node", node.into()),
                ("process", process),
                ("member", "osd.1".into()),
                ("role", "osd".into()),
                ("state", "up".into()),
            ]],
        )
    };
    // Its own word counts, and not that of one who sees it from afar.
    let members = vec![member("n-b", 7.into()), member("n-mon", Value::Null)];
    assert_eq!(client.put("member", 1, members).await.0, [1, 2]);
    assert_eq!(client.put("service_op", 1, vec![requests(2, 1)]).await.0, [1]);
    let waits = std::time::Instant::now();
    while rows(&config.trail, "stitch") < 4 {
        assert!(waits.elapsed() < Duration::from_secs(300), "the last waits for 10 s");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(column(&config.trail, &STITCH, "crumb"), ["10", "11", "12", "13"]);
    assert_eq!(column(&config.trail, &STITCH, "parent_node"), ["", "n-b", "n-z", "node-1"]);
    assert_eq!(column(&config.trail, &STITCH, "node"), ["n-a", "n-a", "n-a", "n-b"]);
    assert!(collector.end());
}

/// Without space nothing is acknowledged and nothing lost; with space it goes on.
#[tokio::test]
async fn without_space_it_refuses_and_goes_on_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = std::ffi::CString::new(folder.path().to_str().expect("text")).expect("no NUL");
    // SAFETY: all are texts that end in NUL.
    let mounted = unsafe {
        libc::mount(c"tmpfs".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, c"size=6m".as_ptr().cast())
    };
    if mounted != 0 {
        eprintln!("skipped: mounting a small tmpfs needs root");
        return;
    }
    let mut config = Config::new(folder.path());
    config.seal_ms = 60_000;
    let collector = Collector::start(&config);
    let ballast = folder.path().join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20]).expect("there is room for it");
    let mut client = collector.client("a").await;
    let batch = |number: i64| requests(number * 2_000, 2_000);
    let (answered, ended) = client.put("service_op", 1, (1..=20).map(batch).collect()).await;
    let status = ended.expect_err("it doesn't fit");
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("bytes left"), "{status}");
    let next = answered.last().copied().unwrap_or(0) + 1;
    assert!(next < 20);
    assert_eq!(collector.http("GET", "/health", "", b"").await.0, 200);
    std::fs::remove_file(&ballast).expect("it is there");
    collector.seal().await;
    let mut number = next;
    while number <= 20 {
        let (answered, _) = client.put("service_op", number, vec![batch(number as i64)]).await;
        number += answered.len() as u64;
        collector.seal().await;
    }
    assert_eq!(collector.rows("service_op"), 40_000);
    assert!(collector.end());
    // SAFETY: the text ends in NUL; nobody uses what is mounted any more.
    unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
}

/// What was accepted, and can't be sealed by the collector that finds it in its log, is set aside and named; the rest
/// goes on, then and after each restart.
#[tokio::test]
async fn an_entry_of_the_log_that_cannot_be_sealed_is_set_aside() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config::new(folder.path());
    config.seal_ms = 3_600_000;
    let collector = Collector::start(&config);
    let mut client = collector.client("dense").await;
    let batches = vec![requests(1, 3), requests_of_long_name(10, 400, 100_000), requests(5, 2)];
    assert_eq!(client.put("service_op", 1, batches).await.0, [1, 2, 3]);
    collector.kill();
    // This one has less memory than its rows decode to.
    (config.memory, config.largest) = (8 << 20, 1 << 20);
    for round in 0..2 {
        let collector = Collector::start(&config);
        collector.seal().await;
        assert_eq!(collector.rows("service_op"), 5 + 2 * round);
        let (status, body) = collector.http("GET", "/info", "", b"").await;
        assert_eq!(status, 200);
        let info: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(info["set_aside"]["entries"], 1, "{info}");
        let kept = std::path::PathBuf::from(info["set_aside"]["folder"].as_str().expect("a path"));
        let texts = std::fs::read_dir(kept).expect("a folder").flatten().map(|entry| entry.path());
        let texts: Vec<_> = texts.filter(|path| path.extension().is_some_and(|kind| kind == "txt")).collect();
        let text = std::fs::read_to_string(&texts[0]).expect("a text");
        assert!(text.contains("table: service_op\nagent: dense\nwhy: rows that decode to"), "{text}");
        let mut client = collector.client("later").await;
        assert_eq!(client.put("service_op", round + 1, vec![requests(7, 2)]).await.0, [round + 1]);
        collector.kill();
    }
    let collector = Collector::start(&config);
    assert!(collector.end());
}
