//! The way into the log for everything that speaks to the collector, within a budget of memory.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error::Refusal;
use crate::log::{Append, Command, Number};
use crate::metrics::Metrics;
use crate::rows::Rows;

/// What a permit of the budget stands for.
const PERMIT_BYTES: usize = 1024;
/// How long a message waits for memory before it is refused: longer than a seal takes.
const PATIENCE: Duration = Duration::from_secs(15);

/// Memory held by rows until they are sealed. The last clone gives it back.
#[derive(Clone, Debug)]
pub struct Hold {
    _permits: Option<Arc<OwnedSemaphorePermit>>,
}

impl Hold {
    /// Of rows that nobody waited for: those of a replay.
    #[must_use]
    pub fn none() -> Self {
        Self { _permits: None }
    }
}

/// Takes messages. Cheap to clone.
#[derive(Clone)]
pub struct Intake {
    log: Sender<Command>,
    memory: Arc<Semaphore>,
    permits: usize,
    most_decoded: u64,
    metrics: Arc<Metrics>,
}

/// Resolves when a message is durable, or refused.
pub type Durable = oneshot::Receiver<Result<(), Refusal>>;

impl Intake {
    /// Into a log, with so many bytes of rows not yet sealed at most. A message may decode to `most_decoded`.
    #[must_use]
    pub fn new(log: Sender<Command>, bytes: usize, most_decoded: u64, metrics: Arc<Metrics>) -> Self {
        let permits = (bytes / PERMIT_BYTES).clamp(1, u32::MAX as usize >> 1);
        Self { log, memory: Arc::new(Semaphore::new(permits)), permits, most_decoded, metrics }
    }

    /// Bytes that a message may decode to: see [`crate::rows::decoded_bytes`].
    #[must_use]
    pub fn most_decoded(&self) -> u64 {
        self.most_decoded
    }

    /// Counts the memory that is held now.
    pub fn measure(&self) {
        let held = (self.permits - self.memory.available_permits()) * PERMIT_BYTES;
        self.metrics.held_bytes.set(i64::try_from(held).unwrap_or(i64::MAX));
    }

    /// Gives a message to the log.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`] if they decode to too much, [`Refusal::NoSpace`] if rows can't be sealed as fast as they
    /// come, [`Refusal::Ending`].
    pub async fn submit(
        &self,
        number: Option<Number>,
        repeats: bool,
        rows: Vec<Rows>,
    ) -> Result<Durable, Refusal> {
        if let Some(rows) = rows.iter().find(|rows| rows.decoded > self.most_decoded) {
            return Err(Refusal::TooLarge(format!(
                "rows of table {} that decode to {} bytes; expected at most {}: send fewer at once",
                rows.table.name, rows.decoded, self.most_decoded
            )));
        }
        let bytes: usize = rows.iter().map(Rows::memory).sum();
        let permits = (bytes / PERMIT_BYTES + 1).min(self.permits) as u32;
        let waited = tokio::time::timeout(PATIENCE, self.memory.clone().acquire_many_owned(permits)).await;
        let Ok(Ok(permits)) = waited else {
            return Err(Refusal::NoSpace(
                "the collector's memory is full of rows that the trail can't take yet; send it again later"
                    .to_owned(),
            ));
        };
        let hold = Hold { _permits: Some(Arc::new(permits)) };
        let (done, durable) = oneshot::channel();
        let append = Append { number, repeats, rows, hold, done };
        self.log.send(Command::Append(append)).map_err(|_| Refusal::Ending)?;
        Ok(durable)
    }

    /// As [`Intake::submit`], and waits until it is durable.
    ///
    /// # Errors
    /// Those of [`Intake::submit`], and [`Refusal::NoSpace`] of the log.
    pub async fn keep(&self, number: Option<Number>, repeats: bool, rows: Vec<Rows>) -> Result<(), Refusal> {
        self.submit(number, repeats, rows).await?.await.unwrap_or(Err(Refusal::Ending))
    }
}
