//! Rows as they come: Arrow IPC messages, decoded and looked at before anything is kept of them.
//!
//! A peer may send anything. The schema is compared with the table's before a batch is decoded, Arrow validates what it
//! decodes, and a panic of the decoder is a malformed message. What is accepted is [`Rows`]: the batch, and the bytes
//! of an IPC stream that holds just it, which is what the log keeps.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::SchemaRef;
use bytes::{Buf as _, Bytes};
use iotrail_format::schema::Table;
use iotrail_trail::conform;

/// Latest `ts` that is believed, ns since the epoch: 2200-01-01. Later ones overflow when a query adds to them.
const LATEST_TS: i64 = 7_258_118_400_000_000_000;

/// What precedes a message of an IPC stream (format specification, "Encapsulated message format").
const CONTINUATION: [u8; 4] = [0xff; 4];

thread_local! {
    /// Whether this thread decodes what a peer sent.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics of the decoder, which are answered, from being printed as a fault of this program. Once a process.
pub fn quiet_decoder() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                before(panic);
            }
        }));
    });
}

/// Rows of one table that conform to it.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The table.
    pub table: &'static Table,
    /// The rows, of [`iotrail_trail::arrow_schema`].
    pub batch: RecordBatch,
    /// The messages of an Arrow IPC stream of just these rows.
    pub ipc: Vec<Bytes>,
}

impl Rows {
    /// Bytes of the IPC stream.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ipc.iter().map(Bytes::len).sum()
    }

    /// Rows made here, of [`iotrail_trail::arrow_schema`].
    ///
    /// # Errors
    /// What Arrow says.
    pub fn of(table: &'static Table, batch: RecordBatch) -> Result<Self, arrow_schema::ArrowError> {
        let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
        stream.write(&batch)?;
        Ok(Self { table, batch, ipc: vec![stream.into_inner()?.into()] })
    }
}

/// Decodes one stream of IPC messages of a table.
pub struct Decoder {
    table: &'static Table,
    schema: Option<(SchemaRef, Bytes)>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// The messages that made `dictionaries`.
    words: BTreeMap<i64, Bytes>,
}

impl Decoder {
    /// Of a table.
    #[must_use]
    pub fn new(table: &'static Table) -> Self {
        Self { table, schema: None, dictionaries: HashMap::new(), words: BTreeMap::new() }
    }

    /// Takes one message: flatbuffer and body. Returns its rows if it has some.
    ///
    /// # Errors
    /// What was expected and found.
    pub fn message(&mut self, header: &[u8], body: &Bytes) -> Result<Option<Rows>, String> {
        // Arrow's reader believes what a message says of its lengths, and panics where that can't be.
        DECODING.set(true);
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decode(header, body)));
        DECODING.set(false);
        decoded.unwrap_or_else(|_| Err("its lengths contradict each other".to_owned()))
    }

    fn decode(&mut self, header: &[u8], body: &Bytes) -> Result<Option<Rows>, String> {
        let message = root_as_message(header).map_err(|e| format!("not an Arrow IPC message: {e}"))?;
        let raw = || encapsulated(header, body);
        match message.header_type() {
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or("a schema message without a schema")?;
                let schema =
                    try_fb_to_schema(schema).map_err(|e| format!("a schema that can't be read: {e}"))?;
                let schema = SchemaRef::new(schema);
                // An empty batch of the schema tells what doesn't fit before there are rows to decode.
                conform(self.table, &RecordBatch::new_empty(schema.clone())).map_err(|e| e.to_string())?;
                self.schema = Some((schema, raw()));
                self.dictionaries.clear();
                self.words.clear();
                Ok(None)
            }
            MessageHeader::DictionaryBatch => {
                let (schema, _) = self.schema.as_ref().ok_or("a dictionary before the schema")?;
                let words = message.header_as_dictionary_batch().ok_or("a dictionary message without one")?;
                if words.isDelta() {
                    return Err("a delta of a dictionary; send the whole dictionary again".to_owned());
                }
                let known = &mut self.dictionaries;
                let data = words.data().ok_or("a dictionary without words")?;
                within(data.buffers(), body)?;
                read_dictionary(&Buffer::from(body.clone()), words, schema, known, &message.version())
                    .map_err(|e| format!("a dictionary that can't be decoded: {e}"))?;
                self.words.insert(words.id(), raw());
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let (schema, raw_schema) = self.schema.as_ref().ok_or("rows before the schema")?;
                let batch = message.header_as_record_batch().ok_or("a message of rows without rows")?;
                within(batch.buffers(), body)?;
                let buffer = Buffer::from(body.clone());
                let known = &self.dictionaries;
                let batch =
                    read_record_batch(&buffer, batch, schema.clone(), known, None, &message.version())
                        .map_err(|e| format!("rows that can't be decoded: {e}"))?;
                let batch = conform(self.table, &batch).map_err(|e| e.to_string())?;
                believe(self.table, &batch)?;
                let messages = std::iter::once(raw_schema).chain(self.words.values()).cloned();
                let ipc = messages.chain([raw()]).collect();
                Ok(Some(Rows { table: self.table, batch, ipc }))
            }
            MessageHeader::NONE => Ok(None),
            other => Err(format!("expected a schema, a dictionary or rows, found {other:?}")),
        }
    }
}

/// The rows of a whole IPC stream of one batch, as [`Rows::ipc`] holds it.
///
/// # Errors
/// What was expected and found.
pub fn from_ipc(table: &'static Table, mut stream: Bytes) -> Result<RecordBatch, String> {
    let mut decoder = Decoder::new(table);
    while stream.remaining() >= 8 {
        if stream.split_to(4)[..] != CONTINUATION {
            return Err("not an Arrow IPC stream".to_owned());
        }
        let length = stream.get_u32_le() as usize;
        if length == 0 {
            break;
        }
        if length > stream.remaining() {
            return Err("an Arrow IPC stream that is cut off".to_owned());
        }
        let header = stream.split_to(length);
        let body = root_as_message(&header).map_err(|e| e.to_string())?.bodyLength();
        let body = usize::try_from(body).ok().filter(|length| *length <= stream.remaining());
        let body = stream.split_to(body.ok_or("an Arrow IPC stream that is cut off")?);
        if let Some(rows) = decoder.message(&header, &body)? {
            return Ok(rows.batch);
        }
    }
    Err("an Arrow IPC stream without rows".to_owned())
}

/// Refuses buffers that lie outside of the body.
fn within(buffers: Option<flatbuffers::Vector<'_, arrow_ipc::Buffer>>, body: &Bytes) -> Result<(), String> {
    let lies_within = |buffer: &arrow_ipc::Buffer| {
        let end = buffer.offset().checked_add(buffer.length());
        buffer.offset() >= 0 && buffer.length() >= 0 && end.is_some_and(|end| end as u64 <= body.len() as u64)
    };
    match buffers.into_iter().flatten().find(|buffer| !lies_within(buffer)) {
        None => Ok(()),
        Some(out) => {
            let (offset, length) = (out.offset(), out.length());
            Err(format!("a buffer of {length} bytes at {offset}, in a body of {}", body.len()))
        }
    }
}

/// A message as an IPC stream has it.
fn encapsulated(header: &[u8], body: &Bytes) -> Bytes {
    let padded = header.len().next_multiple_of(8);
    let mut bytes = Vec::with_capacity(8 + padded + body.len());
    bytes.extend_from_slice(&CONTINUATION);
    bytes.extend_from_slice(&(padded as u32).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes.resize(8 + padded, 0);
    bytes.extend_from_slice(body);
    bytes.into()
}

/// Refuses times that can't be: they would break what queries compute for all other rows.
fn believe(table: &'static Table, batch: &RecordBatch) -> Result<(), String> {
    let within = |name: &str, least: i64, most: i64| -> Result<(), String> {
        let Some(at) = table.columns.iter().position(|column| column.name == name) else { return Ok(()) };
        let column = batch.column(at).as_primitive::<Int64Type>();
        let bad = (0..column.len())
            .find(|&row| column.is_valid(row) && !(least..=most).contains(&column.value(row)));
        bad.map_or(Ok(()), |row| {
            Err(format!(
                "table {}: column {name:?} of row {row}: expected {least} to {most} ns, found {}",
                table.name,
                column.value(row)
            ))
        })
    };
    for name in ["ts", "start_ts", "end_ts"] {
        within(name, 1, LATEST_TS)?;
    }
    within("dur", 0, LATEST_TS)
}
