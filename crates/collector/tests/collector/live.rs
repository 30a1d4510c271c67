//! What those who watch are told, over real WebSockets.

use std::time::{Duration, Instant};

use crate::support::{Collector, Config, now, rows_of, samples};
use futures_util::{SinkExt as _, StreamExt as _};
use iotrail_format::schema::MEMBER;
use iotrail_trail::arrays::Value as Cell;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// How long something is waited for at most, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(300);

struct Viewer(WebSocketStream<TcpStream>);

impl Viewer {
    async fn connect(collector: &Collector) -> Self {
        let stream = TcpStream::connect(collector.address).await.expect("it listens");
        let url = format!("ws://{}/live", collector.address);
        Self(client_async(url, stream).await.expect("a WebSocket").0)
    }

    async fn say(&mut self, said: &Value) {
        self.0.send(Message::Text(said.to_string().into())).await.expect("said");
    }

    async fn next(&mut self) -> Value {
        loop {
            match self.0.next().await.expect("it is open").expect("it is open") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Close(why) => return json!({ "closed": why.expect("a reason").reason.to_string() }),
                _ => {}
            }
        }
    }

    /// Frames until one has a value for each of `keys` (`osd.0 op`), by key.
    async fn values(&mut self, keys: &[&str]) -> std::collections::BTreeMap<String, f64> {
        let mut names = std::collections::HashMap::new();
        let mut values = std::collections::BTreeMap::new();
        let begun = Instant::now();
        while !keys.iter().all(|key| values.contains_key(*key)) {
            assert!(begun.elapsed() < PATIENCE, "{values:?}");
            let frame = self.next().await["frame"].take();
            for series in frame["series"].as_array().into_iter().flatten() {
                let text = |at: usize| series[at].as_str().unwrap_or("-").to_owned();
                names.insert(series[0].as_u64(), format!("{} {}", text(1), text(2)));
            }
            for pair in frame["values"].as_array().into_iter().flatten().collect::<Vec<_>>().chunks(2) {
                values.insert(names[&pair[0].as_u64()].clone(), pair[1].as_f64().expect("a number"));
            }
        }
        values
    }
}

fn member(ts: i64, member: &str, role: &str, place: &str, state: &str) -> arrow_array::RecordBatch {
    let row: [(&str, Cell); 7] = [
        ("ts", ts.into()),
        ("node", "n".into()),
        ("process", 1.into()),
        ("member", member.into()),
        ("role", role.into()),
        ("place", place.into()),
        ("state", state.into()),
    ];
    rows_of(&MEMBER, &[&row])
}

#[tokio::test]
async fn a_viewer_sees_what_it_looks_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config::new(folder.path());
    let collector = Collector::start(&config);
    let mut agent = collector.client("a").await;
    let members = vec![
        member(now(), "osd.0", "osd", "r1/h1", "up"),
        member(now(), "osd.1", "osd", "r1/h1", "up"),
        member(now(), "osd.2", "osd", "r1/h2", "up"),
    ];
    assert_eq!(agent.put("member", 1, members).await.0.len(), 3);
    let send = |number: u64, member: &'static str, op: f64, load: f64| {
        let values = [("op", op, 2_000_000_000), ("load", load, 0)];
        (number, samples(now(), "n", member, &values))
    };

    let mut viewer = Viewer::connect(&collector).await;
    let hello = viewer.next().await["hello"].take();
    assert_eq!(hello["version"], 1);
    let names: Vec<_> =
        hello["members"].as_array().expect("a list").iter().map(|m| m["member"].clone()).collect();
    assert_eq!(names, ["osd.0", "osd.1", "osd.2"]);
    viewer.say(&json!({"see": {"members": ["osd.0"], "metrics": null, "by": "member", "every_ms": 0}})).await;
    assert!(viewer.next().await["hello"].is_object());
    for (number, batch) in
        [send(1, "osd.0", 10.0, 1.0), send(2, "osd.1", 20.0, 3.0), send(3, "osd.2", 40.0, 5.0)]
    {
        assert_eq!(agent.put("node_sample", number, vec![batch]).await.0, [number]);
    }
    // A sum is shown as a sum a second, and only who is looked at.
    let values = viewer.values(&["osd.0 op", "osd.0 load"]).await;
    assert_eq!(
        values.into_iter().collect::<Vec<_>>(),
        [("osd.0 load".into(), 1.0), ("osd.0 op".into(), 5.0)]
    );

    // By machine: sums of sums, means of levels; what is known already is shown at once.
    viewer
        .say(&json!({"see": {"members": null, "metrics": ["op", "load"], "by": "host", "every_ms": 0}}))
        .await;
    while !viewer.next().await["hello"].is_object() {}
    let values = viewer.values(&["h1 op", "h1 load", "h2 op", "h2 load"]).await;
    assert_eq!(values.into_values().collect::<Vec<_>>(), [2.0, 15.0, 5.0, 20.0]);

    // A change of a member, and a clock that is off by a day.
    assert_eq!(agent.put("member", 4, vec![member(now(), "osd.2", "osd", "r1/h2", "down")]).await.0, [4]);
    let day = 86_400_000_000_000;
    let ahead = samples(now() + day, "n", "osd.0", &[("load", 7.0, 0)]);
    assert_eq!(agent.put("node_sample", 4, vec![ahead]).await.0, [4]);
    let mut changes = String::new();
    while !(changes.contains("\"down\"") && changes.contains("1day ahead")) {
        changes += &viewer.next().await["frame"]["members"].to_string();
    }
    assert_eq!(collector.metric("iotrail_collector_clocks_off").await, 1.0);

    viewer.say(&json!({"look": 1})).await;
    loop {
        let said = viewer.next().await;
        if let Some(why) = said["closed"].as_str() {
            assert!(why.contains("expected"), "{why}");
            break;
        }
    }

    // After a crash members are known at once.
    collector.seal().await;
    collector.kill();
    let collector = Collector::start(&config);
    let mut viewer = Viewer::connect(&collector).await;
    let hello = viewer.next().await["hello"].take();
    let states: Vec<_> =
        hello["members"].as_array().expect("a list").iter().map(|m| m["state"].clone()).collect();
    assert_eq!(states, ["up", "up", "down"]);
    assert!(collector.end());
}

#[tokio::test]
async fn a_viewer_that_stops_reading_holds_up_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start(&Config::new(folder.path()));
    let mut agent = collector.client("a").await;
    let (mut stopped, mut other) = (Viewer::connect(&collector).await, Viewer::connect(&collector).await);
    for viewer in [&mut stopped, &mut other] {
        viewer.say(&json!({"see": {}})).await;
    }
    // `stopped` reads no more: its socket's buffers fill with frames of 3,000 series.
    let names: Vec<String> = (0..3_000).map(|n| format!("metric-{n}")).collect();
    let begun = Instant::now();
    let mut frames = 0;
    let mut number = 1;
    while collector.metric("iotrail_collector_skipped_frames_total").await < 10.0 {
        assert!(begun.elapsed() < PATIENCE, "{frames} frames");
        let values: Vec<(&str, f64, i64)> =
            names.iter().map(|name| (name.as_str(), number as f64 * 1.234_567, 0)).collect();
        assert_eq!(
            agent.put("node_sample", number, vec![samples(now(), "n", "m", &values)]).await.0,
            [number]
        );
        number += 1;
        while let Ok(frame) = tokio::time::timeout(Duration::from_millis(20), other.next()).await {
            frames += usize::from(frame["frame"].is_object());
        }
    }
    assert!(frames > 20);
    // `stopped` was sent what fits its buffers, `other` all.
    let skipped = collector.metric("iotrail_collector_skipped_frames_total").await;
    assert!(skipped < frames as f64);
    assert!(collector.end());
}
