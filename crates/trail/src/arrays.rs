//! Arrays and batches out of plain values: what all makers of rows share.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use iotrail_format::call::{Call, WaitKind};
use iotrail_format::schema::{ColumnType, Table};

use crate::columns::{conform, sort};
use crate::error::{ArrowContext as _, Error};

/// A BIGINT column with nulls. Arrow's builder branches on each value; this is a tenth of sealing.
pub struct Nullable {
    values: Vec<i64>,
    /// Validity of the values, 64 a word, the last word still in `word`.
    words: Vec<u64>,
    word: u64,
    nulls: usize,
}

impl Nullable {
    /// An empty column with room for rows.
    #[must_use]
    pub fn new(rows: usize) -> Self {
        let words = Vec::with_capacity(rows.div_ceil(64));
        Self { values: Vec::with_capacity(rows), words, word: 0, nulls: 0 }
    }

    /// Adds a value, or null where it isn't valid.
    #[inline(always)]
    pub fn push(&mut self, value: i64, valid: bool) {
        let bit = self.values.len() % 64;
        self.values.push(if valid { value } else { 0 });
        self.word |= u64::from(valid) << bit;
        self.nulls += usize::from(!valid);
        if bit == 63 {
            self.words.push(std::mem::take(&mut self.word));
        }
    }

    /// The column.
    #[must_use]
    pub fn finish(mut self) -> ArrayRef {
        let rows = self.values.len();
        let nulls = (self.nulls != 0).then(|| {
            if !rows.is_multiple_of(64) {
                self.words.push(self.word);
            }
            NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(self.words), 0, rows))
        });
        Arc::new(Int64Array::new(ScalarBuffer::from(self.values), nulls))
    }
}

/// A BIGINT column without nulls.
#[must_use]
pub fn ints(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

/// A text column that holds a few names again and again, by their position in `names`.
///
/// # Panics
/// If a key is no position.
#[must_use]
pub fn named(keys: Vec<i32>, names: StringArray) -> ArrayRef {
    let keys = Int32Array::from(keys);
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(names)))
}

/// A text column of one text.
#[must_use]
pub fn repeated(text: &str, rows: usize) -> ArrayRef {
    named(vec![0; rows], StringArray::from(vec![text]))
}

/// Names of calls, in the order of [`Call::ALL`].
#[must_use]
pub fn call_names() -> StringArray {
    Call::ALL.iter().map(|call| Some(call.name())).collect()
}

/// Wait kinds by number, and one more for what a later recorder may add.
pub const WAIT_KINDS: i32 = 32;

/// Names of what is waited for, by number.
#[must_use]
pub fn wait_names() -> StringArray {
    (0..WAIT_KINDS as u8)
        .map(|number| Some(WaitKind::from_number(number).map_or("unknown", WaitKind::name)))
        .collect()
}

/// A value of a small table.
#[derive(Clone, Debug)]
pub enum Value {
    /// BIGINT.
    Int(i64),
    /// VARCHAR.
    Text(String),
    /// Null.
    Null,
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Rows of a small table as a batch, in the table's order.
///
/// # Errors
/// Those of [`conform`]: a value that isn't of its column.
///
/// # Panics
/// If a row has fewer values than the table has columns.
pub fn batch(table: &'static Table, rows: Vec<Vec<Value>>) -> Result<RecordBatch, Error> {
    let columns = table.columns.iter().enumerate().map(|(at, column)| {
        let values = rows.iter().map(|row| &row[at]);
        let array: ArrayRef = match column.ty {
            ColumnType::Text => Arc::new(StringArray::from_iter(values.map(|value| match value {
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            }))),
            _ => Arc::new(Int64Array::from_iter(values.map(|value| match value {
                Value::Int(value) => Some(*value),
                _ => None,
            }))),
        };
        (column.name, array)
    });
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.map(|(name, array)| (name, array, true)).collect::<Vec<_>>(),
    )
    .when("make rows of a table")?;
    sort(table, &conform(table, &batch)?)
}

/// Text, whatever the bytes: what is no UTF-8 is replaced.
#[must_use]
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
