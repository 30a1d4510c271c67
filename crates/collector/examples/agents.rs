//! N agents that send samples each second over connections of their own, and a viewer that times them: how the live
//! stream keeps up as a cluster grows (Leung et al., figures 12 and 13).
//!
//!     agents SECONDS N…
//!
//! Prints a table. The collector runs in a process of its own, started from this binary.

use std::collections::HashMap;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_flight::FlightDescriptor;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::flight_service_client::FlightServiceClient;
use futures_util::{SinkExt as _, StreamExt as _};
use iotrail_collector::Options;
use iotrail_format::wire;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::tungstenite::Message;
use tonic::Request;
use tonic::transport::Channel;

const ADDRESS: &str = "127.0.0.1:24317";
/// Samples of an agent each second; about what a machine with an OSD has.
const SAMPLES: usize = 40;
const HZ: Duration = Duration::from_secs(1);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [role, trail] = &words[..]
        && role == "collect"
    {
        let options = Options { listen: vec![ADDRESS.parse().expect("an address")], ..Options::new(trail) };
        let until = || Ok(Box::pin(iotrail_collector::server::signal()?) as _);
        return iotrail_collector::run(&options, until, |_| {}).expect("a collector");
    }
    let Some((seconds, counts)) = words.split_first().filter(|(_, counts)| !counts.is_empty()) else {
        eprintln!("usage: agents SECONDS N…");
        std::process::exit(2);
    };
    let seconds = seconds.parse().expect("seconds");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!("agents  messages/s  samples/s  p50 ms  p99 ms  max ms  collector CPU  memory MiB");
    for count in counts {
        runtime.block_on(measure(count.parse().expect("a number"), Duration::from_secs(seconds)));
    }
}

fn now() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as i64
}

/// Samples of one moment. The first's value is the moment, in µs of a day: what the viewer tells its age by.
fn samples(node: &str) -> RecordBatch {
    let ts = now();
    let word = |text: &str| {
        let keys = Int32Array::from(vec![0; SAMPLES]);
        Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(vec![text])))) as ArrayRef
    };
    let metrics: StringArray = (0..SAMPLES).map(|at| Some(format!("m{at}"))).collect();
    let keys: Int32Array = (0..SAMPLES as i32).collect();
    let metrics = Arc::new(DictionaryArray::new(keys, Arc::new(metrics))) as ArrayRef;
    let values: Float64Array = (0..SAMPLES)
        .map(|at| if at == 0 { moment(ts) } else { (ts / 7) as f64 % 1000.0 + at as f64 })
        .collect();
    RecordBatch::try_from_iter([
        ("ts", Arc::new(Int64Array::from(vec![ts; SAMPLES])) as ArrayRef),
        ("dur", Arc::new(Int64Array::from(vec![0; SAMPLES]))),
        ("node", word(node)),
        ("member", word(node)),
        ("metric", metrics),
        ("value", Arc::new(values)),
    ])
    .expect("columns of one length")
}

/// ms within 100 s: six digits come through a frame.
fn moment(ns: i64) -> f64 {
    (ns / 1_000_000 % 100_000) as f64
}

async fn agent(node: String, start: Duration) {
    tokio::time::sleep(start).await;
    let channel = Channel::from_static("http://127.0.0.1:24317").connect().await.expect("it listens");
    let (to, batches) = mpsc::channel(4);
    let mut number = 0_u64;
    let messages = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(FlightDescriptor::new_path(vec!["node_sample".into()])))
        .with_dictionary_handling(DictionaryHandling::Resend)
        .build(ReceiverStream::new(batches).map(Ok))
        .map(move |message| {
            let mut message = message.expect("an encoded batch");
            number += 1;
            message.app_metadata = number.to_le_bytes().to_vec().into();
            message
        });
    let mut request = Request::new(messages);
    let headers = request.metadata_mut();
    headers.insert(wire::HEADER_VERSION, wire::VERSION.parse().expect("a header"));
    headers.insert(wire::HEADER_AGENT, node.parse().expect("a header"));
    headers.insert(wire::HEADER_NODE, node.parse().expect("a header"));
    let mut client = FlightServiceClient::new(channel);
    let sends = async {
        let mut ticks = tokio::time::interval(HZ);
        loop {
            ticks.tick().await;
            if to.send(samples(&node)).await.is_err() {
                return;
            }
        }
    };
    let reads = async {
        let mut answers = client.do_put(request).await.expect("taken").into_inner();
        while let Some(Ok(_)) = answers.next().await {}
    };
    tokio::join!(sends, reads);
}

async fn measure(agents: usize, length: Duration) {
    let folder = std::env::temp_dir().join(format!("iotrail-agents-{}-{agents}", std::process::id()));
    let trail = folder.join("x.trail");
    std::fs::create_dir_all(&folder).expect("a folder");
    let binary = std::env::current_exe().expect("a file");
    let mut collector = Command::new(binary).arg("collect").arg(&trail).spawn().expect("a process");
    let stream = loop {
        match TcpStream::connect(ADDRESS).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let (mut viewer, _) =
        tokio_tungstenite::client_async(format!("ws://{ADDRESS}/live"), stream).await.expect("a WebSocket");
    let see = r#"{"see": {"metrics": null, "every_ms": 0}}"#;
    viewer.send(Message::Text(see.into())).await.expect("said");
    let tasks: Vec<_> = (0..agents)
        .map(|at| tokio::spawn(agent(format!("node-{at}"), HZ.mul_f64(at as f64 / agents as f64))))
        .collect();
    let mut moments: HashMap<u64, bool> = HashMap::new();
    let mut ages = Vec::new();
    let warm = Instant::now() + Duration::from_secs(3) + HZ;
    let end = warm + length;
    let mut used = Duration::ZERO;
    let mut values_seen = 0_usize;
    let mut begun = false;
    while Instant::now() < end {
        let Some(Ok(Message::Text(text))) = viewer.next().await else { continue };
        let came = moment(now());
        if !begun && Instant::now() > warm {
            begun = true;
            used = cpu(&collector);
        }
        let frame: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let frame = &frame["frame"];
        for series in frame["series"].as_array().into_iter().flatten() {
            moments.insert(series[0].as_u64().expect("a number"), series[2] == "m0");
        }
        if !begun {
            continue;
        }
        for pair in frame["values"].as_array().into_iter().flatten().collect::<Vec<_>>().chunks(2) {
            values_seen += 1;
            if moments[&pair[0].as_u64().expect("a number")] {
                let age = came - pair[1].as_f64().expect("a value");
                ages.push(if age < 0.0 { age + 100_000.0 } else { age });
            }
        }
    }
    let used = cpu(&collector) - used;
    let memory = resident(&collector);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    collector.kill().expect("it runs");
    collector.wait().expect("it ends");
    let _ = std::fs::remove_dir_all(&folder);
    ages.sort_by(f64::total_cmp);
    let at = |share: f64| ages.get(((ages.len() - 1) as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    let seconds = length.as_secs_f64();
    println!(
        "{agents:6}  {:10.0}  {:9.0}  {:6.0}  {:6.0}  {:6.0}  {:12.1}%  {:10.0}",
        ages.len() as f64 / seconds,
        values_seen as f64 / seconds,
        at(0.5),
        at(0.99),
        at(1.0),
        used.as_secs_f64() / seconds * 100.0,
        memory
    );
}

fn cpu(child: &Child) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("ticks")).sum();
    // Linux has 100 of them a second for programs (USER_HZ).
    Duration::from_millis(ticks * 10)
}

fn resident(child: &Child) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", child.id())).expect("it runs");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).expect("pages") * 4096.0 / 1048576.0
}
