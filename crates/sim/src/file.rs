//! Device files: TOML that describes a device, each value with its unit and source.
//!
//! ```toml
//! format = 1
//! kind = "fixed"
//! name = "a network volume"
//!
//! [fixed]
//! capacity = { value = 100, unit = "GB", source = "the provider's console" }
//! ```
//!
//! The table named like the kind has the fields of that kind's `Parameters`, without the unit at the end of their names: the
//! file's unit takes its place. `source` says where a value is from: a data sheet, a measurement, a fit, a guess.
//!
//! The table `cache` puts a cache before the device, in memory or in another device; an array has tables `member`. A device in
//! another is the name of one that comes with the program, or a table with `kind` and what belongs to it:
//!
//! ```toml
//! [cache]
//! policy = { value = "lru", source = "chosen" }
//! size = { value = 8, unit = "GB", source = "chosen" }
//! block = { value = 64, unit = "KiB", source = "chosen" }
//! write = { value = "back", source = "chosen" }
//! device = { device = { value = "sata-ssd", source = "comes with iotrail" } }
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::array::{self, Array};
use crate::cached::{self, Cached};
use crate::device::Device;
use crate::disk::{self, Disk};
use crate::fixed::{self, Fixed};
use crate::ssd::{self, Fill, Ssd};

/// Version of the format that is read.
pub const FORMAT: i64 = 1;

/// Why a device file can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct FileError {
    /// The key, with the path to it, or the line.
    pub place: String,
    /// What would be valid.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl FileError {
    fn new(place: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { place: place.into(), expected: expected.into(), found: found.into() }
    }
}

/// Device files that come with the program: name and text.
pub const SHIPPED: [(&str, &str); 5] = [
    ("hdd-10k", include_str!("../devices/hdd-10k.toml")),
    ("hdd-7200", include_str!("../devices/hdd-7200.toml")),
    ("network-volume", include_str!("../devices/network-volume.toml")),
    ("nvme-ssd", include_str!("../devices/nvme-ssd.toml")),
    ("sata-ssd", include_str!("../devices/sata-ssd.toml")),
];

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

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Requests take a fixed time.
    Fixed(fixed::Parameters),
    /// A hard disk.
    Disk(Box<disk::Parameters>),
    /// A flash drive, and what was written to it before.
    Ssd(Box<ssd::Parameters>, Option<Written>),
    /// Several devices as one.
    Array(array::Parameters, Vec<Described>),
}

/// What was written to a flash drive before time 0: the table `written`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Share of its capacity, from 0 to 1.
    pub share: f64,
    /// In which order.
    pub order: Fill,
}

/// A cache before a device: the table `cache`.
#[derive(Clone, Debug, PartialEq)]
pub struct Before {
    /// What it is like.
    pub parameters: cached::Parameters,
    /// The device that is its medium; none of memory.
    pub medium: Option<Box<Described>>,
}

/// A device, and what stands before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// What it is.
    pub kind: Kind,
    /// The cache before it.
    pub cache: Option<Before>,
}

/// Points from which values were measured or fitted: by table and column, numbers in the base unit that the column's name
/// ends in. Columns of a table are equally long.
pub type Measured = BTreeMap<String, BTreeMap<String, Vec<f64>>>;

/// Most points of a column.
const MOST_POINTS: usize = 10_000;

/// A device file that was read and makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFile {
    /// The device's name for people.
    pub name: String,
    /// What it is.
    pub device: Described,
    /// All values.
    pub entries: Vec<Entry>,
    /// The table `measured`: points behind the values; empty if there are none.
    pub measured: Measured,
}

/// What units of a value say: one for all its numbers, or one for each key of its tables.
enum Units<'a> {
    One(&'a str),
    Each(&'a Table),
}

/// What a unit measures, and how much of the base unit it is.
struct Unit {
    /// Appended to the key for the field's name.
    suffix: &'static str,
    /// Base units in one; of `rpm` the time of a revolution, in another way.
    factor: f64,
    /// Whether the field is an integer.
    whole: bool,
}

/// Units by name. Bytes by the power of 1000 (data sheets) and of 1024 (memory).
const UNITS: &[(&str, &str, f64, bool)] = &[
    ("ns", "_ns", 1.0, true),
    ("us", "_ns", 1e3, true),
    ("ms", "_ns", 1e6, true),
    ("s", "_ns", 1e9, true),
    ("rpm", "_ns", 60e9, true),
    ("B", "_bytes", 1.0, true),
    ("kB", "_bytes", 1e3, true),
    ("MB", "_bytes", 1e6, true),
    ("GB", "_bytes", 1e9, true),
    ("TB", "_bytes", 1e12, true),
    ("KiB", "_bytes", 1024.0, true),
    ("MiB", "_bytes", 1_048_576.0, true),
    ("GiB", "_bytes", 1_073_741_824.0, true),
    ("TiB", "_bytes", 1_099_511_627_776.0, true),
    ("B/s", "_bytes_per_s", 1.0, true),
    ("kB/s", "_bytes_per_s", 1e3, true),
    ("MB/s", "_bytes_per_s", 1e6, true),
    ("GB/s", "_bytes_per_s", 1e9, true),
    ("KiB/s", "_bytes_per_s", 1024.0, true),
    ("MiB/s", "_bytes_per_s", 1_048_576.0, true),
    ("GiB/s", "_bytes_per_s", 1_073_741_824.0, true),
    ("W", "_w", 1.0, false),
    ("mW", "_w", 1e-3, false),
    ("ratio", "", 1.0, false),
    ("%", "", 1e-2, false),
    ("count", "", 1.0, true),
];

fn unit_of(place: &str, name: &str) -> Result<Unit, FileError> {
    let found = UNITS.iter().find(|(unit, ..)| *unit == name);
    let known = || UNITS.iter().map(|(unit, ..)| *unit).collect::<Vec<_>>().join(", ");
    let (_, suffix, factor, whole) = *found.ok_or_else(|| {
        FileError::new(format!("{place}.unit"), format!("one of {}", known()), format!("{name:?}"))
    })?;
    Ok(Unit { suffix, factor, whole })
}

impl DeviceFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The first thing in it that is wrong.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count());
            FileError::new(format!("line {}", line.max(1)), "TOML", error.message())
        })?;
        let format = table.get("format");
        if format.and_then(Value::as_integer) != Some(FORMAT) {
            return Err(FileError::new("format", FORMAT.to_string(), show(format)));
        }
        let name = text_of("", &table, "name")?.to_owned();
        let mut reader = Reader { entries: Vec::new(), devices: 0 };
        let device = reader.device("", &table, &["format", "name", "measured"])?;
        let measured = table.get("measured").map(points).transpose()?.unwrap_or_default();
        Ok(Self { name, device, entries: reader.entries, measured })
    }

    /// The device, at rest.
    #[must_use]
    pub fn build(&self) -> Box<dyn Device> {
        self.device.build()
    }

    /// Whether it has platters, so that the distance between requests matters.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        self.device.is_rotational()
    }
}

impl Described {
    /// The device, at rest.
    #[must_use]
    pub fn build(&self) -> Box<dyn Device> {
        let device: Box<dyn Device> = match &self.kind {
            Kind::Fixed(parameters) => Box::new(Fixed::new(parameters.clone())),
            Kind::Disk(parameters) => {
                Box::new(Disk::new((**parameters).clone()).expect("parameters were checked"))
            }
            Kind::Ssd(parameters, written) => {
                let mut ssd = Ssd::new((**parameters).clone()).expect("parameters were checked");
                if let Some(Written { share, order }) = written {
                    ssd.precondition(*share, *order).expect("the share was checked, and the drive is new");
                }
                Box::new(ssd)
            }
            Kind::Array(parameters, members) => {
                let members = members.iter().map(Self::build).collect();
                Box::new(Array::new(parameters, members).expect("parameters were checked"))
            }
        };
        let Some(Before { parameters, medium }) = &self.cache else { return device };
        let medium = medium.as_ref().map(|medium| medium.build());
        Box::new(Cached::new(parameters.clone(), medium, device).expect("parameters were checked"))
    }

    /// Bytes it stores.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        match &self.kind {
            Kind::Fixed(parameters) => parameters.capacity_bytes,
            Kind::Disk(parameters) => parameters.capacity_bytes,
            Kind::Ssd(parameters, _) => parameters.capacity(),
            Kind::Array(parameters, members) => parameters.capacity(&capacities(members)),
        }
    }

    /// Whether it has platters. A cache before it doesn't count.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        match &self.kind {
            Kind::Disk(_) => true,
            Kind::Array(_, members) => members.iter().any(Self::is_rotational),
            Kind::Fixed(_) | Kind::Ssd(..) => false,
        }
    }
}

fn capacities(devices: &[Described]) -> Vec<u64> {
    devices.iter().map(Described::capacity).collect()
}

impl Kind {
    /// Its name in files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fixed(_) => "fixed",
            Self::Disk(_) => "disk",
            Self::Ssd(..) => "ssd",
            Self::Array(..) => "array",
        }
    }

    fn validate(&self, place: &str) -> Result<(), FileError> {
        let name = self.name();
        let wrong = |field: &str, expected, found| {
            Err(FileError::new(join(place, &format!("{name}.{field}")), expected, found))
        };
        match self {
            Self::Fixed(parameters) => {
                parameters.validate().or_else(|error| wrong(error.field, error.expected, error.found))
            }
            Self::Disk(parameters) => {
                parameters.validate().or_else(|error| wrong(&error.field, error.expected, error.found))
            }
            Self::Ssd(parameters, written) => {
                if let Some(share) = written.as_ref().map(|written| written.share)
                    && !(0.0..=1.0).contains(&share)
                {
                    return Err(FileError::new(join(place, "written.share"), "0 to 1", share.to_string()));
                }
                parameters.validate().or_else(|error| wrong(error.field, error.expected, error.found))
            }
            Self::Array(parameters, members) => parameters
                .validate(&capacities(members))
                .or_else(|error| wrong(error.field, error.expected, error.found)),
        }
    }
}

/// A key in a table at a place.
fn join(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

fn text_of<'a>(place: &str, table: &'a Table, key: &str) -> Result<&'a str, FileError> {
    let value = table.get(key);
    let text = value.and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| FileError::new(join(place, key), "a text", show(value)))
}

fn table_of<'a>(place: &str, value: Option<&'a Value>) -> Result<&'a Table, FileError> {
    value.and_then(Value::as_table).ok_or_else(|| FileError::new(place, "a table", show(value)))
}

/// Devices in a device at most, one in the other and altogether.
const MOST_NESTED: usize = 4;
const MOST_DEVICES: usize = 256;

/// Reads tables of devices.
struct Reader {
    entries: Vec<Entry>,
    devices: usize,
}

impl Reader {
    /// A device: `kind`, the table of that name, and what may stand beside it.
    fn device(&mut self, place: &str, table: &Table, beside: &[&str]) -> Result<Described, FileError> {
        self.devices += 1;
        if place.matches("device").count() + place.matches("member").count() > MOST_NESTED {
            return Err(FileError::new(place, format!("devices in devices to {MOST_NESTED} levels"), "more"));
        }
        let kind = text_of(place, table, "kind")?;
        for key in table.keys().map(String::as_str) {
            let known = beside.contains(&key)
                || ["kind", "notes", "cache", kind].contains(&key)
                || (kind == "ssd" && key == "written");
            if !known {
                let beside: Vec<_> = beside.iter().copied().chain(["kind", "notes", "[cache]"]).collect();
                return Err(FileError::new(
                    join(place, key),
                    format!("no keys but {} and [{kind}]", beside.join(", ")),
                    show(table.get(key)),
                ));
            }
        }
        let described = join(place, kind);
        let fields = table_of(&described, table.get(kind))?;
        let kind = match kind {
            "fixed" => Kind::Fixed(self.typed(&described, fields)?),
            "disk" => Kind::Disk(Box::new(self.typed(&described, fields)?)),
            "ssd" => {
                let parameters = Box::new(self.typed(&described, fields)?);
                let written = table.get("written").map(|value| {
                    let written = join(place, "written");
                    self.typed(&written, table_of(&written, Some(value))?)
                });
                Kind::Ssd(parameters, written.transpose()?)
            }
            "array" => self.array(&described, fields)?,
            _ => {
                let expected = "fixed, disk, ssd or array";
                return Err(FileError::new(join(place, "kind"), expected, format!("{kind:?}")));
            }
        };
        kind.validate(place)?;
        let cache = table.get("cache").map(|value| self.cache(&join(place, "cache"), value)).transpose()?;
        Ok(Described { kind, cache })
    }

    fn typed<P: DeserializeOwned>(&mut self, place: &str, table: &Table) -> Result<P, FileError> {
        typed(place, plain_table(place, table, &mut self.entries)?)
    }

    fn cache(&mut self, place: &str, value: &Value) -> Result<Before, FileError> {
        let mut fields = table_of(place, Some(value))?.clone();
        let device = join(place, "device");
        let medium = fields.remove("device").map(|value| self.inner(&device, &value)).transpose()?;
        let parameters: cached::Parameters = self.typed(place, &fields)?;
        let medium_bytes = medium.as_ref().map(Described::capacity);
        parameters
            .validate(medium_bytes)
            .map_err(|error| FileError::new(join(place, error.field), error.expected, error.found))?;
        Ok(Before { parameters, medium: medium.map(Box::new) })
    }

    fn array(&mut self, place: &str, table: &Table) -> Result<Kind, FileError> {
        let mut fields = table.clone();
        let (member_place, listed) = (join(place, "member"), fields.remove("member"));
        let list = listed.as_ref().and_then(Value::as_array);
        let list = list.ok_or_else(|| {
            FileError::new(&member_place, format!("tables [[{member_place}]]"), show(listed.as_ref()))
        })?;
        let mut members = Vec::new();
        for (at, value) in list.iter().enumerate() {
            let place = format!("{member_place}[{at}]");
            let mut inner = table_of(&place, Some(value))?.clone();
            let mut count = 1;
            if let Some(value) = inner.remove("count") {
                let only: Table = std::iter::once(("count".to_owned(), value)).collect();
                count = plain_table(&place, &only, &mut self.entries)?
                    .get("count")
                    .and_then(Value::as_integer)
                    .and_then(|count| usize::try_from(count).ok())
                    .filter(|count| (1..=MOST_DEVICES).contains(count))
                    .ok_or_else(|| {
                        let expected = format!("1 to {MOST_DEVICES}, with the unit count");
                        FileError::new(format!("{place}.count"), expected, show(only.get("count")))
                    })?;
            }
            let before = self.devices;
            let member = self.inner(&place, &Value::Table(inner))?;
            self.devices += (self.devices - before) * (count - 1);
            if self.devices > MOST_DEVICES {
                let expected = format!("at most {MOST_DEVICES} devices altogether");
                return Err(FileError::new(place, expected, self.devices.to_string()));
            }
            members.extend(std::iter::repeat_n(member, count));
        }
        Ok(Kind::Array(self.typed(place, &fields)?, members))
    }

    /// A device in another: the name of one that comes with the program, or a table.
    fn inner(&mut self, place: &str, value: &Value) -> Result<Described, FileError> {
        let table = table_of(place, Some(value))?;
        if !table.contains_key("device") {
            return self.device(place, table, &["name"]);
        }
        let fields = plain_table(place, table, &mut self.entries)?;
        let device = join(place, "device");
        if let Some(key) = fields.keys().find(|key| *key != "device") {
            return Err(FileError::new(join(place, key), "nothing beside device", "another key"));
        }
        let name = text_of(place, &fields, "device")?;
        let known = || SHIPPED.map(|(name, _)| name).join(", ");
        let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name).ok_or_else(|| {
            FileError::new(device, format!("one of {}, or a table", known()), format!("{name:?}"))
        })?;
        self.devices += 1;
        Ok(DeviceFile::parse(text)?.device)
    }
}

/// A table's values in base units, under the names of fields.
fn plain_table(place: &str, table: &Table, entries: &mut Vec<Entry>) -> Result<Table, FileError> {
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
            (unit.suffix, in_base_unit(place, value, name, &unit)?)
        }
        (_, Some(Units::Each(units))) => ("", in_base_units(place, value, units)?),
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
fn number_of(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64)).filter(|x| x.is_finite())
}

/// The table `measured`.
fn points(value: &Value) -> Result<Measured, FileError> {
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

/// Lists of tables whose keys have units of their own, in base units under the names of fields.
fn in_base_units(place: &str, value: &Value, units: &Table) -> Result<Value, FileError> {
    match value {
        Value::Array(list) => {
            let list = list.iter().map(|value| in_base_units(place, value, units));
            Ok(Value::Array(list.collect::<Result<_, _>>()?))
        }
        Value::Table(table) => {
            let mut fields = Table::new();
            for (key, value) in table {
                let place = format!("{place}.{key}");
                let name = units.get(key).and_then(Value::as_str);
                let name =
                    name.ok_or_else(|| FileError::new(&place, "a unit of that key", show(units.get(key))))?;
                let unit = unit_of(&place, name)?;
                fields.insert(format!("{key}{}", unit.suffix), in_base_unit(&place, value, name, &unit)?);
            }
            Ok(Value::Table(fields))
        }
        other => {
            Err(FileError::new(format!("{place}.value"), "tables with the keys of unit", show(Some(other))))
        }
    }
}

/// A number, or each number of a list, in the base unit.
fn in_base_unit(place: &str, value: &Value, name: &str, unit: &Unit) -> Result<Value, FileError> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Array(list) => {
            let list = list.iter().map(|value| in_base_unit(place, value, name, unit));
            return Ok(Value::Array(list.collect::<Result<_, _>>()?));
        }
        other => return Err(FileError::new(format!("{place}.value"), "a number", show(Some(other)))),
    };
    let number = match name {
        "rpm" if number > 0.0 => unit.factor / number,
        "rpm" => return Err(FileError::new(format!("{place}.value"), "more than 0", show(Some(value)))),
        _ => number * unit.factor,
    };
    if !number.is_finite() || number.abs() >= 2f64.powi(63) {
        return Err(FileError::new(
            format!("{place}.value"),
            "a number below 2^63 base units",
            show(Some(value)),
        ));
    }
    if !unit.whole {
        return Ok(Value::Float(number));
    }
    if number < 0.0 || (name == "count" && number.fract() != 0.0) {
        let expected = if name == "count" { "a whole number, 0 or more" } else { "0 or more" };
        return Err(FileError::new(format!("{place}.value"), expected, show(Some(value))));
    }
    Ok(Value::Integer(number.round() as i64))
}

/// The fields as parameters.
fn typed<P: DeserializeOwned>(kind: &str, fields: Table) -> Result<P, FileError> {
    let known = fields.keys().cloned().collect::<Vec<_>>().join(", ");
    P::deserialize(Value::Table(fields)).map_err(|error| {
        let message = error.message().to_owned();
        // "unknown field `a`, expected one of `b`, `c`", "missing field `a`" and "invalid type: …" say what is wrong.
        FileError::new(format!("[{kind}]"), message, format!("{known} (with the units of the file)"))
    })
}

fn show(value: Option<&Value>) -> String {
    match value {
        None => "nothing".into(),
        Some(Value::Table(_)) => "a table".into(),
        Some(value) => {
            let text = value.to_string();
            if text.chars().count() > 60 {
                format!("{}…", text.chars().take(60).collect::<String>())
            } else {
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: &str = r#"
        format = 1
        kind = "fixed"
        name = "a"
        [fixed]
        capacity = { value = 100, unit = "GB", source = "s" }
        servers = { value = 2, unit = "count", source = "s" }
        read = { value = 1.5, unit = "ms", source = "s" }
        write = { value = 20, unit = "us", source = "s" }
        flush = { value = 0, unit = "ns", source = "s" }
        trim = { value = 1, unit = "s", source = "s" }
        rate = { value = 1, unit = "MiB/s", source = "s" }
    "#;

    #[test]
    fn values_come_in_base_units() {
        let file = DeviceFile::parse(FIXED).unwrap();
        let expected = fixed::Parameters {
            capacity_bytes: 100_000_000_000,
            servers: 2,
            read_ns: 1_500_000,
            write_ns: 20_000,
            flush_ns: 0,
            trim_ns: 1_000_000_000,
            rate_bytes_per_s: 1 << 20,
        };
        assert_eq!(file.device, Described { kind: Kind::Fixed(expected), cache: None });
        assert_eq!(file.entries.len(), 7);
        let read = file.entries.iter().find(|entry| entry.key == "fixed.read").unwrap();
        assert_eq!((read.unit.as_deref(), read.source.as_str()), (Some("ms"), "s"));
    }

    #[test]
    fn shipped_files_are_read() {
        for (name, text) in SHIPPED {
            let file = DeviceFile::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(file.build().capacity() > 0);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let capacity = r#"capacity = { value = 100, unit = "GB", source = "s" }"#;
        for (from, to, expected) in [
            ("format = 1", "format = 2", "format: expected 1, found 2"),
            ("format = 1", "format = ", "line 2: expected TOML"),
            ("name = \"a\"", "", "name: expected a text, found nothing"),
            ("kind = \"fixed\"", "kind = \"tape\"", "fixed: expected no keys but format, name, measured"),
            (capacity, "", "[fixed]: expected missing field `capacity_bytes`"),
            (
                capacity,
                "capacity = 100",
                "fixed.capacity: expected a table { value, unit, source }, found 100",
            ),
            (capacity, r#"capacity = { value = 100, source = "s" }"#, "fixed.capacity.unit: expected a unit"),
            (capacity, r#"capacity = { value = 100, unit = "GB" }"#, "fixed.capacity.source: expected where"),
            (
                capacity,
                r#"capacity = { value = 0, unit = "GB", source = "s" }"#,
                "fixed.capacity_bytes: expected 1 to",
            ),
            (
                capacity,
                r#"capacity = { value = -1, unit = "GB", source = "s" }"#,
                "expected 0 or more, found -1",
            ),
            (capacity, r#"capacity = { value = nan, unit = "GB", source = "s" }"#, "expected a number below"),
            (
                capacity,
                r#"capacity = { value = 1e300, unit = "GB", source = "s" }"#,
                "expected a number below",
            ),
            (
                capacity,
                r#"capacity = { value = 1, unit = "ms", source = "s" }"#,
                "unknown field `capacity_ns`",
            ),
            (
                capacity,
                r#"capacity = { value = 1, unit = "parsec", source = "s" }"#,
                "expected one of ns, us",
            ),
            ("value = 2,", "value = 2.5,", "fixed.servers.value: expected a whole number"),
            ("value = 2,", "error = -1, value = 2,", "fixed.servers.error: expected 0 or more"),
            ("[fixed]", "[measured.a]\nb = [1]\nc = [1, 2]\n[fixed]", "measured.a.c: expected 1 numbers"),
            ("[fixed]", "[measured]\na = 1\n[fixed]", "measured.a: expected a table of lists, found 1"),
        ] {
            let error = DeviceFile::parse(&FIXED.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    const CACHE: &str = r#"
        [cache]
        policy = { value = "2q", source = "s" }
        size = { value = 1, unit = "GB", source = "s" }
        block = { value = 64, unit = "KiB", source = "s" }
        write = { value = "through", source = "s" }
        admission = { value = 2, unit = "count", source = "s" }
    "#;
    const MEMORY: &str = r#"
        latency = { value = 2, unit = "us", source = "s" }
        rate = { value = 8, unit = "GB/s", source = "s" }
    "#;

    #[test]
    fn a_cache_is_memory_or_a_device() {
        let file = DeviceFile::parse(&format!("{FIXED}{CACHE}{MEMORY}")).unwrap();
        let Before { parameters, medium } = file.device.cache.as_ref().unwrap();
        assert_eq!(
            (parameters.policy, parameters.write),
            (crate::cache::Policy::TwoQ, cached::Write::Through)
        );
        assert_eq!((parameters.latency_ns, parameters.admission, medium.is_some()), (Some(2000), 2, false));
        assert_eq!(file.build().capacity(), 100_000_000_000);
        let by_name = r#"device.device = { value = "network-volume", source = "s" }"#;
        let file = DeviceFile::parse(&format!("{FIXED}{CACHE}{by_name}")).unwrap();
        let medium = file.device.cache.as_ref().unwrap().medium.as_ref().unwrap();
        assert_eq!(medium.capacity(), 1_000_000_000_000);
        assert!(file.entries.iter().any(|entry| entry.key == "cache.device.device"));
        let table = FIXED.replace("format = 1", "").replace("[fixed]", "[cache.device.fixed]");
        let file = DeviceFile::parse(&format!("{FIXED}{CACHE}[cache.device]{table}")).unwrap();
        assert_eq!(file.device.cache.unwrap().medium.unwrap().capacity(), 100_000_000_000);
    }

    #[test]
    fn an_array_has_members() {
        let array = r#"
            format = 1
            kind = "array"
            name = "a"
            [array]
            layout = { value = "stripe", source = "s" }
            chunk = { value = 64, unit = "KiB", source = "s" }
            [[array.member]]
            device = { value = "hdd-7200", source = "s" }
            count = { value = 3, unit = "count", source = "s" }
        "#;
        let file = DeviceFile::parse(array).unwrap();
        assert!(file.is_rotational());
        let Kind::Array(_, members) = &file.device.kind else { panic!("an array") };
        assert_eq!(members.len(), 3);
        let member = members[0].capacity() / 65_536 * 65_536;
        assert_eq!((file.device.capacity(), file.build().capacity()), (member * 3, member * 3));
        let cached = DeviceFile::parse(&format!("{array}{CACHE}{MEMORY}")).unwrap();
        assert_eq!(cached.build().capacity(), member * 3);
        for (from, to, expected) in [
            (
                r#"value = "hdd-7200""#,
                r#"value = "tape""#,
                r#"array.member[0].device: expected one of hdd-10k"#,
            ),
            ("value = 3,", "value = 0,", "array.member[0].count: expected 1 to 256"),
            ("value = 3,", "value = 257,", "array.member[0].count: expected 1 to 256"),
            (r#"value = "stripe""#, r#"value = "raid5""#, "[array]: expected unknown variant `raid5`"),
            ("value = 64,", "value = 63.7,", "array.chunk_bytes: expected a multiple of 512"),
            (
                "[[array.member]]",
                "[array.member]",
                "array.member: expected tables [[array.member]], found a table",
            ),
            ("device = {", "kind = \"fixed\"\ndevice = {", "array.member[0].kind: expected a table"),
        ] {
            let error = DeviceFile::parse(&array.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_cache_is_said() {
        let whole = format!("{FIXED}{CACHE}{MEMORY}");
        for (from, to, expected) in [
            (r#"value = "2q""#, r#"value = "mru""#, "[cache]: expected unknown variant `mru`"),
            (r#"value = "through""#, r#"value = "away""#, "[cache]: expected unknown variant `away`"),
            ("value = 64, unit = \"KiB\"", "value = 2, unit = \"GB\"", "cache.block_bytes: expected 512 to"),
            (
                "value = 64, unit = \"KiB\"",
                "value = 1000, unit = \"B\"",
                "cache.block_bytes: expected a multiple of 512",
            ),
            (
                r#"size = { value = 1, unit = "GB""#,
                r#"size = { value = 1, unit = "kB""#,
                "cache.size_bytes: expected 65536 to",
            ),
            (
                r#"latency = { value = 2, unit = "us", source = "s" }"#,
                "",
                "cache.latency_ns: expected a value, or a device",
            ),
            (
                "[cache]",
                "[cache]\ndevice.kind = \"tape\"",
                "cache.device.tape: expected a table, found nothing",
            ),
            ("[cache]", "[cache]\nghost = 1", "cache.ghost: expected a table"),
            (
                "[cache]",
                "[cache]\ndevice.device = { value = \"network-volume\", source = \"s\" }",
                "cache.latency_ns: expected nothing, as a device is the medium, found 2000",
            ),
        ] {
            let error = DeviceFile::parse(&whole.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
        let nested = "[cache.device]\nkind = \"fixed\"\n[cache.device.cache]\ndevice.device.device.device.device.kind = \"fixed\"";
        assert!(DeviceFile::parse(&format!("{FIXED}{nested}")).is_err());
    }

    #[test]
    fn keys_of_tables_have_units_of_their_own() {
        let (_, text) = SHIPPED[1];
        let Kind::Disk(disk) = DeviceFile::parse(text).unwrap().device.kind else { panic!("a disk") };
        assert_eq!(disk.zones.len(), 16);
        assert_eq!((disk.zones[0].sectors_per_track, disk.revolution_ns), (1440, 8_333_333));
    }
}
