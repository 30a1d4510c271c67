//! Machines of the cluster's members, from table `member`.

use std::collections::HashMap;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, RecordBatch};
use iotrail_format::schema::MEMBER;

use super::{PATIENCE, Text, column};
use crate::LONGEST_NAME;

/// Members known at most.
const MOST: usize = 1 << 16;

/// What is known of one.
struct Known {
    /// The machine its process runs on, by the newest row that says so.
    own: Option<(i64, String)>,
    /// The machine that sees it from afar, and since when, by the collector's clock.
    afar: Option<(i64, String)>,
}

/// Members by name.
#[derive(Default)]
pub struct Members(HashMap<String, Known>);

impl Members {
    /// Learns from rows of `member`.
    pub fn learn(&mut self, batch: &RecordBatch, now: i64) {
        let text = |name| Text::of(column(batch, &MEMBER, name));
        let (members, nodes, roles) = (text("member"), text("node"), text("role"));
        let times = column(batch, &MEMBER, "ts").as_primitive::<Int64Type>();
        let processes = column(batch, &MEMBER, "process");
        for row in 0..batch.num_rows() {
            let (member, node, ts) = (members.get(row), nodes.get(row), times.value(row));
            // A machine has no process, and is where it is.
            let is_own = processes.is_valid(row) || roles.get(row) == "host";
            if member.len() > LONGEST_NAME
                || node.len() > LONGEST_NAME
                || (self.0.len() >= MOST && !self.0.contains_key(member))
            {
                continue;
            }
            let known = self.0.entry(member.to_owned()).or_insert(Known { own: None, afar: None });
            if is_own && known.own.as_ref().is_none_or(|(last, _)| *last <= ts) {
                known.own = Some((ts, node.to_owned()));
            } else if !is_own && known.afar.is_none() {
                known.afar = Some((now, node.to_owned()));
            }
        }
    }

    /// The machine of a member. One that is only seen from afar is given the machine that sees it, once its own agent
    /// had time to speak.
    pub fn node(&self, member: &str, now: i64) -> Option<&str> {
        let known = self.0.get(member)?;
        let afar = || known.afar.as_ref().filter(|(since, _)| now - since >= PATIENCE);
        known.own.as_ref().or_else(afar).map(|(_, node)| node.as_str())
    }
}
