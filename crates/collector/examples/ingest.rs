//! How many records a second go into the trail: agents that send `service_op` as fast as they are answered.
//!
//!     ingest RECORDS ROWS AGENTS
//!
//! Sends RECORDS in all, in batches of ROWS, over AGENTS connections; then seals, and prints a line. The collector runs
//! in a process of its own, started from this binary.

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_flight::FlightDescriptor;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::flight_service_client::FlightServiceClient;
use futures_util::StreamExt as _;
use iotrail_collector::Options;
use iotrail_format::wire;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Request;
use tonic::transport::Channel;

const ADDRESS: &str = "127.0.0.1:24318";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [role, trail] = &words[..]
        && role == "collect"
    {
        let options = Options { listen: vec![ADDRESS.parse().expect("an address")], ..Options::new(trail) };
        let until = || Ok(Box::pin(iotrail_collector::server::signal()?) as _);
        return iotrail_collector::run(&options, until, |_| {}).expect("a collector");
    }
    let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [records, rows, agents] = numbers[..] else {
        eprintln!("usage: ingest RECORDS ROWS AGENTS");
        std::process::exit(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(records, rows, agents));
}

/// Requests as a storage system has them: breadcrumbs in no order, few operations, some sizes.
fn requests(first: u64, rows: usize) -> RecordBatch {
    let start = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as i64;
    // A permutation of 63 bits: an odd factor, as of splitmix64.
    let mixed = |at: usize| ((first + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) as i64;
    let ints =
        |of: &dyn Fn(usize) -> i64| Arc::new(Int64Array::from_iter_values((0..rows).map(of))) as ArrayRef;
    let words = |of: &[&str]| {
        let keys = Int32Array::from_iter_values((0..rows).map(|at| (at % of.len()) as i32));
        Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(of.to_vec())))) as ArrayRef
    };
    RecordBatch::try_from_iter([
        ("ts", ints(&|at| start + at as i64 * 900)),
        ("dur", ints(&|at| 20_000 + mixed(at) % 300_000)),
        ("node", words(&["node-1"])),
        ("thread", ints(&|at| (at % 16) as i64 + 1)),
        ("crumb", ints(&mixed)),
        ("component", words(&["osd.1", "osd.2", "osd.3"])),
        ("kind", words(&["server", "internal", "client"])),
        ("op", words(&["write", "read", "commit", "queue", "stat"])),
        ("client", words(&["client.4150", "client.4151"])),
        ("status", ints(&|_| 0)),
        ("pos", ints(&|at| mixed(at) % (1 << 30) / 4096 * 4096)),
        ("length", ints(&|at| [4096, 65_536, 4_194_304][at % 3])),
    ])
    .expect("columns of one length")
}

async fn agent(name: String, batches: usize, rows: usize, channel: Channel) {
    let mut number = 0_u64;
    let first =
        name.len() as u64 * 7_919 + name.bytes().map(u64::from).sum::<u64>() * 1_000_003 * rows as u64;
    // A few batches again and again: what is measured is the collector.
    let ready: Vec<RecordBatch> = (0..8).map(|at| requests(first + at * rows as u64, rows)).collect();
    let stream = futures_util::stream::iter((0..batches).map(move |at| Ok(ready[at % 8].clone())));
    let messages = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(FlightDescriptor::new_path(vec!["service_op".into()])))
        .with_dictionary_handling(DictionaryHandling::Resend)
        .with_max_flight_data_size(usize::MAX)
        .build(stream)
        .map(move |message| {
            let mut message = message.expect("an encoded batch");
            number += 1;
            message.app_metadata = number.to_le_bytes().to_vec().into();
            message
        });
    let mut request = Request::new(messages);
    let headers = request.metadata_mut();
    headers.insert(wire::HEADER_VERSION, wire::VERSION.parse().expect("a header"));
    headers.insert(wire::HEADER_AGENT, name.parse().expect("a header"));
    let mut client = FlightServiceClient::new(channel).max_encoding_message_size(usize::MAX);
    let mut answers = client.do_put(request).await.expect("taken").into_inner();
    let mut answered = 0;
    while let Some(answer) = answers.next().await {
        answer.expect("it is durable");
        answered += 1;
    }
    assert_eq!(answered, batches);
}

async fn measure(records: usize, rows: usize, agents: usize) {
    let folder = std::env::temp_dir().join(format!("iotrail-ingest-{}", std::process::id()));
    let trail = folder.join("x.trail");
    std::fs::create_dir_all(&folder).expect("a folder");
    let binary = std::env::current_exe().expect("a file");
    let mut collector = Command::new(binary).arg("collect").arg(&trail).spawn().expect("a process");
    while TcpStream::connect(ADDRESS).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let batches = records.div_ceil(rows * agents);
    let (begun, used) = (Instant::now(), cpu(&collector));
    let tasks: Vec<_> = (0..agents)
        .map(|at| {
            tokio::spawn(async move {
                let channel =
                    Channel::from_static("http://127.0.0.1:24318").connect().await.expect("it listens");
                agent(format!("agent-{at}"), batches, rows, channel).await;
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("an agent that is answered");
    }
    let durable = begun.elapsed();
    let mut stream = TcpStream::connect(ADDRESS).await.expect("it listens");
    let seal = "POST /seal HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(seal.as_bytes()).await.expect("sent");
    stream.read_to_end(&mut Vec::new()).await.expect("answered");
    let (sealed, used) = (begun.elapsed(), cpu(&collector) - used);
    let n = iotrail_trail::Snapshot::newest(&trail).expect("a trail").rows("service_op");
    assert_eq!(n as usize, batches * rows * agents);
    let a_second = |time: Duration| n as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{n} records in batches of {rows} over {agents} connections: durable at {:.2} M/s, in the trail at {:.2} M/s, \
         {:.2} M for a second of CPU",
        a_second(durable),
        a_second(sealed),
        a_second(used)
    );
    collector.kill().expect("it runs");
    collector.wait().expect("it ends");
    let _ = std::fs::remove_dir_all(&folder);
}

fn cpu(child: &Child) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("ticks")).sum();
    // Linux has 100 of them a second for programs (USER_HZ).
    Duration::from_millis(ticks * 10)
}
