//! The live stream: samples and members to those who watch.

use arrow_array::RecordBatch;
use iotrail_format::schema::{MEMBER, NODE_SAMPLE, Table};
use std::sync::Arc;
use tokio::sync::mpsc;

use crate::metrics::Metrics;

/// Batches that wait for the live stream at most.
const WAITING: usize = 16_384;

/// What is shown live goes in here.
#[derive(Clone)]
pub struct Feed {
    to: mpsc::Sender<(&'static Table, RecordBatch)>,
    metrics: Arc<Metrics>,
}

impl Feed {
    /// A feed, and its other end.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> (Self, mpsc::Receiver<(&'static Table, RecordBatch)>) {
        let (to, fed) = mpsc::channel(WAITING);
        (Self { to, metrics }, fed)
    }

    /// Offers durable rows. Never waits: what there is no time for is left out, and counted.
    pub fn offer(&self, table: &'static Table, batch: &RecordBatch) {
        if [NODE_SAMPLE.name, MEMBER.name].contains(&table.name)
            && self.to.try_send((table, batch.clone())).is_err()
        {
            self.metrics.live_dropped.inc();
        }
    }
}
