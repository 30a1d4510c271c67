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

const MINUTE: i64 = 60 * 1_000_000_000;
/// How long one is known, minutes.
const MINUTES: i64 = 5;
/// Breadcrumbs known at most; about 24 bytes each.
const MOST: usize = 4 << 20;

/// Requests by breadcrumb, by the minute they came in, oldest first.
#[derive(Default)]
pub struct Parents {
    recent: VecDeque<(i64, HashMap<i64, u32, RandomState>)>,
    numbers: HashMap<Arc<str>, u32>,
    nodes: Vec<Arc<str>>,
}

impl Parents {
    /// Learns from rows of `service_op`.
    pub fn learn(&mut self, batch: &RecordBatch, now: i64) {
        let minute = now.div_euclid(MINUTE);
        while self.recent.front().is_some_and(|(of, _)| *of < minute - MINUTES) {
            self.recent.pop_front();
        }
        while self.recent.len() > 1 && self.recent.iter().map(|(_, known)| known.len()).sum::<usize>() > MOST
        {
            self.recent.pop_front();
        }
        if self.recent.back().is_none_or(|(of, _)| *of < minute) {
            self.recent.push_back((minute, HashMap::default()));
        }
        let numbers: HashMap<usize, u32> = words(batch, &SERVICE_OP, "node")
            .into_iter()
            .map(|(at, node)| {
                let number = *self.numbers.entry(node.clone()).or_insert_with(|| {
                    self.nodes.push(node);
                    (self.nodes.len() - 1) as u32
                });
                (at, number)
            })
            .collect();
        let crumbs = column(batch, &SERVICE_OP, "crumb").as_primitive::<Int64Type>();
        let nodes = column(batch, &SERVICE_OP, "node").as_dictionary::<Int32Type>();
        let (_, newest) = self.recent.back_mut().expect("one was pushed");
        for row in 0..batch.num_rows() {
            if let (Some(key), crumb @ 1..) = (nodes.key(row), crumbs.value(row)) {
                newest.insert(crumb, numbers[&key]);
            }
        }
    }

    /// The `node` of a request, as its sender said it.
    pub fn node(&self, crumb: i64) -> Option<&str> {
        let found = self.recent.iter().rev().find_map(|(_, known)| known.get(&crumb))?;
        Some(&self.nodes[*found as usize])
    }
}
