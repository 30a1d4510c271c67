//! Machines of requests that came lately, by breadcrumb.
//!
//! Only of senders whose breadcrumbs are hashes of ids that others know too: one that leases its breadcrumbs
//! tells those it calls which machine it is on.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use foldhash::fast::RandomState;
use iotrail_format::schema::SERVICE_OP;

use super::{column, words};
use crate::LONGEST_NAME;

const MINUTE: i64 = 60 * 1_000_000_000;
/// How long one is known, minutes.
const MINUTES: i64 = 5;
/// Breadcrumbs known at most; about 24 bytes each.
const MOST: usize = 4 << 20;
/// Machines of a minute at most.
const MOST_NODES: usize = 1 << 16;

/// Requests of a minute.
#[derive(Default)]
struct Minute {
    /// Number of the machine by breadcrumb.
    known: HashMap<i64, u32, RandomState>,
    numbers: HashMap<Arc<str>, u32>,
    nodes: Vec<Arc<str>>,
}

impl Minute {
    /// The number of a machine; none if its name is too long, or there are too many.
    fn number(&mut self, node: Arc<str>) -> Option<u32> {
        if let Some(number) = self.numbers.get(&node) {
            return Some(*number);
        }
        if node.len() > LONGEST_NAME || self.nodes.len() >= MOST_NODES {
            return None;
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(node.clone());
        self.numbers.insert(node, number);
        Some(number)
    }
}

/// Requests by breadcrumb, by the minute they came in, oldest first.
#[derive(Default)]
pub struct Parents(VecDeque<(i64, Minute)>);

impl Parents {
    /// Learns from rows of `service_op`.
    pub fn learn(&mut self, batch: &RecordBatch, now: i64) {
        let minute = now.div_euclid(MINUTE);
        let recent = &mut self.0;
        while recent.front().is_some_and(|(of, _)| *of < minute - MINUTES) {
            recent.pop_front();
        }
        while recent.len() > 1 && recent.iter().map(|(_, minute)| minute.known.len()).sum::<usize>() > MOST {
            recent.pop_front();
        }
        if recent.back().is_none_or(|(of, _)| *of < minute) {
            recent.push_back((minute, Minute::default()));
        }
        let (_, newest) = recent.back_mut().expect("one was pushed");
        let numbers: HashMap<usize, u32> = words(batch, &SERVICE_OP, "node")
            .into_iter()
            .filter_map(|(at, node)| Some((at, newest.number(node)?)))
            .collect();
        let crumbs = column(batch, &SERVICE_OP, "crumb").as_primitive::<Int64Type>();
        let nodes = column(batch, &SERVICE_OP, "node").as_dictionary::<Int32Type>();
        for row in 0..batch.num_rows() {
            let number = nodes.key(row).and_then(|key| numbers.get(&key));
            if let (Some(number), crumb @ 1..) = (number, crumbs.value(row)) {
                newest.known.insert(crumb, *number);
            }
        }
    }

    /// The `node` of a request, as its sender said it.
    pub fn node(&self, crumb: i64) -> Option<&str> {
        let mut minutes = self.0.iter().rev();
        minutes.find_map(|(_, minute)| Some(&*minute.nodes[*minute.known.get(&crumb)? as usize]))
    }
}
