//! Values as they stand in a file: `{ value, unit, source, error }`.

use toml::{Table, Value};

use super::error::{FileError, show};
use super::units::{Units, in_base_unit, in_base_units, suffix_of, unit_of};

/// A value of a file as it is written there.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its key, with the path to it.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Its unit; none of a name or a yes or no.
    pub unit: Option<String>,
    /// Where it is from.
    pub source: String,
    /// Its standard error, or one for each number, in the unit of the value. None: not known.
    pub error: Option<Value>,
}

/// A table's values in base units, under the names of fields.
pub(super) fn plain_table(place: &str, table: &Table, entries: &mut Vec<Entry>) -> Result<Table, FileError> {
    let mut fields = Table::new();
    for (key, value) in table {
        let place = format!("{place}.{key}");
        let Some(inner) = value.as_table() else {
            let expected = "a table { value, unit, source }";
            return Err(FileError::new(place, expected, show(Some(value))));
        };
        let (suffix, value) = match inner.get("value") {
            Some(value) => quantity(&place, value, inner, entries)?,
            None => ("", Value::Table(plain_table(&place, inner, entries)?)),
        };
        // The unit of the file takes its place: a count of nanoseconds is none.
        if suffix_of(key).is_some() {
            return Err(FileError::new(place, "a key without a unit in its name", format!("{key:?}")));
        }
        fields.insert(format!("{key}{suffix}"), value);
    }
    Ok(fields)
}

/// A value with unit and source, in its base unit, and how the name of its field ends.
fn quantity(
    place: &str,
    value: &Value,
    table: &Table,
    entries: &mut Vec<Entry>,
) -> Result<(&'static str, Value), FileError> {
    if let Some(other) =
        table.keys().find(|key| !["value", "unit", "source", "error"].contains(&key.as_str()))
    {
        return Err(FileError::new(
            format!("{place}.{other}"),
            "value, unit, source or error",
            "another key",
        ));
    }
    let source = table.get("source");
    let source = source
        .and_then(Value::as_str)
        .filter(|source| !source.is_empty())
        .ok_or_else(|| FileError::new(format!("{place}.source"), "where the value is from", show(source)))?;
    let error = table.get("error").map(|error| standard_error(place, error)).transpose()?;
    let units = match table.get("unit") {
        None => None,
        Some(Value::String(unit)) => Some(Units::One(unit)),
        Some(Value::Table(units)) => Some(Units::Each(units)),
        other => {
            return Err(FileError::new(
                format!("{place}.unit"),
                "a text, or a text for each key",
                show(other),
            ));
        }
    };
    let (suffix, plain) = match (value, &units) {
        (Value::String(_) | Value::Boolean(_), None) => ("", value.clone()),
        (Value::String(_) | Value::Boolean(_), Some(_)) => {
            return Err(FileError::new(format!("{place}.unit"), "none for a name, true or false", "a unit"));
        }
        (_, None) => return Err(FileError::new(format!("{place}.unit"), "a unit", "nothing")),
        (_, Some(Units::One(name))) => {
            let unit = unit_of(place, name)?;
            (unit.suffix, in_base_unit(place, value, unit)?)
        }
        (Value::Array(_), Some(Units::Each(units))) => ("", in_base_units(place, value, units)?),
        (_, Some(Units::Each(_))) => {
            return Err(FileError::new(format!("{place}.value"), "a list of tables", show(Some(value))));
        }
    };
    entries.push(Entry {
        key: place.to_owned(),
        value: value.clone(),
        unit: units.map(|units| match units {
            Units::One(unit) => unit.to_owned(),
            Units::Each(units) => {
                let each =
                    units.iter().map(|(key, unit)| format!("{key} {}", unit.as_str().unwrap_or_default()));
                each.collect::<Vec<_>>().join(", ")
            }
        }),
        source: source.to_owned(),
        error,
    });
    Ok((suffix, plain))
}

/// A standard error: a number that is not negative, or a list of them.
fn standard_error(place: &str, error: &Value) -> Result<Value, FileError> {
    let is_error = |error: &Value| number_of(error).is_some_and(|number| number >= 0.0);
    let is_valid = match error {
        Value::Array(list) => list.iter().all(is_error),
        one => is_error(one),
    };
    if is_valid {
        return Ok(error.clone());
    }
    Err(FileError::new(format!("{place}.error"), "0 or more, in the unit of the value", show(Some(error))))
}

/// A finite number.
pub(super) fn number_of(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64)).filter(|x| x.is_finite())
}
