//! Where an event's fields are: the file `format` beside it (Documentation/trace/events.rst, "Event formats").

use std::collections::HashMap;
use std::ops::Range;

/// One event's description.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    pub id: u16,
    fields: HashMap<String, Range<usize>>,
}

impl Format {
    /// None if it isn't one.
    pub fn parse(text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Format { id, fields: fields(text).collect() })
    }

    /// A field's bytes in a record. None: no such field, or the record is too short.
    pub fn bytes<'a>(&self, record: &'a [u8], name: &str) -> Option<&'a [u8]> {
        record.get(self.fields.get(name)?.clone())
    }

    /// A field of up to 8 bytes as a number, not sign-extended.
    pub fn number(&self, record: &[u8], name: &str) -> Option<u64> {
        little(self.bytes(record, name)?)
    }
}

/// Up to 8 bytes, least first: x86-64's order.
pub fn little(bytes: &[u8]) -> Option<u64> {
    let mut all = [0; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(all))
}

/// Names and places from lines like `field:char comm[16]; offset:44; size:16; signed:0;`.
pub fn fields(text: &str) -> impl Iterator<Item = (String, Range<usize>)> {
    text.lines().filter_map(|line| {
        let mut parts = line.trim().split(';').map(str::trim);
        let declared = parts.next()?.strip_prefix("field:")?;
        let offset: usize = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        let size: usize = parts.next()?.strip_prefix("size:")?.parse().ok()?;
        let name = declared.split('[').next()?.trim().rsplit([' ', '*']).next()?;
        Some((name.to_owned(), offset..offset.checked_add(size)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUE: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:void * ctx;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\n\
        print fmt: \"%d,%d %s\", REC->dev\n";

    #[test]
    fn places_of_fields() {
        let format = Format::parse(ISSUE).unwrap();
        assert_eq!(format.id, 2104);
        let record: Vec<u8> = (0..44).collect();
        assert_eq!(format.number(&record, "common_type"), Some(0x0100));
        assert_eq!(format.number(&record, "sector"), Some(0x1716_1514_1312_1110));
        assert_eq!(format.bytes(&record, "rwbs"), Some(&record[34..44]));
        assert_eq!(format.number(&record, "ctx").zip(format.number(&record, "dev")), None);
        assert_eq!(format.bytes(&record[..43], "rwbs"), None);
        assert_eq!(format.number(&record, "rwbs"), None, "ten bytes are no number");
    }

    #[test]
    fn no_format() {
        assert_eq!(Format::parse(""), None);
        assert_eq!(Format::parse("ID: many\n"), None);
    }
}
