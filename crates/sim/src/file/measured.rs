//! The table `measured`: points behind the values.

use std::collections::BTreeMap;

use toml::Value;

use super::error::{FileError, show};
use super::values::number_of;

/// Points from which values were measured or fitted: by table and column, numbers in the base unit that the column's name
/// ends in. Columns of a table are equally long.
pub type Measured = BTreeMap<String, BTreeMap<String, Vec<f64>>>;

/// Most points of a column.
pub(super) const MOST_POINTS: usize = 10_000;

/// The table `measured`.
pub(super) fn points(value: &Value) -> Result<Measured, FileError> {
    let table_of = |place: &str, value: &Value| {
        let table = value.as_table().cloned();
        table.ok_or_else(|| FileError::new(place, "a table of lists", show(Some(value))))
    };
    let mut measured = Measured::new();
    for (name, columns) in table_of("measured", value)? {
        let place = format!("measured.{name}");
        let mut found = BTreeMap::new();
        for (column, list) in table_of(&place, &columns)? {
            let numbers: Option<Vec<f64>> =
                list.as_array().and_then(|list| list.iter().map(number_of).collect());
            let numbers = numbers.filter(|numbers| numbers.len() <= MOST_POINTS).ok_or_else(|| {
                let expected = format!("a list of at most {MOST_POINTS} numbers");
                FileError::new(format!("{place}.{column}"), expected, show(Some(&list)))
            })?;
            if let Some(first) = found.values().next().map(Vec::len)
                && first != numbers.len()
            {
                let expected = format!("{first} numbers, as in its other columns");
                return Err(FileError::new(format!("{place}.{column}"), expected, numbers.len().to_string()));
            }
            found.insert(column, numbers);
        }
        measured.insert(name, found);
    }
    Ok(measured)
}
