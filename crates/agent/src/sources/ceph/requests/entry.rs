//! An entry of a history as daemons print it: `{"description":"…","initiated_at":"…","age":…,"duration":…,
//! "type_data":{…,"events":[{"event":"…","time":"…","duration":…},…]}}`.
//!
//! A thousand of them a second have ten thousand events, of which a parser of any JSON takes most of what the agent
//! may use. They are printed by one piece of code, without spaces and nearly never with escapes, so that what is
//! between known words is taken; whatever looks otherwise is left to serde.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};
use serde::Deserialize;

/// How entries begin.
pub const BEGIN: &str = "{\"description\":\"";

/// An entry of a history.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is, as its message prints itself.
    pub description: Cow<'a, str>,
    /// What happened to it, in order of time.
    pub events: Vec<Event<'a>>,
}

/// A moment in an entry.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub struct Event<'a> {
    /// What happened.
    #[serde(borrow)]
    pub event: Cow<'a, str>,
    /// When, with microseconds and zone.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    description: Cow<'a, str>,
    #[serde(borrow)]
    type_data: Events<'a>,
}

#[derive(Deserialize)]
struct Events<'a> {
    #[serde(borrow)]
    events: Vec<Event<'a>>,
}

impl<'a> Entry<'a> {
    /// Of bytes that begin with one.
    pub fn parse(object: &'a [u8]) -> Result<Self, serde_json::Error> {
        Self::printed(object).map_or_else(|| Self::any(object), Ok)
    }

    fn any(object: &'a [u8]) -> Result<Self, serde_json::Error> {
        let whole = Whole::deserialize(&mut serde_json::Deserializer::from_slice(object))?;
        Ok(Self { description: whole.description, events: whole.type_data.events })
    }

    /// One without escapes, in the order of `TrackedOp::dump`.
    fn printed(object: &'a [u8]) -> Option<Self> {
        let mut rest = object.strip_prefix(BEGIN.as_bytes())?;
        let description = text(&mut rest)?.into();
        rest = &rest[memmem::find(rest, b"\"events\":[")? + b"\"events\":[".len()..];
        let mut events = Vec::with_capacity(16);
        while let Some(after) = rest.strip_prefix(b"{\"event\":\"") {
            rest = after;
            let event = text(&mut rest)?.into();
            rest = rest.strip_prefix(b",\"time\":\"")?;
            let time = text(&mut rest)?.into();
            events.push(Event { event, time });
            rest = rest.strip_prefix(b",\"duration\":")?;
            // Only a number stands in front of it.
            rest = &rest[memchr(b'}', rest)? + 1..];
            rest = rest.strip_prefix(b",").unwrap_or(rest);
        }
        rest.starts_with(b"]").then_some(Self { description, events })
    }
}

/// A string up to its end, without escapes.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let end = memchr2(b'"', b'\\', rest).filter(|end| rest[*end] == b'"')?;
    let text = std::str::from_utf8(&rest[..end]).ok()?;
    *rest = &rest[end + 1..];
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_orders_and_forms_are_read_too() {
        let printed = br#"{"description":"a","age":1,"type_data":{"flag_point":"x","events":[{"event":"e","time":"t","duration":0.5},{"event":"f","time":"u","duration":1}]}},"#;
        let other = br#"{"description":"a","type_data":{"events":[ {"time":"t","event":"e"},{"time":"u", "event":"f"}]}}]"#;
        assert!(Entry::printed(printed).is_some() && Entry::printed(other).is_none());
        assert_eq!(Entry::parse(printed).expect("one"), Entry::parse(other).expect("one"));
        assert_eq!(Entry::parse(printed).expect("one").events.len(), 2);
        for bad in
            ["", "{", r#"{"description":"a"}"#, r#"{"description":"a","type_data":{"events":[{"event":"e""#]
        {
            assert!(Entry::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn as_serde_reads(description in any::<String>(), events in proptest::collection::vec(any::<(String, String)>(), 0..5)) {
            let string = |s: &String| serde_json::to_string(s).expect("JSON");
            let events: Vec<String> = events
                .iter()
                .map(|(event, time)| format!(r#"{{"event":{},"time":{},"duration":4294967295.5}}"#, string(event), string(time)))
                .collect();
            let text = format!(
                r#"{{"description":{},"age":1.5,"type_data":{{"flag_point":"x","events":[{}]}}}},"#,
                string(&description),
                events.join(",")
            );
            let (parsed, any) = (Entry::parse(text.as_bytes()).expect("one"), Entry::any(text.as_bytes()).expect("one"));
            prop_assert_eq!(parsed, any);
        }
    }
}
