//! Rows that are not sealed yet: one growing table of columns each.
//!
//! Small batches of many senders are copied together as they come, text as numbers of words, so that a seal has one
//! batch to sort, whatever the size of messages was.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array as _, ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{DataType, Field, Schema};
use foldhash::fast::RandomState;
use iotrail_format::schema::Table;
use iotrail_trail::{arrow_schema, arrow_type};

/// Rows of one table.
pub struct Tail {
    table: &'static Table,
    columns: Vec<Column>,
    rows: usize,
    /// Row from which on rows came at a time, ns since the epoch.
    came: Vec<(usize, i64)>,
}

enum Column {
    Int(Vec<i64>, NullBufferBuilder),
    Double(Vec<f64>, NullBufferBuilder),
    Text(StringBuilder),
    Word(Vec<i32>, NullBufferBuilder, Words),
}

/// Words by number.
#[derive(Default)]
pub struct Words {
    numbers: HashMap<Arc<str>, i32, RandomState>,
    words: Vec<Arc<str>>,
}

impl Words {
    /// The number of a word.
    pub fn number(&mut self, word: &str) -> i32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = self.words.len() as i32;
        let word: Arc<str> = word.into();
        self.words.push(word.clone());
        self.numbers.insert(word, number);
        number
    }

    /// All of them as an array.
    pub fn array(&self) -> StringArray {
        StringArray::from_iter_values(&self.words)
    }
}

impl Tail {
    /// An empty one.
    #[must_use]
    pub fn new(table: &'static Table) -> Self {
        let nulls = || NullBufferBuilder::new(0);
        let columns = table.columns.iter().map(|column| match arrow_type(column) {
            DataType::Int64 => Column::Int(Vec::new(), nulls()),
            DataType::Float64 => Column::Double(Vec::new(), nulls()),
            DataType::Utf8 => Column::Text(StringBuilder::new()),
            _ => Column::Word(Vec::new(), nulls(), Words::default()),
        });
        Self { table, columns: columns.collect(), rows: 0, came: Vec::new() }
    }

    /// Rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows of [`arrow_schema`] that came at a time.
    pub fn append(&mut self, batch: &RecordBatch, since: i64) {
        if batch.num_rows() == 0 {
            return;
        }
        for (column, given) in self.columns.iter_mut().zip(batch.columns()) {
            column.append(given);
        }
        if self.came.last().is_none_or(|(_, last)| *last != since) {
            self.came.push((self.rows, since));
        }
        self.rows += batch.num_rows();
    }

    /// Takes all rows out, and when they came.
    pub fn take(&mut self) -> (RecordBatch, Vec<(usize, i64)>) {
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        // A null where none may be is found where rows are written, which can do without some.
        let schema = arrow_schema(self.table);
        let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
        let fields: Vec<Field> = fields.collect();
        let batch = RecordBatch::try_new(Schema::new(fields).into(), columns);
        self.rows = 0;
        (batch.expect("columns are those of the table"), std::mem::take(&mut self.came))
    }
}

impl Column {
    fn append(&mut self, given: &ArrayRef) {
        let append_nulls = |nulls: &mut NullBufferBuilder| match given.nulls() {
            Some(given) => nulls.append_buffer(given),
            None => nulls.append_n_non_nulls(given.len()),
        };
        match self {
            Self::Int(values, nulls) => {
                values.extend_from_slice(given.as_primitive::<Int64Type>().values());
                append_nulls(nulls);
            }
            Self::Double(values, nulls) => {
                values.extend_from_slice(given.as_primitive::<Float64Type>().values());
                append_nulls(nulls);
            }
            Self::Text(texts) => given.as_string::<i32>().iter().for_each(|text| texts.append_option(text)),
            Self::Word(keys, nulls, words) => {
                let given = given.as_dictionary::<Int32Type>();
                let numbers: Vec<Option<i32>> = given
                    .values()
                    .as_string::<i32>()
                    .iter()
                    .map(|word| word.map(|word| words.number(word)))
                    .collect();
                if given.null_count() == 0 && numbers.iter().all(Option::is_some) {
                    let numbers: Vec<i32> = numbers.into_iter().flatten().collect();
                    keys.extend(given.keys().values().iter().map(|key| numbers[*key as usize]));
                    nulls.append_n_non_nulls(given.len());
                    return;
                }
                for key in given.keys_iter() {
                    let number = key.and_then(|key| numbers[key]);
                    keys.push(number.unwrap_or(0));
                    nulls.append(number.is_some());
                }
            }
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(values, nulls) => {
                Arc::new(Int64Array::new(std::mem::take(values).into(), nulls.finish()))
            }
            Self::Double(values, nulls) => {
                Arc::new(Float64Array::new(std::mem::take(values).into(), nulls.finish()))
            }
            Self::Text(texts) => Arc::new(texts.finish()),
            Self::Word(keys, nulls, words) => {
                let keys = Int32Array::new(std::mem::take(keys).into(), nulls.finish());
                let words = std::mem::take(words).array();
                Arc::new(DictionaryArray::new(keys, Arc::new(words)))
            }
        }
    }
}
