//! Arrow Flight: `DoPut` of agents, as `iotrail_format::wire` says.
//!
//! A stream is read ahead of its answers by a few messages, so that the log can commit many at once; what is not durable
//! yet is bounded, and a stream whose sender doesn't take its answers is not read any further.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures_util::{Stream, StreamExt as _};
use iotrail_format::schema::{self, TABLES, Table};
use iotrail_format::wire;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::error::Refusal;
use crate::intake::{Durable, Intake};
use crate::log::Number;
use crate::metrics::Metrics;
use crate::rows::Decoder;

/// Messages of a stream that may wait to become durable.
const AHEAD: usize = 16;

/// The service.
#[derive(Clone)]
pub struct Flight {
    intake: Intake,
    metrics: Arc<Metrics>,
    largest: usize,
    most: u64,
}

/// Who sends a stream.
struct Sender {
    agent: Arc<str>,
    node: String,
    repeats: bool,
    broken: Arc<AtomicBool>,
}

impl Flight {
    /// Into an intake. `largest` is the size of a message at most, for the text that refuses it.
    #[must_use]
    pub fn new(intake: Intake, metrics: Arc<Metrics>, largest: usize) -> Self {
        let most = intake.most_decoded();
        Self { intake, metrics, largest, most }
    }

    fn refuse(&self, refusal: Refusal) -> Status {
        self.metrics.refuse(refusal.reason());
        refusal.into()
    }

    /// Reads a stream to its end, or to what is refused.
    async fn read(
        self,
        sender: Sender,
        mut stream: Streaming<FlightData>,
        answers: mpsc::Sender<Result<(u64, Durable), Status>>,
    ) {
        let mut decoder = None;
        let status = loop {
            let message = match stream.message().await {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(status) if status.code() == Code::OutOfRange => {
                    let what = format!(
                        "agent {} ({}): a message is too large: {}; expected at most {} bytes, so send fewer rows at once",
                        sender.agent,
                        sender.node,
                        status.message(),
                        self.largest
                    );
                    break self.refuse(Refusal::TooLarge(what));
                }
                // The sender went away, or HTTP/2 broke: there is nobody to tell.
                Err(status) => break status,
            };
            match self.message(&sender, &mut decoder, message).await {
                Ok(None) => {}
                Ok(Some(answer)) => {
                    if answers.send(Ok(answer)).await.is_err() {
                        return;
                    }
                }
                Err(refusal) => break self.refuse(refusal),
            }
        };
        // Let what was accepted before be answered first.
        let _ = answers.send(Err(status)).await;
    }

    async fn message(
        &self,
        sender: &Sender,
        decoder: &mut Option<(Decoder, &'static Table)>,
        message: FlightData,
    ) -> Result<Option<(u64, Durable)>, Refusal> {
        let who = |table: &str, what: &str| {
            Refusal::Malformed(format!("agent {} ({}), table {table}: {what}", sender.agent, sender.node))
        };
        let (decoder, table) = match decoder {
            Some(known) => known,
            None => {
                let path = message.flight_descriptor.map(|descriptor| descriptor.path).unwrap_or_default();
                let table = table_of(&path).map_err(|what| who(&path.join("/"), &what))?;
                decoder.insert((Decoder::new(table, self.most), table))
            }
        };
        let table = *table;
        // Some clients say what they put before they send a schema.
        if message.data_header.is_empty() {
            return Ok(None);
        }
        let rows = decoder
            .message(&message.data_header, &message.data_body)
            .map_err(|what| who(table.name, &what))?;
        let Some(rows) = rows else { return Ok(None) };
        let number = <[u8; 8]>::try_from(message.app_metadata.as_ref()).map_err(|_| {
            let found = message.app_metadata.len();
            who(table.name, &format!("expected 8 bytes of app_metadata with its number, found {found}"))
        })?;
        let number = u64::from_le_bytes(number);
        let numbered = Number { agent: sender.agent.clone(), number, broken: sender.broken.clone() };
        Ok(Some((number, self.intake.submit(Some(numbered), sender.repeats, vec![rows]).await?)))
    }
}

/// The table that a descriptor's path names.
fn table_of(path: &[String]) -> Result<&'static Table, String> {
    let [name] = path else {
        return Err(format!(
            "expected a descriptor whose path is the table's name, found {} names",
            path.len()
        ));
    };
    schema::table(name).ok_or_else(|| {
        let known: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        format!("there is no such table; tables are {}", known.join(", "))
    })
}

/// Reads the headers of a stream.
fn sender_of(request: &Request<Streaming<FlightData>>) -> Result<Sender, Refusal> {
    let header = |name: &str| request.metadata().get(name).and_then(|value| value.to_str().ok());
    let node = header(wire::HEADER_NODE).unwrap_or("unnamed machine").to_owned();
    match header(wire::HEADER_VERSION) {
        Some(wire::VERSION) => {}
        found => {
            return Err(Refusal::Version(format!(
                "the agent of {node} speaks version {} of iotrail's protocol, and this collector version {}: install the \
                 same iotrail on both",
                found.unwrap_or("none"),
                wire::VERSION
            )));
        }
    }
    let agent = header(wire::HEADER_AGENT).filter(|agent| !agent.is_empty() && agent.len() <= 256);
    let agent = agent.ok_or_else(|| {
        Refusal::Malformed(format!("{node}: expected header {} of 1 to 256 letters", wire::HEADER_AGENT))
    })?;
    let repeats = header(wire::HEADER_REPEATS) == Some("1");
    Ok(Sender { agent: agent.into(), node, repeats, broken: Arc::default() })
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn only_put<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("an iotrail collector takes DoPut only"))
}

#[tonic::async_trait]
impl FlightService for Flight {
    type DoPutStream = Answers<PutResult>;

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let sender = sender_of(&request).map_err(|refusal| self.refuse(refusal))?;
        let (answers, answered) = mpsc::channel(AHEAD);
        let open = Open::new(self.metrics.clone());
        tokio::spawn(self.clone().read(sender, request.into_inner(), answers));
        let answered = ReceiverStream::new(answered).then(move |answer| {
            // Counted as long as it is answered.
            let _open = &open;
            async move {
                let (number, durable) = answer?;
                durable.await.unwrap_or(Err(Refusal::Ending))?;
                Ok(PutResult { app_metadata: number.to_le_bytes().to_vec().into() })
            }
        });
        // After a refusal by the log nothing later may be acknowledged: what was refused would be lost.
        let mut failed = false;
        let answered = answered.take_while(move |answer| {
            let go_on = !failed;
            failed |= answer.is_err();
            std::future::ready(go_on)
        });
        Ok(Response::new(Box::pin(answered)))
    }

    type HandshakeStream = Answers<HandshakeResponse>;
    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        only_put()
    }

    type ListFlightsStream = Answers<FlightInfo>;
    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        only_put()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        only_put()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        only_put()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        only_put()
    }

    type DoGetStream = Answers<FlightData>;
    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        only_put()
    }

    type DoExchangeStream = Answers<FlightData>;
    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        only_put()
    }

    type DoActionStream = Answers<arrow_flight::Result>;
    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        only_put()
    }

    type ListActionsStream = Answers<ActionType>;
    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        only_put()
    }
}

/// An open stream, for the count of them.
struct Open(Arc<Metrics>);

impl Open {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.streams.inc();
        Self(metrics)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.streams.dec();
    }
}
