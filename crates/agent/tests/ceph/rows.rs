//! Rows of batches, to be looked into.

use std::collections::HashMap;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array as _, RecordBatch, StringArray};
use iotrail_agent::outbox::Outbox;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Int(i64),
    Double(f64),
    Text(String),
}

impl Cell {
    pub fn int(&self) -> i64 {
        let Self::Int(value) = self else { panic!("{self:?} is no integer") };
        *value
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Text(value) => value,
            Self::Null => "",
            other => panic!("{other:?} is no text"),
        }
    }
}

/// One row by column.
pub type Row = HashMap<String, Cell>;

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let mut rows = vec![Row::new(); batch.num_rows()];
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let words = column
            .as_any_dictionary_opt()
            .map(|_| column.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().expect("text"));
        for (i, row) in rows.iter_mut().enumerate() {
            let cell = if column.is_null(i) {
                Cell::Null
            } else if let Some(words) = &words {
                Cell::Text(arrow_array::ArrayAccessor::value(words, i).to_owned())
            } else if let Some(ints) = column.as_primitive_opt::<Int64Type>() {
                Cell::Int(ints.value(i))
            } else if let Some(doubles) = column.as_primitive_opt::<Float64Type>() {
                Cell::Double(doubles.value(i))
            } else {
                Cell::Text(column.as_string::<i32>().value(i).to_owned())
            };
            row.insert(field.name().clone(), cell);
        }
    }
    rows
}

/// Takes all rows, by table.
pub fn take(out: &mut Outbox) -> HashMap<&'static str, Vec<Row>> {
    let mut all: HashMap<_, Vec<Row>> = HashMap::new();
    for (table, batch) in out.take() {
        iotrail_trail::conform(table, &batch).unwrap_or_else(|e| panic!("{}: {e}", table.name));
        all.entry(table.name).or_default().extend(rows(&batch));
    }
    all
}
