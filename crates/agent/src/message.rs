//! A numbered batch of rows on its way: as Flight's messages, and as bytes in the spool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_flight::{FlightData, FlightDescriptor};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use bytes::{Buf as _, BufMut as _};
use iotrail_format::schema::{self, Table};
use iotrail_trail::arrow_schema;
use prost::Message as _;

/// Rows of a message at most: some 50 KiB, so that what the host itself sends waits for little.
pub const ROWS: usize = 512;

/// Layout of [`Message::to_bytes`].
const SPOOL_VERSION: u8 = 1;

/// Rows of one table under one number.
#[derive(Debug)]
pub struct Message {
    /// Whose numbering it is; see [`iotrail_format::wire::HEADER_AGENT`].
    pub agent: Arc<str>,
    /// The table.
    pub table: &'static Table,
    /// Whether its rows may come again under another number.
    pub repeats: bool,
    /// The number.
    pub number: u64,
    /// Rows.
    pub rows: u64,
    /// Its place in the queue's file, if it was read from there.
    pub place: Option<u64>,
    /// The schema, dictionaries, and last the rows with the number.
    parts: Vec<FlightData>,
    /// Counts the rows of its source that are settled; none if its own are counted.
    settled: Option<Arc<AtomicU64>>,
}

impl Message {
    /// Encodes rows that are the table's.
    ///
    /// # Panics
    /// If the batch isn't of [`arrow_schema`].
    #[must_use]
    pub fn new(
        agent: &Arc<str>,
        table: &'static Table,
        repeats: bool,
        number: u64,
        batch: &RecordBatch,
        settled: Arc<AtomicU64>,
    ) -> Self {
        // A tracker of its own: each message has all its dictionaries, since those before may not arrive.
        let (options, encoder) = (IpcWriteOptions::default(), IpcDataGenerator::default());
        let mut tracker = DictionaryTracker::new(false);
        let schema =
            encoder.schema_to_bytes_with_dictionary_tracker(&arrow_schema(table), &mut tracker, &options);
        let (dictionaries, rows) = encoder
            .encode(batch, &mut tracker, &options, &mut IpcWriteContext::default())
            .expect("rows of a table can be encoded");
        let rows = FlightData::from(rows).with_app_metadata(number.to_le_bytes().to_vec());
        let before = [schema].into_iter().chain(dictionaries).map(FlightData::from);
        let parts = before.chain([rows]).collect();
        Self {
            agent: agent.clone(),
            table,
            repeats,
            number,
            rows: batch.num_rows() as u64,
            place: None,
            parts,
            settled: Some(settled),
        }
    }

    /// Flight's messages; the first of a stream begins with schema and descriptor.
    pub fn parts(&self, first: bool) -> impl Iterator<Item = FlightData> {
        let (schema, rest) = self.parts.split_first().expect("a message begins with its schema");
        let descriptor = FlightDescriptor::new_path(vec![self.table.name.to_owned()]);
        first.then(|| schema.clone().with_descriptor(descriptor)).into_iter().chain(rest.iter().cloned())
    }

    /// Bytes in memory, on disk and on the network.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.data_header.len() + part.data_body.len() + 32).sum()
    }

    /// Its source needn't remember its rows any more; see [`crate::source::Tick::settled`].
    pub fn settle(&mut self) {
        if let Some(settled) = self.settled.take() {
            settled.fetch_add(self.rows, Ordering::Relaxed);
        }
    }

    /// For the spool.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes() + 128);
        bytes.put_u8(SPOOL_VERSION);
        bytes.put_u8(u8::from(self.repeats));
        bytes.put_u64_le(self.number);
        bytes.put_u64_le(self.rows);
        for text in [&*self.agent, self.table.name] {
            bytes.put_u16_le(u16::try_from(text.len()).expect("names of agents and tables are short"));
            bytes.put_slice(text.as_bytes());
        }
        for part in &self.parts {
            part.encode_length_delimited(&mut bytes).expect("a Vec grows");
        }
        let crc = crc32fast::hash(&bytes);
        bytes.put_u32_le(crc);
        bytes
    }

    /// From the spool; none if it is damaged, or of another version of this program.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (bytes, crc) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(bytes) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut bytes = bytes;
        if bytes.try_get_u8().ok()? != SPOOL_VERSION {
            return None;
        }
        let repeats = bytes.try_get_u8().ok()? != 0;
        let number = bytes.try_get_u64_le().ok()?;
        let rows = bytes.try_get_u64_le().ok()?;
        let mut text = || -> Option<String> {
            let length = usize::from(bytes.try_get_u16_le().ok()?);
            let (text, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            String::from_utf8(text.to_owned()).ok()
        };
        let (agent, table) = (text()?, text()?);
        let mut parts = Vec::new();
        while bytes.has_remaining() {
            parts.push(FlightData::decode_length_delimited(&mut bytes).ok()?);
        }
        let table = schema::table(&table)?;
        (parts.len() >= 2).then(|| Self {
            agent: agent.into(),
            table,
            repeats,
            number,
            rows,
            place: None,
            parts,
            settled: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Outbox;
    use crate::source::Tick;
    use proptest::prelude::*;

    fn message() -> Message {
        let mut out = Outbox::new("here");
        out.begin(Tick { now: 3_000, before: Some(2_000), from_wall: 0, settled: 0 });
        out.sum("osd.0", "op", Some("write"), 7.0);
        let (table, batch) = out.take().remove(0);
        Message::new(&"here/1".into(), table, true, 17, &batch, Arc::default())
    }

    #[test]
    fn a_message_comes_back_from_its_bytes() {
        let message = message();
        let back = Message::from_bytes(&message.to_bytes()).expect("a message");
        assert_eq!((&back.agent, back.table, back.repeats), (&message.agent, message.table, message.repeats));
        assert_eq!((back.number, back.rows, &back.parts), (message.number, message.rows, &message.parts));
        assert_eq!(message.parts(true).count(), message.parts(false).count() + 1);
        assert_eq!(message.parts(false).last().expect("rows").app_metadata.as_ref(), 17_u64.to_le_bytes());
        assert!(message.parts(true).next().expect("a schema").flight_descriptor.is_some());
    }

    proptest! {
        #[test]
        fn a_damaged_one_is_none(at in 0_usize..10_000, flip in 1_u8..) {
            let mut bytes = message().to_bytes();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            prop_assert!(Message::from_bytes(&bytes).is_none());
            bytes.truncate(at);
            prop_assert!(Message::from_bytes(&bytes).is_none());
        }
    }
}
