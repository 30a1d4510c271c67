//! What a sender couldn't know is put in from what others sent: machines of members, and of parents.
//!
//! A `node` or `parent_node` that names a member (`@osd.3`) becomes the member's machine; an empty `parent_node` is
//! looked up by the parent's breadcrumb among the requests that came in the last minutes. What isn't known yet waits up
//! to [`PATIENCE`] and is then written as it is. What only time joins stands in `ceph.rs`.

mod ceph;
mod members;
mod parents;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array as _, ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, StringArray,
};
use arrow_select::filter::filter_record_batch;
use iotrail_format::schema::{MEMBER, SERVICE_OP, STITCH, Table};
use iotrail_format::wire::{MEMBER_PREFIX, UNKNOWN_NODE};

use self::ceph::Journals;
use self::members::Members;
use self::parents::Parents;
use crate::tail::Words;

/// How long a row waits for what it names, ns. Senders read histories once a second or so; a request that is still
/// running can keep the record of its parent away for longer.
pub const PATIENCE: i64 = 10 * 1_000_000_000;

/// Rows that wait at most; more are written as they are.
const MOST_WAITING: usize = 1 << 20;

/// What is known of machines.
#[derive(Default)]
pub struct Joiner {
    members: Members,
    parents: Parents,
    journals: Journals,
    /// Rows written with a machine that stayed unknown.
    pub unjoined: u64,
}

/// Rows of a table, settled.
pub struct Settled {
    /// Those to be written.
    pub ready: RecordBatch,
    /// Those that wait, and since when.
    pub waiting: Vec<(RecordBatch, i64)>,
}

impl Joiner {
    /// Learns from rows as they come. `repeats`: their breadcrumbs are hashes of ids that other senders know too.
    pub fn learn(&mut self, table: &'static Table, batch: &RecordBatch, repeats: bool, now: i64) {
        if table.name == MEMBER.name {
            self.members.learn(batch, now);
        } else if table.name == SERVICE_OP.name && repeats {
            self.parents.learn(batch, now);
        }
        self.journals.learn(table, batch, now);
    }

    /// Whether it is time for [`Joiner::found`].
    #[must_use]
    pub fn finds(&self, now: i64, all: bool) -> bool {
        self.journals.are_due(now, all)
    }

    /// Rows of a table that nobody said, but follow from what came. With `all`, nothing waits.
    pub fn found(&mut self, now: i64, all: bool) -> Option<(&'static Table, RecordBatch)> {
        self.journals.joined(now, all).map(|rows| (&STITCH, rows))
    }

    /// Puts in what is known. `came`: from which row on rows came at a time. With `all`, nothing waits.
    pub fn settle(
        &mut self,
        table: &'static Table,
        batch: RecordBatch,
        came: &[(usize, i64)],
        now: i64,
        all: bool,
    ) -> Settled {
        let mut columns = batch.columns().to_vec();
        let mut unknown: Option<Vec<bool>> = None;
        for (at, column) in table.columns.iter().enumerate() {
            let parents = match column.name {
                "node" => None,
                "parent_node" => {
                    let crumbs = table.columns.iter().position(|c| c.name == "parent_crumb");
                    crumbs.map(|at| batch.column(at).clone())
                }
                _ => continue,
            };
            if let Some(settled) = self.column(&columns[at], parents.as_ref(), now, &mut unknown) {
                columns[at] = settled;
            }
        }
        let settled = RecordBatch::try_new(batch.schema(), columns).expect("only texts were changed");
        let Some(unknown) = unknown else { return Settled { ready: settled, waiting: Vec::new() } };
        let mut waits = vec![false; batch.num_rows()];
        let mut waiting = Vec::new();
        let mut left = MOST_WAITING;
        let ends = came.iter().skip(1).map(|(row, _)| *row).chain([batch.num_rows()]);
        // By the second, so that few batches wait.
        let mut group: Option<(i64, usize, usize)> = None;
        let mut groups = Vec::new();
        for ((start, since), end) in came.iter().zip(ends) {
            match &mut group {
                Some((first, _, until)) if *since - *first < 1_000_000_000 => *until = end,
                _ => groups.extend(group.replace((*since, *start, end))),
            }
        }
        groups.extend(group);
        for (since, start, end) in groups {
            if all || now - since >= PATIENCE {
                continue;
            }
            let mut mask = vec![false; batch.num_rows()];
            for row in start..end {
                if unknown[row] && left > 0 {
                    (mask[row], waits[row]) = (true, true);
                    left -= 1;
                }
            }
            if mask.contains(&true) {
                // As they came: what is known now is known later too.
                let rows = filter_record_batch(&batch, &BooleanArray::from(mask));
                waiting.push((rows.expect("a mask of its rows"), since));
            }
        }
        self.unjoined +=
            unknown.iter().zip(&waits).filter(|(unknown, waits)| **unknown && !**waits).count() as u64;
        let ready: BooleanArray = waits.iter().map(|waits| Some(!waits)).collect();
        let ready = filter_record_batch(&settled, &ready).expect("a mask of its rows");
        Settled { ready, waiting }
    }

    /// A column of machines with what is known, none if nothing changes; marks rows of which something isn't known.
    fn column(
        &self,
        column: &ArrayRef,
        parents: Option<&ArrayRef>,
        now: i64,
        unknown: &mut Option<Vec<bool>>,
    ) -> Option<ArrayRef> {
        let given = column.as_dictionary::<Int32Type>();
        let texts = given.values().as_string::<i32>();
        let is_open =
            |text: &str| text.starts_with(MEMBER_PREFIX) || (parents.is_some() && text == UNKNOWN_NODE);
        if !texts.iter().flatten().any(is_open) {
            return None;
        }
        let mut words = Words::default();
        // Per word: its number in the settled column, and whether it is known.
        let known: Vec<(i32, bool)> = texts
            .iter()
            .map(|text| {
                let text = text.unwrap_or_default();
                match text.strip_prefix(MEMBER_PREFIX) {
                    Some(member) => match self.members.node(member, now) {
                        Some(node) => (words.number(node), true),
                        None => (words.number(text), false),
                    },
                    None => (words.number(text), !is_open(text)),
                }
            })
            .collect();
        let crumbs = parents.map(|crumbs| crumbs.as_primitive::<Int64Type>());
        let mut keys = Vec::with_capacity(given.len());
        for row in 0..given.len() {
            let Some(key) = given.key(row) else {
                keys.push(None);
                continue;
            };
            let (mut word, mut is_known) = known[key];
            if let (false, Some(crumbs), UNKNOWN_NODE) = (is_known, crumbs, texts.value(key)) {
                let node = self.parents.node(crumbs.value(row)).and_then(|node| self.machine(node, now));
                if let Some(node) = node {
                    (word, is_known) = (words.number(node), true);
                }
            }
            if !is_known {
                unknown.get_or_insert_with(|| vec![false; given.len()])[row] = true;
            }
            keys.push(Some(word));
        }
        Some(Arc::new(DictionaryArray::new(Int32Array::from(keys), Arc::new(words.array()))))
    }

    /// The machine that a `node` stands for.
    fn machine<'a>(&'a self, node: &'a str, now: i64) -> Option<&'a str> {
        match node.strip_prefix(MEMBER_PREFIX) {
            Some(member) => self.members.node(member, now),
            None => Some(node),
        }
    }
}

/// A column of a table.
fn column<'a>(batch: &'a RecordBatch, table: &Table, name: &str) -> &'a ArrayRef {
    let at = table.columns.iter().position(|column| column.name == name);
    batch.column(at.expect("a column of the table"))
}

/// A column of text of either layout.
struct Text<'a> {
    rows: Option<&'a DictionaryArray<Int32Type>>,
    words: &'a StringArray,
}

impl<'a> Text<'a> {
    fn of(column: &'a ArrayRef) -> Self {
        let rows = column.as_dictionary_opt::<Int32Type>();
        Self { rows, words: rows.map_or(column, |rows| rows.values()).as_string() }
    }

    /// Of a row; empty where null.
    fn get(&self, row: usize) -> &'a str {
        match self.rows {
            Some(rows) => rows.key(row).map_or("", |key| self.words.value(key)),
            None if self.words.is_null(row) => "",
            None => self.words.value(row),
        }
    }

    /// Whether a word is among those of the column, or of its dictionary.
    fn has(&self, is: impl Fn(&str) -> bool) -> bool {
        self.words.iter().flatten().any(is)
    }
}

/// Words of a dictionary column by number; empty where null.
fn words(batch: &RecordBatch, table: &Table, name: &str) -> HashMap<usize, Arc<str>> {
    let values = column(batch, table, name).as_dictionary::<Int32Type>().values();
    let values = values.as_string::<i32>();
    values.iter().enumerate().map(|(at, word)| (at, Arc::from(word.unwrap_or_default()))).collect()
}
