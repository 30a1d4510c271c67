//! Tables of devices, one in the other.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::described::{Before, Described, Kind};
use super::error::{FileError, show};
use super::values::{Entry, plain_table};
use super::{DeviceFile, SHIPPED};
use crate::bounds::{check_value, schema_of};
use crate::cached;

/// A key in a table at a place.
pub(super) fn join(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

pub(super) fn text_of<'a>(place: &str, table: &'a Table, key: &str) -> Result<&'a str, FileError> {
    let value = table.get(key);
    let text = value.and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| FileError::new(join(place, key), "a text", show(value)))
}

fn table_of<'a>(place: &str, value: Option<&'a Value>) -> Result<&'a Table, FileError> {
    value.and_then(Value::as_table).ok_or_else(|| FileError::new(place, "a table", show(value)))
}

/// What `kind` can be.
pub(super) const KINDS: [&str; 4] = ["array", "disk", "fixed", "ssd"];
/// Devices in a device at most, one in the other and altogether.
const MOST_NESTED: usize = 4;
pub(super) const MOST_DEVICES: usize = 256;

/// Reads tables of devices.
#[derive(Default)]
pub(super) struct Reader {
    pub entries: Vec<Entry>,
    devices: usize,
}

impl Reader {
    /// A device: `kind`, the table of that name, and what may stand beside it.
    pub fn device(&mut self, place: &str, table: &Table, beside: &[&str]) -> Result<Described, FileError> {
        self.devices += 1;
        if place.matches("device").count() + place.matches("member").count() > MOST_NESTED {
            return Err(FileError::new(place, format!("devices in devices to {MOST_NESTED} levels"), "more"));
        }
        let kind = text_of(place, table, "kind")?;
        if !KINDS.contains(&kind) {
            let expected = format!("one of {}", KINDS.join(", "));
            return Err(FileError::new(join(place, "kind"), expected, format!("{kind:?}")));
        }
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
        for key in ["name", "notes"].into_iter().filter(|key| table.contains_key(*key)) {
            text_of(place, table, key)?;
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
            _ => self.array(&described, fields)?,
        };
        kind.validate(place)?;
        let cache = table.get("cache").map(|value| self.cache(&join(place, "cache"), value)).transpose()?;
        Ok(Described { kind, cache })
    }

    fn typed<P: DeserializeOwned + JsonSchema>(
        &mut self,
        place: &str,
        table: &Table,
    ) -> Result<P, FileError> {
        typed(place, plain_table(place, table, &mut self.entries)?)
    }

    fn cache(&mut self, place: &str, value: &Value) -> Result<Before, FileError> {
        let mut fields = table_of(place, Some(value))?.clone();
        let device = join(place, "device");
        let medium = fields.remove("device").map(|value| self.inner(&device, &value)).transpose()?;
        let parameters: cached::Parameters = self.typed(place, &fields)?;
        let medium_bytes = medium.as_ref().map(Described::capacity);
        parameters.validate(medium_bytes).map_err(|error| FileError::of(place, error))?;
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

/// The fields as parameters.
fn typed<P: DeserializeOwned + JsonSchema>(kind: &str, fields: Table) -> Result<P, FileError> {
    let known = fields.keys().cloned().collect::<Vec<_>>().join(", ");
    // What serde says of a number out of its type's range names no field.
    let numbers = serde_json::to_value(&fields).unwrap_or_default();
    check_value(&schema_of::<P>(), &numbers, "").map_err(|error| FileError::of(kind, error))?;
    P::deserialize(Value::Table(fields)).map_err(|error| {
        let message = error.message().to_owned();
        // "unknown field `a`, expected one of `b`, `c`", "missing field `a`" and "invalid type: …" say what is wrong.
        FileError::new(format!("[{kind}]"), message, format!("{known} (with the units of the file)"))
    })
}
