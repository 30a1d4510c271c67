//! A collector in a process of its own, and clients that speak to it over real connections.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightData, FlightDescriptor};
use futures_util::StreamExt as _;
use iotrail_collector::Options;
use iotrail_format::schema::Table;
use iotrail_format::wire;
use iotrail_trail::arrays::{Value, batch};
use iotrail_trail::{Snapshot, TrailReader};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};

const ROLE: &str = "IOTRAIL_TEST_COLLECTOR";

/// In the process that [`Collector::start`] began: the collector, until a signal ends it. Else nothing.
pub fn be_collector() {
    let Ok(words) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = words.split('\n').collect();
    let [trail, listen, seal_ms, token, memory, largest, cert, key] = words[..] else { panic!("8 words") };
    let mut options = Options::new(trail);
    options.listen = vec![listen.parse().expect("an address")];
    options.seal = Duration::from_millis(seal_ms.parse().expect("a time"));
    options.token_file = (!token.is_empty()).then(|| token.into());
    options.tls = (!cert.is_empty()).then(|| (cert.into(), key.into()));
    options.memory = memory.parse().expect("bytes");
    options.largest = largest.parse().expect("bytes");
    let until = || Ok(Box::pin(iotrail_collector::server::signal()?) as _);
    let done = iotrail_collector::run(&options, until, |addresses| println!("ready {}", addresses[0]));
    if let Err(error) = &done {
        eprintln!("{error}");
    }
    std::process::exit(i32::from(done.is_err()));
}

/// How a collector of a test is started.
pub struct Config {
    pub trail: PathBuf,
    pub listen: String,
    pub seal_ms: u64,
    pub token: String,
    pub memory: usize,
    pub largest: usize,
    pub cert: String,
    pub key: String,
}

impl Config {
    pub fn new(folder: &Path) -> Self {
        Self {
            trail: folder.join("x.trail"),
            listen: "127.0.0.1:0".into(),
            seal_ms: 200,
            token: String::new(),
            memory: 64 << 20,
            largest: 16 << 20,
            cert: String::new(),
            key: String::new(),
        }
    }
}

/// A collector's process.
pub struct Collector {
    child: Child,
    pub address: SocketAddr,
    pub trail: PathBuf,
}

impl Collector {
    pub fn start(config: &Config) -> Self {
        let (memory, largest) = (config.memory.to_string(), config.largest.to_string());
        let (seal, trail) = (config.seal_ms.to_string(), config.trail.display().to_string());
        let (listen, token) = (&config.listen, &config.token);
        let words =
            [&trail, listen, &seal, token, &memory, &largest, &config.cert, &config.key].map(String::as_str);
        let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
        command.args(["--exact", "as_collector", "--nocapture"]).env(ROLE, words.join("\n"));
        // SAFETY: prctl is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let ready = lines.map_while(Result::ok).find_map(|line| {
            // The test harness prints the test's name before it.
            let (_, address) = line.split_once("ready ")?;
            address.parse().ok()
        });
        Self { child, address: ready.expect("it listens"), trail: config.trail.clone() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Ends it as a service manager does; returns whether it ended well.
    pub fn end(mut self) -> bool {
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        self.child.wait().expect("it ends").success()
    }

    pub fn rows(&self, table: &str) -> u64 {
        rows(&self.trail, table)
    }

    pub async fn client(&self, agent: &str) -> Client {
        Client::connect(self.address, agent).await
    }

    /// One request over HTTP/1.1: status and body.
    pub async fn http(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
        http(self.address, method, path, headers, body).await
    }

    pub async fn seal(&self) -> serde_json::Value {
        let (status, body) = self.http("POST", "/seal?all=true", "", b"").await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    pub async fn metric(&self, name: &str) -> f64 {
        let (_, body) = self.http("GET", "/metrics", "", b"").await;
        let text = String::from_utf8(body).expect("text");
        text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub async fn http(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> (u16, Vec<u8>) {
    http_as(address, method, path, &address.to_string(), headers, body).await
}

/// One request to a host of this name.
pub async fn http_as(
    address: SocketAddr,
    method: &str,
    path: &str,
    host: &str,
    headers: &str,
    body: &[u8],
) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    // It may answer, and close, before it has read all.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let status = std::str::from_utf8(&answer[9..12]).expect("digits").parse().expect("a status");
    let chunked = String::from_utf8_lossy(&answer[..end]).contains("chunked");
    assert!(!chunked, "answers are short and have a length");
    (status, answer.split_off(end + 4))
}

pub fn rows(trail: &Path, table: &str) -> u64 {
    Snapshot::newest(trail).expect("a trail").rows(table)
}

/// Texts and numbers of all rows of a table, as text, sorted.
pub fn column(trail: &Path, table: &'static Table, name: &str) -> Vec<String> {
    let reader = TrailReader::open(trail).expect("a trail");
    let mut values = Vec::new();
    for entry in reader.snapshot().files(table.name) {
        for batch in reader.file(table, entry).expect("a file") {
            let batch = batch.expect("rows");
            let column = batch.column_by_name(name).expect("a column");
            for row in 0..batch.num_rows() {
                values.push(value(column, row));
            }
        }
    }
    values.sort();
    values
}

fn value(column: &arrow_array::ArrayRef, row: usize) -> String {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Int32Type, Int64Type};
    if column.is_null(row) {
        return "null".into();
    }
    if let Some(ints) = column.as_primitive_opt::<Int64Type>() {
        return ints.value(row).to_string();
    }
    if let Some(texts) = column.as_string_opt::<i32>() {
        return texts.value(row).to_owned();
    }
    let words = column.as_dictionary::<Int32Type>();
    words.values().as_string::<i32>().value(words.key(row).expect("not null")).to_owned()
}

pub fn now() -> i64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as i64
}

/// An agent.
pub struct Client {
    inner: FlightServiceClient<Channel>,
    pub agent: String,
    pub version: String,
    pub repeats: bool,
    pub token: Option<String>,
}

impl Client {
    pub async fn connect(address: SocketAddr, agent: &str) -> Self {
        let channel = Channel::from_shared(format!("http://{address}")).expect("an address");
        let channel = channel.connect().await.expect("it listens");
        Self::over(channel, agent)
    }

    pub fn over(channel: Channel, agent: &str) -> Self {
        let inner = FlightServiceClient::new(channel).max_encoding_message_size(usize::MAX);
        Self { inner, agent: agent.into(), version: wire::VERSION.into(), repeats: false, token: None }
    }

    /// Sends batches under the numbers from `first` on. Returns the numbers that were answered, and how it ended.
    pub async fn put(
        &mut self,
        table: &str,
        first: u64,
        batches: Vec<RecordBatch>,
    ) -> (Vec<u64>, Result<(), Status>) {
        let messages = messages(table, first, batches).await;
        self.send(messages).await
    }

    pub async fn send(&mut self, messages: Vec<FlightData>) -> (Vec<u64>, Result<(), Status>) {
        let mut request = Request::new(futures_util::stream::iter(messages));
        let headers = request.metadata_mut();
        let text = |text: &str| MetadataValue::try_from(text).expect("a header");
        headers.insert(wire::HEADER_VERSION, text(&self.version));
        headers.insert(wire::HEADER_AGENT, text(&self.agent));
        headers.insert(wire::HEADER_NODE, text("node-1"));
        if self.repeats {
            headers.insert(wire::HEADER_REPEATS, text("1"));
        }
        if let Some(token) = &self.token {
            headers.insert("authorization", text(&format!("Bearer {token}")));
        }
        let mut answered = Vec::new();
        let mut answers = match self.inner.do_put(request).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return (answered, Err(status)),
        };
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(answer) => {
                    let number = answer.app_metadata.as_ref().try_into().expect("8 bytes");
                    answered.push(u64::from_le_bytes(number));
                }
                Err(status) => return (answered, Err(status)),
            }
        }
        (answered, Ok(()))
    }
}

/// The messages of a stream.
pub async fn messages(table: &str, first: u64, batches: Vec<RecordBatch>) -> Vec<FlightData> {
    let descriptor = FlightDescriptor::new_path(vec![table.to_owned()]);
    let batches = futures_util::stream::iter(batches.into_iter().map(Ok));
    let encoder = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(descriptor))
        .with_max_flight_data_size(usize::MAX)
        .with_dictionary_handling(arrow_flight::encode::DictionaryHandling::Resend)
        .build(batches);
    let mut number = first;
    let mut messages = Vec::new();
    for message in encoder.collect::<Vec<_>>().await {
        let mut message = message.expect("an encoded batch");
        let header = arrow_ipc::root_as_message(&message.data_header).expect("a message").header_type();
        if header == arrow_ipc::MessageHeader::RecordBatch {
            message.app_metadata = number.to_le_bytes().to_vec().into();
            number += 1;
        }
        messages.push(message);
    }
    messages
}

/// Rows of a table: values by column's name, others null, 0 or empty.
pub fn rows_of(table: &'static Table, rows: &[&[(&str, Value)]]) -> RecordBatch {
    use iotrail_format::schema::ColumnType;
    let row = |given: &&[(&str, Value)]| {
        let column = |column: &iotrail_format::schema::Column| {
            let value = given.iter().find(|(name, _)| *name == column.name).map(|(_, value)| value.clone());
            value.unwrap_or(match (column.nullable, column.ty) {
                (true, _) => Value::Null,
                (false, ColumnType::Text) => "x".into(),
                (false, _) => 1.into(),
            })
        };
        table.columns.iter().map(column).collect()
    };
    batch(table, rows.iter().map(row).collect()).expect("rows of the table")
}

/// `n` requests with breadcrumbs from `first` on.
pub fn requests(first: i64, n: i64) -> RecordBatch {
    let ts = now();
    let rows: Vec<Vec<(&str, Value)>> = (first..first + n)
        .map(|crumb| vec![("ts", ts.into()), ("crumb", crumb.into()), ("node", "node-1".into())])
        .collect();
    rows_of(&iotrail_format::schema::SERVICE_OP, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Requests from `first` on, all of one component with a name of so many bytes, which the batch has once.
pub fn requests_of_long_name(first: i64, n: i64, bytes: usize) -> RecordBatch {
    use arrow_array::types::Int32Type;
    let plain = requests(first, n);
    let at = plain.schema().index_of("component").expect("a column of service_op");
    let keys = arrow_array::Int32Array::from(vec![0; plain.num_rows()]);
    let words = arrow_array::StringArray::from(vec!["x".repeat(bytes)]);
    let names = arrow_array::DictionaryArray::<Int32Type>::new(keys, Arc::new(words));
    let mut columns = plain.columns().to_vec();
    columns[at] = Arc::new(names);
    RecordBatch::try_new(plain.schema(), columns).expect("columns of the table")
}

/// Samples of a member: metric, value, dur.
pub fn samples(ts: i64, node: &str, member: &str, values: &[(&str, f64, i64)]) -> RecordBatch {
    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
    let n = values.len();
    let text = |text: &str| Arc::new(StringArray::from(vec![text; n])) as ArrayRef;
    let ints = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let metrics: StringArray = values.iter().map(|(metric, ..)| Some(*metric)).collect();
    let batch = RecordBatch::try_from_iter([
        ("ts", ints(values.iter().map(|(.., dur)| ts - dur).collect())),
        ("dur", ints(values.iter().map(|(.., dur)| *dur).collect())),
        ("node", text(node)),
        ("member", text(member)),
        ("metric", Arc::new(metrics) as ArrayRef),
        (
            "value",
            Arc::new(Float64Array::from_iter_values(values.iter().map(|(_, value, _)| *value))) as ArrayRef,
        ),
    ]);
    batch.expect("columns of one length")
}
