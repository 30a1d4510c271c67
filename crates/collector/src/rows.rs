//! Rows as they come: Arrow IPC messages, decoded and looked at before anything is kept of them.
//!
//! A peer may send anything. The schema is compared with the table's before a batch is decoded, Arrow validates what it
//! decodes, and a panic of the decoder is a malformed message. What is accepted is [`Rows`]: the batch, and the bytes
//! of an IPC stream that holds just it, which is what the log keeps.
//!
//! A message of some kilobytes can stand for gigabytes: a text in a dictionary, or behind views, counts each time a row
//! names it, and rows of nulls take no bytes at all. Sealing writes all that out. So what a message decodes to is
//! [measured](decoded_bytes) and bounded before it is decoded into the form of its table, and acknowledged.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use arrow_array::cast::AsArray as _;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{Array, ArrayRef, RecordBatch, downcast_dictionary_array};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::{DataType, SchemaRef};
use bytes::{Buf as _, Bytes};
use iotrail_format::schema::Table;
use iotrail_trail::{believable, conform};

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
    /// See [`decoded_bytes`].
    pub decoded: u64,
}

impl Rows {
    /// Bytes of the IPC stream.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ipc.iter().map(Bytes::len).sum()
    }

    /// Bytes of memory that the rows take until they are sealed: of the stream, or of what it decodes to.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes().max(usize::try_from(self.decoded).unwrap_or(usize::MAX))
    }

    /// Rows made here, of [`iotrail_trail::arrow_schema`].
    ///
    /// # Errors
    /// What Arrow says.
    pub fn of(table: &'static Table, batch: RecordBatch) -> Result<Self, arrow_schema::ArrowError> {
        let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
        stream.write(&batch)?;
        let decoded = decoded_bytes(table, &batch);
        Ok(Self { table, batch, ipc: vec![stream.into_inner()?.into()], decoded })
    }
}

/// Bytes that rows take when nothing is shared between them any more: eight for each number, and each text as often as
/// a row has it.
#[must_use]
pub fn decoded_bytes(table: &'static Table, batch: &RecordBatch) -> u64 {
    let numbers = numbers_bytes(table, batch.num_rows() as u64);
    batch.columns().iter().fold(numbers, |sum, column| sum.saturating_add(text_bytes(column)))
}

fn numbers_bytes(table: &'static Table, rows: u64) -> u64 {
    rows.saturating_mul(8 * table.columns.len() as u64)
}

/// Bytes of a column's texts, each as often as a row has it; 0 of a column without texts.
fn text_bytes(array: &ArrayRef) -> u64 {
    fn repeated<K: ArrowDictionaryKeyType>(array: &arrow_array::DictionaryArray<K>) -> u64 {
        let lengths = text_lengths(array.values());
        let of_row = |key: usize| lengths.get(key).copied().unwrap_or(0);
        array.keys_iter().flatten().fold(0, |sum: u64, key| sum.saturating_add(of_row(key)))
    }
    downcast_dictionary_array!(
        array => repeated(array),
        _ => text_lengths(array).into_iter().fold(0, u64::saturating_add)
    )
}

/// The length of each text, in bytes; empty of an array without texts.
fn text_lengths(array: &ArrayRef) -> Vec<u64> {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().offsets().lengths().map(|length| length as u64).collect(),
        DataType::LargeUtf8 => {
            array.as_string::<i64>().offsets().lengths().map(|length| length as u64).collect()
        }
        // The length is in the low half of a view (columnar format, "Variable-size Binary View Layout").
        DataType::Utf8View => {
            array.as_string_view().views().iter().map(|view| u64::from(*view as u32)).collect()
        }
        _ => Vec::new(),
    }
}

/// Decodes one stream of IPC messages of a table.
pub struct Decoder {
    table: &'static Table,
    /// Bytes that a message may decode to.
    most: u64,
    schema: Option<(SchemaRef, Bytes)>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// The messages that made `dictionaries`.
    words: BTreeMap<i64, Bytes>,
}

impl Decoder {
    /// Of a table. A message may decode to `most` bytes.
    #[must_use]
    pub fn new(table: &'static Table, most: u64) -> Self {
        Self { table, most, schema: None, dictionaries: HashMap::new(), words: BTreeMap::new() }
    }

    /// Refuses what decodes to too much.
    fn bound(&self, bytes: u64) -> Result<(), String> {
        if bytes <= self.most {
            return Ok(());
        }
        Err(format!("rows that decode to {bytes} bytes; expected at most {}: send fewer at once", self.most))
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
                let nested = schema.fields().iter().find(|field| is_nested(field.data_type()));
                if let Some(field) = nested {
                    let (name, found) = (field.name(), field.data_type());
                    return Err(format!("column {name:?}: expected a dictionary of texts, found {found}"));
                }
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
                let rows = u64::try_from(batch.length()).map_err(|_| "a negative number of rows")?;
                // Before columns of nulls are made, which stand for any number of rows without a byte.
                self.bound(numbers_bytes(self.table, rows))?;
                let buffer = Buffer::from(body.clone());
                let known = &self.dictionaries;
                let batch =
                    read_record_batch(&buffer, batch, schema.clone(), known, None, &message.version())
                        .map_err(|e| format!("rows that can't be decoded: {e}"))?;
                let decoded = decoded_bytes(self.table, &batch);
                self.bound(decoded)?;
                let batch = conform(self.table, &batch).map_err(|e| e.to_string())?;
                believable(self.table, &batch).map_err(|e| e.to_string())?;
                let messages = std::iter::once(raw_schema).chain(self.words.values()).cloned();
                let ipc = messages.chain([raw()]).collect();
                Ok(Some(Rows { table: self.table, batch, ipc, decoded }))
            }
            MessageHeader::NONE => Ok(None),
            other => Err(format!("expected a schema, a dictionary or rows, found {other:?}")),
        }
    }
}

/// The rows of a whole IPC stream of one batch, as [`Rows::ipc`] holds it. They may decode to `most` bytes.
///
/// # Errors
/// What was expected and found.
pub fn from_ipc(table: &'static Table, mut stream: Bytes, most: u64) -> Result<RecordBatch, String> {
    let mut decoder = Decoder::new(table, most);
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

/// Whether a dictionary's words are themselves numbers of words, or no texts at all.
fn is_nested(found: &DataType) -> bool {
    let DataType::Dictionary(_, words) = found else { return false };
    !matches!(**words, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::{Int8Type, Int32Type, Int64Type};
    use arrow_array::{
        DictionaryArray, Int8Array, Int32Array, Int64Array, NullArray, StringArray, StringViewArray,
    };
    use iotrail_format::schema::{FILE, PROCESS};

    use super::*;

    const MOST: u64 = 1 << 20;

    fn decode(table: &'static Table, columns: Vec<(&str, ArrayRef)>) -> Result<u64, String> {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        );
        let batch = batch.expect("columns of a length");
        let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
        stream.write(&batch).unwrap();
        let stream = Bytes::from(stream.into_inner().unwrap());
        assert!(stream.len() < 400_000, "{} bytes", stream.len());
        from_ipc(table, stream, MOST).map(|batch| decoded_bytes(table, &batch))
    }

    fn files(paths: ArrayRef) -> Vec<(&'static str, ArrayRef)> {
        let rows = paths.len();
        let nodes: DictionaryArray<Int32Type> = std::iter::repeat_n("n-1", rows).collect();
        let ids = Int64Array::from_iter_values(1..=rows as i64);
        vec![("node", Arc::new(nodes)), ("file", Arc::new(ids)), ("path", paths)]
    }

    #[test]
    fn a_text_counts_as_often_as_rows_have_it() {
        let long = "x".repeat(1000);
        let dictionary = |rows: i8| -> ArrayRef {
            let keys = Int8Array::from_iter_values((0..rows).map(|row| row % 2));
            let words = StringArray::from(vec![long.as_str(), "y"]);
            Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(words)))
        };
        assert_eq!(decode(&FILE, files(dictionary(100))), Ok(100 * 8 * 3 + 100 * 3 + 50 * 1001));
        let plain: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(); 100]));
        assert_eq!(decode(&FILE, files(plain)), Ok(100 * 8 * 3 + 100 * 3 + 100 * 1000));
    }

    #[test]
    fn a_small_message_that_stands_for_much_is_refused() {
        let long = "x".repeat(100_000);
        let keys = Int32Array::from_iter_values(std::iter::repeat_n(0, 4000));
        let words: ArrayRef = Arc::new(StringArray::from(vec![long.as_str()]));
        let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, words));
        let refused = decode(&FILE, files(dictionary)).unwrap_err();
        assert_eq!(
            refused,
            "rows that decode to 400108000 bytes; expected at most 1048576: send fewer at once"
        );

        // One text behind many views.
        let text = StringViewArray::from_iter_values([long.as_str()]);
        let views = arrow_buffer::ScalarBuffer::from(vec![text.views()[0]; 4000]);
        let views = StringViewArray::new(views, text.data_buffers().to_vec(), None);
        assert!(decode(&FILE, files(Arc::new(views))).unwrap_err().contains("decode to"));

        // Numbers of numbers of a text, which Arrow's own writer doesn't write.
        let words = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
        assert!(is_nested(&DataType::Dictionary(DataType::Int32.into(), words.clone().into())));
        assert!(!is_nested(&words));

        // Rows without a byte.
        let nulls = || -> ArrayRef { Arc::new(NullArray::new(1 << 40)) };
        let columns = PROCESS.columns.iter().map(|column| (column.name, nulls())).collect();
        assert!(decode(&PROCESS, columns).unwrap_err().contains("decode to"));
    }

    #[test]
    fn a_type_that_no_table_has_is_refused() {
        use arrow_array::RunArray;
        use arrow_array::types::Int16Type;
        let ends = arrow_array::PrimitiveArray::<Int16Type>::from(vec![10_000]);
        let runs = RunArray::try_new(&ends, &StringArray::from(vec!["x"])).unwrap();
        assert!(decode(&FILE, files(Arc::new(runs))).unwrap_err().contains("expected VARCHAR"));
        let list = arrow_array::ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1)])]);
        assert!(decode(&FILE, files(Arc::new(list))).unwrap_err().contains("expected VARCHAR"));
    }
}
