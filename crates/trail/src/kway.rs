//! Merging sorted files into one sorted stream, with bounded memory.
//!
//! Each source holds one decoded batch. Keys are compared as `arrow-row` bytes, which order like the
//! columns do. Rows leave by runs: all rows of the smallest source up to the next source's first, found
//! by bisection, so that files that barely overlap cost a few comparisons.
//!
//! Constraints: a source's rows are in the table's declared order. Rows that tie come in the order of
//! the sources, so that the result is the same each time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_row::{OwnedRow, RowConverter, Rows, SortField};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use iotrail_format::schema::Table;

use crate::columns::{ASCENDING, arrow_schema, arrow_type, position};
use crate::error::{ArrowContext as _, Error};

/// Rows a merged batch has, except the last.
const OUTPUT_ROWS: usize = 8192;

/// Where rows come from: batches of [`arrow_schema`].
pub(crate) type Input = Box<dyn Iterator<Item = Result<RecordBatch, Error>>>;

/// A sorted stream of batches.
pub(crate) struct Merged {
    table: &'static Table,
    /// Columns of the key: the declared order, and all others where equal rows are to become one.
    key: Vec<usize>,
    converter: RowConverter,
    words: Words,
    sources: Vec<Source>,
    heap: BinaryHeap<Reverse<(OwnedRow, usize)>>,
    /// Batches that chosen rows lie in; a source's current one is `sources[i].slot`.
    slots: Vec<Vec<ArrayRef>>,
    chosen: Vec<(usize, usize)>,
    /// Drops rows equal to their predecessor, which is kept here.
    unique: Option<Option<OwnedRow>>,
    /// Rows dropped.
    pub(crate) dropped: u64,
}

struct Source {
    input: Input,
    keys: Rows,
    slot: usize,
    at: usize,
}

impl Merged {
    /// Merges the inputs. With `unique`, rows that are equal in all columns become one.
    pub(crate) fn new(table: &'static Table, inputs: Vec<Input>, unique: bool) -> Result<Self, Error> {
        let at = |name: &&str| position(table, name).expect("a table's order names its columns");
        let mut key: Vec<usize> = table.order.iter().map(at).collect();
        if unique {
            let rest: Vec<usize> = (0..table.columns.len()).filter(|at| !key.contains(at)).collect();
            key.extend(rest);
        }
        let fields = key.iter().map(|&at| {
            let plain = match arrow_type(&table.columns[at]) {
                DataType::Dictionary(_, values) => *values,
                other => other,
            };
            SortField::new_with_options(plain, ASCENDING)
        });
        let mut merged = Self {
            table,
            converter: RowConverter::new(fields.collect()).when("compare rows")?,
            key,
            words: Words::default(),
            sources: Vec::new(),
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            chosen: Vec::new(),
            unique: unique.then_some(None),
            dropped: 0,
        };
        for input in inputs {
            let keys = merged.converter.empty_rows(0, 0);
            merged.sources.push(Source { input, keys, slot: usize::MAX, at: 0 });
            merged.advance(merged.sources.len() - 1)?;
        }
        Ok(merged)
    }

    /// Puts a source back into the heap, with its next batch if the current one is used up.
    fn advance(&mut self, index: usize) -> Result<(), Error> {
        let source = &mut self.sources[index];
        while source.at == source.keys.num_rows() {
            let Some(batch) = source.input.next() else { return Ok(()) };
            let batch = batch?;
            let keys: Vec<ArrayRef> = self.key.iter().map(|&at| plain(batch.column(at))).collect();
            source.keys = self.converter.convert_columns(&keys).when("compare rows")?;
            source.at = 0;
            source.slot = self.slots.len();
            self.slots.push(batch.columns().iter().map(|column| self.words.encode(column)).collect());
        }
        self.heap.push(Reverse((source.keys.row(source.at).owned(), index)));
        Ok(())
    }

    /// Chooses the next run of rows. False if there are none.
    fn step(&mut self) -> Result<bool, Error> {
        let Some(Reverse((_, index))) = self.heap.pop() else { return Ok(false) };
        let source = &mut self.sources[index];
        let limit = source.keys.num_rows().min(source.at + OUTPUT_ROWS - self.chosen.len());
        let end = match self.heap.peek() {
            None => limit,
            Some(Reverse((next, other))) => {
                let before = |row: usize| {
                    let row = source.keys.row(row);
                    row < next.row() || (row == next.row() && index < *other)
                };
                // At least the row that was the smallest; then bisect.
                let (mut low, mut high) = (source.at + 1, limit);
                while low < high {
                    let middle = low + (high - low) / 2;
                    if before(middle) {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                low
            }
        };
        for row in source.at..end {
            if let Some(last) = &mut self.unique {
                let key = source.keys.row(row);
                if last.as_ref().is_some_and(|last| last.row() == key) {
                    self.dropped += 1;
                    continue;
                }
                *last = Some(key.owned());
            }
            self.chosen.push((source.slot, row));
        }
        source.at = end;
        self.advance(index)?;
        Ok(true)
    }

    /// Makes a batch of the chosen rows and lets go of the batches that are used up.
    fn take(&mut self) -> Result<RecordBatch, Error> {
        let mut columns = Vec::with_capacity(self.table.columns.len());
        for at in 0..self.table.columns.len() {
            let arrays: Vec<&dyn arrow_array::Array> = self.slots.iter().map(|s| s[at].as_ref()).collect();
            let rows = interleave(&arrays, &self.chosen).when("merge rows")?;
            columns.push(self.words.decode(&self.table.columns[at], rows));
        }
        self.chosen.clear();
        let mut kept = Vec::new();
        for source in &mut self.sources {
            if source.at < source.keys.num_rows() {
                kept.push(std::mem::take(&mut self.slots[source.slot]));
                source.slot = kept.len() - 1;
            }
        }
        self.slots = kept;
        RecordBatch::try_new(arrow_schema(self.table), columns).when("merge rows")
    }
}

impl Iterator for Merged {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step() {
                Err(e) => return Some(Err(e)),
                Ok(true) if self.chosen.len() < OUTPUT_ROWS => {}
                Ok(_) if self.chosen.is_empty() => return None,
                Ok(_) => return Some(self.take()),
            }
        }
    }
}

/// One dictionary for all sources, so that merging moves only keys.
#[derive(Default)]
struct Words {
    numbers: HashMap<String, i32>,
    words: Vec<String>,
}

impl Words {
    /// A dictionary array as keys into this dictionary; any other array as it is.
    fn encode(&mut self, column: &ArrayRef) -> ArrayRef {
        let Some(dictionary) = column.as_dictionary_opt::<Int32Type>() else { return column.clone() };
        let number = |word: Option<&str>| match word {
            Some(word) => *self.numbers.entry(word.to_owned()).or_insert_with(|| {
                self.words.push(word.to_owned());
                (self.words.len() - 1) as i32
            }),
            None => 0,
        };
        let map: Vec<i32> = dictionary.values().as_string::<i32>().iter().map(number).collect();
        let keys = dictionary.keys_iter().map(|key| key.map(|key| map[key]));
        Arc::new(keys.collect::<Int32Array>())
    }

    /// The reverse of `encode` for a column of the table.
    fn decode(&self, column: &iotrail_format::schema::Column, rows: ArrayRef) -> ArrayRef {
        if !matches!(arrow_type(column), DataType::Dictionary(..)) {
            return rows;
        }
        let keys = rows.as_primitive::<Int32Type>().clone();
        let words = StringArray::from_iter_values(&self.words);
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(words)))
    }
}

/// Dictionary text as plain text: keys of rows are compared across dictionaries.
fn plain(column: &ArrayRef) -> ArrayRef {
    match column.as_dictionary_opt::<Int32Type>() {
        Some(dictionary) => {
            let values = dictionary.values().as_string::<i32>();
            let texts = dictionary.keys_iter().map(|key| key.map(|key| values.value(key)));
            Arc::new(texts.collect::<StringArray>())
        }
        None => column.clone(),
    }
}
