//! Sends what waits to the collector, so that the host's own traffic goes first.
//!
//! Thereska et al. (Stardust, SIGMETRICS 2006, section 4 and Figure 7) found that large buffers of trace records delay
//! requests behind them, and small ones of low priority hardly: so messages are small ([`crate::message::ROWS`]), the
//! socket has the lowest priority (SO_PRIORITY, socket(7); DSCP LE, RFC 8622), the kernel holds no more than a few
//! unsent of them (TCP_NOTSENT_LOWAT, tcp(7)), and their rate is bounded.
//!
//! A message is forgotten when the collector answers that it is durable. What isn't answered when a connection ends
//! goes back to the front of the queue.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::error::Error as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::FlightData;
use arrow_flight::flight_service_client::FlightServiceClient;
use backon::{BackoffBuilder as _, ExponentialBuilder};
use hyper_util::rt::TokioIo;
use iotrail_format::wire;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Uri};
use tonic::{Code, Request, Status};

use crate::Totals;
use crate::message::Message;
use crate::queue::Queue;

/// Bytes sent and not answered at most: they are all that a lost connection sends again.
const WINDOW: usize = 512 << 10;
/// Unsent bytes that the kernel takes before it says that a socket is full.
const UNSENT: u32 = 16 << 10;
/// A filler's priority, the lowest of pfifo_fast's bands (`TC_PRIO_FILLER`, linux/pkt_sched.h).
const PRIORITY: libc::c_int = 1;
/// Lower effort (RFC 8622), as the byte of the IP header.
const LOWER_EFFORT: u32 = 1 << 2;
/// A collector that answers nothing for this long is taken for gone.
const SILENCE: Duration = Duration::from_secs(15);
/// How long what waits may still be sent when the agent ends.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Tries at a collector that refuses (its token, its version) are this far apart.
const REFUSED: Duration = Duration::from_secs(30);

/// Where to send to, and how fast.
#[derive(Clone, Debug)]
pub struct Destination {
    /// `HOST:PORT`.
    pub address: String,
    /// Token that the collector asks for.
    pub token: Option<String>,
    /// Certificates (PEM) that vouch for the collector's; none speaks plain text.
    pub tls_ca: Option<String>,
    /// Bytes a second at most.
    pub rate: u64,
}

/// Why a connection ended.
enum Ended {
    /// It broke; what is known of why.
    Lost(String),
    /// The collector won't have anything from this agent.
    Refused(String),
    /// It won't have one message, which was dropped.
    Message(String),
    /// The agent ends.
    Stopped,
}

/// A `DoPut` of one agent and table.
type Key = (Arc<str>, &'static str);

struct Stream {
    parts: mpsc::UnboundedSender<FlightData>,
    unanswered: VecDeque<Message>,
}

/// The sending side of an agent.
pub struct Shipper {
    pub destination: Destination,
    pub node: String,
    pub queue: Rc<RefCell<Queue>>,
    /// Something was put into the queue.
    pub filled: Rc<Notify>,
    pub totals: Arc<Totals>,
    /// Says something to people.
    pub say: fn(&str),
}

impl Shipper {
    /// Sends until `stop` says true and then what still waits, for a while. What couldn't be sent is in the queue's file.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        let delays = || {
            ExponentialBuilder::default()
                .with_min_delay(Duration::from_millis(200))
                .with_max_delay(Duration::from_secs(10))
                .with_jitter()
                .without_max_times()
                .build()
        };
        let mut delay = delays();
        let mut said = String::new();
        loop {
            let (ended, unanswered, answered) = self.connection(&mut stop).await;
            self.queue.borrow_mut().park(unanswered);
            if answered {
                delay = delays();
                said.clear();
            }
            let (wait, why) = match ended {
                Ended::Stopped => return,
                Ended::Message(why) => (Duration::ZERO, why),
                Ended::Lost(why) => (delay.next().unwrap_or(REFUSED), why),
                Ended::Refused(why) => (REFUSED, why),
            };
            if why != said {
                (self.say)(&format!("{}: {why}", self.destination.address));
                said = why;
            }
            tokio::select! {
                () = sleep(wait) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// One connection: why it ended, what wasn't answered, and whether anything was.
    async fn connection(&self, stop: &mut watch::Receiver<bool>) -> (Ended, Vec<Message>, bool) {
        let channel = tokio::select! {
            channel = connect(&self.destination) => channel,
            _ = stop.wait_for(|stop| *stop) => return (Ended::Stopped, Vec::new(), false),
        };
        let client = match channel {
            Ok(channel) => FlightServiceClient::new(channel),
            Err(why) => return (Ended::Lost(why), Vec::new(), false),
        };
        let mut sending = Sending {
            shipper: self,
            client,
            streams: HashMap::new(),
            bytes: 0,
            tokens: Tokens::new(self.destination.rate),
            answers: mpsc::unbounded_channel(),
            answered: false,
        };
        let ended = sending.run(stop).await;
        let unanswered = sending.streams.into_values().flat_map(|stream| stream.unanswered).collect();
        (ended, unanswered, sending.answered)
    }
}

type Answer = (Key, Result<u64, Status>);

struct Sending<'a> {
    shipper: &'a Shipper,
    client: FlightServiceClient<Channel>,
    streams: HashMap<Key, Stream>,
    /// Not answered.
    bytes: usize,
    tokens: Tokens,
    answers: (mpsc::UnboundedSender<Answer>, mpsc::UnboundedReceiver<Answer>),
    answered: bool,
}

impl Sending<'_> {
    async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> Ended {
        let mut last_answer = Instant::now();
        let mut give_up: Option<Instant> = None;
        loop {
            if self.bytes < WINDOW {
                // Out of the borrow before anything is awaited.
                let next = self.shipper.queue.borrow_mut().pop();
                if let Some(message) = next {
                    if self.bytes == 0 {
                        last_answer = Instant::now();
                    }
                    self.tokens.take(message.bytes() as u64).await;
                    self.send(message);
                    // Answers that are there come first, so that the window opens.
                    while let Ok(answer) = self.answers.1.try_recv() {
                        last_answer = Instant::now();
                        if let Some(ended) = self.answer(answer) {
                            return ended;
                        }
                    }
                    continue;
                }
            }
            if give_up.is_some() && self.bytes == 0 {
                return Ended::Stopped;
            }
            let silent = last_answer + SILENCE;
            let until = give_up.map_or(silent, |at| at.min(silent));
            tokio::select! {
                Some(answer) = self.answers.1.recv() => {
                    last_answer = Instant::now();
                    if let Some(ended) = self.answer(answer) {
                        return ended;
                    }
                }
                () = self.shipper.filled.notified(), if self.bytes < WINDOW => {}
                () = sleep_until(until), if self.bytes > 0 => {
                    return if give_up.is_some() {
                        Ended::Stopped
                    } else {
                        Ended::Lost(format!("no answer for {} s", SILENCE.as_secs()))
                    };
                }
                _ = stop.wait_for(|stop| *stop), if give_up.is_none() => {
                    give_up = Some(Instant::now() + LAST_WORDS);
                }
            }
        }
    }

    fn send(&mut self, message: Message) {
        let key: Key = (message.agent.clone(), message.table.name);
        let first = !self.streams.contains_key(&key);
        if first {
            let parts = self.open(&key, message.repeats);
            self.streams.insert(key.clone(), Stream { parts, unanswered: VecDeque::new() });
        }
        let stream = self.streams.get_mut(&key).expect("it was just made");
        for part in message.parts(first) {
            // A stream that ended says why by its answer.
            let _ = stream.parts.send(part);
        }
        self.bytes += message.bytes();
        stream.unanswered.push_back(message);
    }

    /// Begins a stream; what the collector says of it comes as answers.
    fn open(&self, key: &Key, repeats: bool) -> mpsc::UnboundedSender<FlightData> {
        let (parts, outgoing) = mpsc::unbounded_channel();
        let mut request = Request::new(UnboundedReceiverStream::new(outgoing));
        let headers = request.metadata_mut();
        headers.insert(wire::HEADER_VERSION, MetadataValue::from_static(wire::VERSION));
        headers.insert(wire::HEADER_AGENT, header(&key.0));
        headers.insert(wire::HEADER_NODE, header(&self.shipper.node));
        headers.insert(wire::HEADER_REPEATS, MetadataValue::from_static(if repeats { "1" } else { "0" }));
        if let Some(token) = &self.shipper.destination.token {
            headers.insert("authorization", header(&format!("Bearer {token}")));
        }
        let (mut client, answers, key) = (self.client.clone(), self.answers.0.clone(), key.clone());
        tokio::task::spawn_local(async move {
            let ended = async {
                let mut results = client.do_put(request).await?.into_inner();
                while let Some(result) = results.message().await? {
                    let number: [u8; 8] = result.app_metadata.as_ref().try_into().map_err(|_| {
                        let length = result.app_metadata.len();
                        Status::data_loss(format!(
                            "expected a number of 8 bytes as answer, found {length} bytes"
                        ))
                    })?;
                    if answers.send((key.clone(), Ok(u64::from_le_bytes(number)))).is_err() {
                        return Ok(());
                    }
                }
                Err(Status::unavailable("the collector ended the stream"))
            };
            if let Err(status) = ended.await {
                let _ = answers.send((key, Err(status)));
            }
        });
        parts
    }

    fn answer(&mut self, (key, answer): Answer) -> Option<Ended> {
        let stream = self.streams.get_mut(&key).expect("answers are of streams that were begun");
        match answer {
            Ok(number) => {
                if !self.answered {
                    self.answered = true;
                    self.shipper.queue.borrow_mut().present();
                }
                while stream.unanswered.front().is_some_and(|message| message.number <= number) {
                    let mut message = stream.unanswered.pop_front().expect("it has a front");
                    message.settle();
                    self.bytes -= message.bytes();
                    self.shipper.queue.borrow_mut().done(&message);
                    self.shipper.totals.shipped(message.rows);
                }
                None
            }
            Err(status) => Some(match status.code() {
                Code::Unauthenticated | Code::PermissionDenied | Code::FailedPrecondition => {
                    Ended::Refused(format!("the collector refuses this agent: {}", status.message()))
                }
                Code::InvalidArgument | Code::OutOfRange => {
                    let rows = stream.unanswered.pop_front().map_or(0, |mut message| {
                        message.settle();
                        self.shipper.queue.borrow_mut().done(&message);
                        message.rows
                    });
                    self.shipper.totals.dropped(rows);
                    let why = status.message();
                    Ended::Message(format!(
                        "the collector refuses {rows} rows of {}, which are dropped: {why}",
                        key.1
                    ))
                }
                // The connection's word, not the collector's.
                _ if status.source().is_some()
                    && !self.answered
                    && self.shipper.destination.tls_ca.is_none() =>
                {
                    Ended::Lost(
                        "the connection broke before any answer: if the collector speaks TLS, give --tls-ca"
                            .into(),
                    )
                }
                _ => Ended::Lost(status.message().to_owned()),
            }),
        }
    }
}

/// Text as a header: what can't stand in one is replaced.
fn header(text: &str) -> MetadataValue<Ascii> {
    let plain: String =
        text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    plain.parse().expect("graphic characters are a header's")
}

async fn connect(destination: &Destination) -> Result<Channel, String> {
    let scheme = if destination.tls_ca.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", destination.address))
        .map_err(|e| format!("not an address: {e}"))?
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true);
    if let Some(ca) = &destination.tls_ca {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        endpoint = endpoint.tls_config(tls).map_err(|e| cause(&e))?;
    }
    let socket = tower::service_fn(|uri: Uri| async move {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(wire::PORT))).await?;
        yield_to_others(&stream);
        Ok::<_, std::io::Error>(TokioIo::new(stream))
    });
    match timeout(SILENCE, endpoint.connect_with_connector(socket)).await {
        Ok(connected) => connected.map_err(|e| cause(&e)),
        Err(_) => Err(format!("no connection within {} s", SILENCE.as_secs())),
    }
}

/// The innermost reason of an error: tonic's own text is "transport error".
fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    match error.to_string() {
        // What `openssl req -x509` makes, if it isn't told otherwise.
        text if text.contains("CaUsedAsEndEntity") => {
            "the collector's certificate is one of an authority: it needs one with basicConstraints CA:FALSE"
                .into()
        }
        text if text.contains("InvalidContentType") => {
            "the collector speaks no TLS: leave out --tls-ca".into()
        }
        text => text,
    }
}

/// What a kernel refuses of these is no reason not to send.
fn yield_to_others(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tos_v4(LOWER_EFFORT);
    let _ = socket.set_tclass_v6(LOWER_EFFORT);
    use std::os::fd::AsRawFd as _;
    for (level, name, value) in [
        (libc::SOL_SOCKET, libc::SO_PRIORITY, PRIORITY),
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT as libc::c_int),
    ] {
        let size = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the descriptor is open while `stream` lives, and `value` is as large as `size` says.
        unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    }
}

/// A bucket of bytes that may be sent: refilled at a rate, full after a second.
struct Tokens {
    rate: f64,
    left: f64,
    at: Instant,
}

impl Tokens {
    fn new(rate: u64) -> Self {
        Self { rate: rate as f64, left: rate as f64, at: Instant::now() }
    }

    /// Waits until bytes may be sent.
    async fn take(&mut self, bytes: u64) {
        let now = Instant::now();
        self.left = (self.left + now.duration_since(self.at).as_secs_f64() * self.rate).min(self.rate);
        self.at = now;
        self.left -= bytes as f64;
        if self.left < 0.0 {
            sleep(Duration::from_secs_f64(-self.left / self.rate)).await;
        }
    }
}
