//! The newest state of each member, for those who watch.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use iotrail_format::schema::MEMBER;
use serde::Serialize;

use super::clocks::Clocks;
use crate::LONGEST_NAME;

/// Members at most: rows of more are left out, and counted.
const MOST: usize = if cfg!(test) { 8 } else { 1 << 16 };

/// A member as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown<'a> {
    member: &'a str,
    role: &'a str,
    node: &'a str,
    place: Option<&'a str>,
    state: &'a str,
    since_ms: i64,
    detail: Option<String>,
}

struct Member {
    role: String,
    node: Arc<str>,
    /// Whether `node` is where its process runs.
    is_own: bool,
    place: Option<String>,
    state: String,
    detail: Option<String>,
    ts: i64,
    since: i64,
    /// Number of its last change.
    change: u64,
}

/// All members.
#[derive(Default)]
pub struct Members {
    members: BTreeMap<Arc<str>, Member>,
    changes: u64,
    /// Rows left out.
    pub left_out: u64,
    /// Number of the last change of what groups are made of.
    pub moves: u64,
}

/// How viewers want members taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Each by itself.
    #[default]
    Member,
    /// All of a machine.
    Host,
    /// All of a rack.
    Rack,
    /// All that play a part.
    Role,
}

impl Members {
    /// Takes rows of `member`, `now` the time they came.
    pub fn take(&mut self, batch: &RecordBatch, now: i64, clocks: &Clocks) {
        let at =
            |name: &str| MEMBER.columns.iter().position(|c| c.name == name).expect("a column of the table");
        let columns =
            ["node", "member", "role", "place", "state", "detail"].map(|name| batch.column(at(name)));
        let process = batch.column(at("process"));
        let times = batch.column(at("ts")).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let [node, member, role, place, state, detail] = columns.map(|column| text(column, row));
            let names = [node, member, role, place, state];
            let (node, member) = (node.unwrap_or_default(), member.unwrap_or_default());
            let (role, state) = (role.unwrap_or_default(), state.unwrap_or_default());
            if names.into_iter().flatten().any(|name| name.len() > LONGEST_NAME)
                || (self.members.len() >= MOST && !self.members.contains_key(member))
            {
                self.left_out += 1;
                continue;
            }
            let detail = detail.map(shortened);
            let is_own = process.is_valid(row) || role == "host";
            // A clock that is ahead would keep everybody else's word from counting.
            let ts = if clocks.is_off(node) { now } else { times.value(row).min(now) };
            self.changes += 1;
            let change = self.changes;
            let Some(known) = self.members.get_mut(member) else {
                let shown = Member {
                    role: role.to_owned(),
                    node: node.into(),
                    is_own,
                    place: place.map(str::to_owned),
                    state: state.to_owned(),
                    detail,
                    ts,
                    since: ts,
                    change,
                };
                self.members.insert(member.into(), shown);
                self.moves = change;
                continue;
            };
            if ts < known.ts {
                continue;
            }
            let node: Arc<str> = if is_own || !known.is_own { node.into() } else { known.node.clone() };
            let place = place.map(str::to_owned).or_else(|| known.place.take());
            if (&*known.node, &known.role, &known.place) != (&*node, &role.to_owned(), &place) {
                self.moves = change;
            }
            if known.state != state {
                known.since = ts;
                state.clone_into(&mut known.state);
            }
            role.clone_into(&mut known.role);
            (known.node, known.place, known.is_own) = (node, place, is_own || known.is_own);
            known.detail = detail;
            (known.ts, known.change) = (ts, change);
        }
    }

    /// Says that something about the members of a machine changed.
    pub fn touch(&mut self, node: &str) {
        self.changes += 1;
        for member in self.members.values_mut().filter(|member| *member.node == *node) {
            member.change = self.changes;
        }
    }

    /// Number of the last change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Those changed after a change.
    pub fn since<'a>(&'a self, change: u64, clocks: &'a Clocks) -> impl Iterator<Item = Shown<'a>> {
        self.members.iter().filter(move |(_, member)| member.change > change).map(|(name, member)| {
            let clock = clocks.told(&member.node);
            let detail = [member.detail.clone(), clock].into_iter().flatten().collect::<Vec<_>>();
            Shown {
                member: name,
                role: &member.role,
                node: &member.node,
                place: member.place.as_deref(),
                state: &member.state,
                since_ms: member.since / 1_000_000,
                detail: (!detail.is_empty()).then(|| detail.join("; ")),
            }
        })
    }

    /// The group of a member, or of a name that no member has, on a machine. Hosts are the last part of a place, racks the
    /// one before, as in module `member_state`; a host that is in no rack is a group of its own.
    pub fn group(&self, member: &str, node: &str, by: By) -> String {
        let known = self.members.get(member);
        let place = known.and_then(|known| known.place.as_deref()).unwrap_or_default();
        let mut parts = place.rsplit('/').filter(|part| !part.is_empty());
        let host = parts.next().unwrap_or_else(|| known.map_or(node, |known| &known.node));
        let group = match by {
            By::Member => member,
            By::Host => host,
            By::Rack => parts.next().unwrap_or(host),
            By::Role => known.map_or("", |known| known.role.as_str()),
        };
        group.to_owned()
    }
}

/// A text for people, whose end says nothing about who is how.
fn shortened(text: &str) -> String {
    if text.len() <= LONGEST_NAME {
        return text.to_owned();
    }
    let end = (0..=LONGEST_NAME).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{}…", &text[..end])
}

/// Text of any layout a column has; none null.
fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    if let Some(texts) = column.as_string_opt::<i32>() {
        return texts.is_valid(row).then(|| texts.value(row));
    }
    let words = column.as_dictionary::<Int32Type>();
    let key = words.key(row)?;
    let values = words.values().as_string::<i32>();
    values.is_valid(key).then(|| values.value(key))
}

#[cfg(test)]
mod tests {
    use iotrail_trail::arrays::{Value, batch};

    use super::*;

    #[test]
    fn long_names_and_too_many_members_are_left_out_and_counted() {
        let mut members = Members::default();
        let detail = "é".repeat(LONGEST_NAME);
        let mut take = |member: &str, state: &str| {
            let row = MEMBER.columns.iter().map(|column| match column.name {
                "member" => member.into(),
                "detail" => detail.as_str().into(),
                "state" => state.into(),
                _ if column.nullable => Value::Null,
                "ts" => 5.into(),
                _ => "x".into(),
            });
            members.take(&batch(&MEMBER, vec![row.collect()]).unwrap(), 9, &Clocks::default());
            (members.members.len(), members.left_out)
        };
        assert_eq!(take(&"x".repeat(LONGEST_NAME + 1), "up"), (0, 1));
        for n in 0..MOST {
            assert_eq!(take(&n.to_string(), "up"), (n + 1, 1));
        }
        assert_eq!(take("another", "up"), (MOST, 2));
        assert_eq!(take("0", "down"), (MOST, 2));
        let known = &members.members["0"];
        assert_eq!(known.state, "down");
        assert_eq!(known.detail, Some(format!("{}…", "é".repeat(LONGEST_NAME / 2))));
    }
}
