//! Units of values, and their conversion to base units: nanoseconds, bytes, bytes per second, watts.

use toml::{Table, Value};

use super::error::{FileError, show};
use crate::bounds::Bounds;

/// What units of a value say: one for all its numbers, or one for each key of its tables.
pub(super) enum Units<'a> {
    One(&'a str),
    Each(&'a Table),
}

/// What a unit measures, and how much of the base unit it is.
pub(super) struct Unit {
    pub name: &'static str,
    /// Appended to the key for the field's name.
    pub suffix: &'static str,
    /// Base units in one; of `rpm` the time of a revolution, in another way.
    factor: f64,
    /// Whether values in the base unit are rounded to whole numbers.
    pub is_whole: bool,
}

const fn whole(name: &'static str, suffix: &'static str, factor: f64) -> Unit {
    Unit { name, suffix, factor, is_whole: true }
}

const fn real(name: &'static str, suffix: &'static str, factor: f64) -> Unit {
    Unit { name, suffix, factor, is_whole: false }
}

const RPM: &str = "rpm";
const COUNT: &str = "count";

/// All units. Bytes by the power of 1000 (data sheets) and of 1024 (memory).
pub(super) const UNITS: &[Unit] = &[
    whole("ns", "_ns", 1.0),
    whole("us", "_ns", 1e3),
    whole("ms", "_ns", 1e6),
    whole("s", "_ns", 1e9),
    whole(RPM, "_ns", 60e9),
    whole("B", "_bytes", 1.0),
    whole("kB", "_bytes", 1e3),
    whole("MB", "_bytes", 1e6),
    whole("GB", "_bytes", 1e9),
    whole("TB", "_bytes", 1e12),
    whole("KiB", "_bytes", 1024.0),
    whole("MiB", "_bytes", 1_048_576.0),
    whole("GiB", "_bytes", 1_073_741_824.0),
    whole("TiB", "_bytes", 1_099_511_627_776.0),
    whole("B/s", "_bytes_per_s", 1.0),
    whole("kB/s", "_bytes_per_s", 1e3),
    whole("MB/s", "_bytes_per_s", 1e6),
    whole("GB/s", "_bytes_per_s", 1e9),
    whole("KiB/s", "_bytes_per_s", 1024.0),
    whole("MiB/s", "_bytes_per_s", 1_048_576.0),
    whole("GiB/s", "_bytes_per_s", 1_073_741_824.0),
    real("W", "_w", 1.0),
    real("mW", "_w", 1e-3),
    real("ratio", "", 1.0),
    real("%", "", 1e-2),
    whole(COUNT, "", 1.0),
];

/// Numbers in base units are below this, so that they fit 64 bits with a sign.
const MOST: f64 = 9_223_372_036_854_775_808.0;

impl Unit {
    /// Whether values in this unit must be whole themselves, not only after rounding.
    pub fn is_counted(&self) -> bool {
        self.name == COUNT
    }

    /// Bounds of values in this unit for bounds in the base unit.
    pub fn bounds(&self, base: Bounds) -> Bounds {
        // A value that is rounded may lie half a base unit beyond a bound.
        let half = if self.is_whole && !self.is_counted() { 0.5 } else { 0.0 };
        let most = base.most.filter(|most| *most < MOST);
        if self.name == RPM {
            return Bounds {
                least: None,
                most: base.least.filter(|least| *least > half).map(|least| self.factor / (least - half)),
                above: Some(self.factor / most.map_or(MOST, |most| most + half)),
                below: None,
            };
        }
        // Nothing negative is rounded to 0.
        let least = base.least.map(|least| if least > 0.0 { (least - half) / self.factor } else { least });
        let rounds = half > 0.0;
        Bounds {
            least,
            most: most.filter(|_| !rounds).map(|most| most / self.factor),
            above: match (least, base.above) {
                (None, above) => Some(above.unwrap_or(-MOST) / self.factor),
                (Some(_), above) => above.map(|above| above / self.factor),
            },
            below: match (most, base.below) {
                (Some(most), _) if rounds => Some((most + half) / self.factor),
                (Some(_), below) => below.map(|below| below / self.factor),
                (None, below) => Some(below.unwrap_or(MOST) / self.factor),
            },
        }
    }
}

/// How the name of a field ends that has a unit, such as `_ns`. None if it has none.
pub(super) fn suffix_of(field: &str) -> Option<&'static str> {
    UNITS.iter().map(|unit| unit.suffix).find(|suffix| !suffix.is_empty() && field.ends_with(suffix))
}

/// The unit of a name.
pub(super) fn unit_of(place: &str, name: &str) -> Result<&'static Unit, FileError> {
    let names = || UNITS.iter().map(|unit| unit.name).collect::<Vec<_>>().join(", ");
    UNITS.iter().find(|unit| unit.name == name).ok_or_else(|| {
        FileError::new(format!("{place}.unit"), format!("one of {}", names()), format!("{name:?}"))
    })
}

/// Lists of tables whose keys have units of their own, in base units under the names of fields.
pub(super) fn in_base_units(place: &str, value: &Value, units: &Table) -> Result<Value, FileError> {
    match value {
        Value::Array(list) => {
            let list = list.iter().map(|value| in_base_units(place, value, units));
            Ok(Value::Array(list.collect::<Result<_, _>>()?))
        }
        Value::Table(table) => {
            let mut fields = Table::new();
            for (key, value) in table {
                let place = format!("{place}.{key}");
                if suffix_of(key).is_some() {
                    return Err(FileError::new(
                        place,
                        "a key without a unit in its name",
                        format!("{key:?}"),
                    ));
                }
                let name = units.get(key).and_then(Value::as_str);
                let name =
                    name.ok_or_else(|| FileError::new(&place, "a unit of that key", show(units.get(key))))?;
                let unit = unit_of(&place, name)?;
                fields.insert(format!("{key}{}", unit.suffix), in_base_unit(&place, value, unit)?);
            }
            Ok(Value::Table(fields))
        }
        other => {
            Err(FileError::new(format!("{place}.value"), "tables with the keys of unit", show(Some(other))))
        }
    }
}

/// A number, or each number of a list, in the base unit.
pub(super) fn in_base_unit(place: &str, value: &Value, unit: &Unit) -> Result<Value, FileError> {
    let wrong = |expected: &str| Err(FileError::new(format!("{place}.value"), expected, show(Some(value))));
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Array(list) => {
            let list = list.iter().map(|value| in_base_unit(place, value, unit));
            return Ok(Value::Array(list.collect::<Result<_, _>>()?));
        }
        _ => return wrong("a number"),
    };
    let number = match unit.name {
        RPM if number > 0.0 => unit.factor / number,
        RPM => return wrong("more than 0"),
        _ => number * unit.factor,
    };
    if !number.is_finite() || number.abs() >= MOST {
        return wrong("a number below 2^63 base units");
    }
    if !unit.is_whole {
        return Ok(Value::Float(number));
    }
    if unit.is_counted() && number.fract() != 0.0 {
        return wrong("a whole number");
    }
    // What is negative stays so.
    let rounded = if number < 0.0 { number.floor() } else { number.round() };
    Ok(Value::Integer(rounded as i64))
}
