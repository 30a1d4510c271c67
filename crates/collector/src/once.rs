//! Rows that may come again, taken once.
//!
//! A sender that reads a storage system's history anew, and OpenTelemetry's exporters after an answer that got lost,
//! send rows again under another number. Such a row is known by the columns that identify it ([`KEYS`]), of which a
//! hash is kept for [`WINDOW`]. What describes processes, threads and files is taken once for good, whoever sends it:
//! readers join with it.
//!
//! Hashes are 64 bits with a seed of the process: with 8 million at hand one in 2 * 10^12 rows is taken for another.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher as _;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::DataType;
use foldhash::fast::RandomState;
use iotrail_format::schema::Table;

/// How long a row is known, ns.
pub const WINDOW: i64 = 10 * MINUTE;
const MINUTE: i64 = 60 * 1_000_000_000;
/// Hashes kept at most, of each kind; about 18 bytes each.
const MOST: usize = 8 << 20;

/// What identifies a row, by table; of other tables all columns do. The node is part of it only where the breadcrumb
/// doesn't say enough: a sender may name it by a member whose machine becomes known between two deliveries.
const KEYS: [(&str, &[&str]); 11] = [
    ("service_op", &["crumb", "ts", "component", "kind", "op", "thread", "span"]),
    ("stitch", &["crumb", "parent_crumb", "kind", "ts"]),
    ("buffer_op", &["crumb", "ts", "component", "cache", "kind", "file", "pos", "length"]),
    ("network_transmit", &["crumb", "ts", "sender", "receiver", "length"]),
    ("disk_op", &["node", "crumb", "ts", "kind", "dev", "op", "pos", "thread"]),
    ("cpu_slice", &["node", "thread", "ts", "kind"]),
    ("node_sample", &["node", "ts", "member", "metric", "name", "least"]),
    ("member", &["node", "ts", "member", "state"]),
    ("process", &["node", "process"]),
    ("thread", &["node", "thread"]),
    ("file", &["node", "file"]),
];

/// Tables whose rows are taken once for good.
const FOR_GOOD: [&str; 4] = ["process", "thread", "file", "recording"];

/// Whether rows of a table are taken once for good.
#[must_use]
pub fn is_for_good(table: &Table) -> bool {
    FOR_GOOD.contains(&table.name)
}

/// What was seen.
#[derive(Default)]
pub struct Once {
    hasher: RandomState,
    /// By the minute, oldest first.
    recent: VecDeque<(i64, HashSet<u64, RandomState>)>,
    for_good: HashSet<u64, RandomState>,
    /// Hashes forgotten before their time.
    pub forgotten: u64,
}

impl Once {
    /// Which rows were not seen before; from now on they were.
    pub fn fresh(&mut self, table: &'static Table, batch: &RecordBatch, now: i64) -> BooleanArray {
        let keys = self.keys(table, batch);
        if is_for_good(table) {
            if self.for_good.len() + keys.len() > MOST {
                // Files only, and compaction makes equal ones one.
                self.forgotten += self.for_good.len() as u64;
                self.for_good.clear();
            }
            return keys.into_iter().map(|key| Some(self.for_good.insert(key))).collect();
        }
        let minute = now.div_euclid(MINUTE);
        while self.recent.front().is_some_and(|(of, _)| *of < minute - WINDOW / MINUTE) {
            self.recent.pop_front();
        }
        while self.recent.len() > 1 && self.recent.iter().map(|(_, keys)| keys.len()).sum::<usize>() > MOST {
            self.forgotten += self.recent.pop_front().map_or(0, |(_, keys)| keys.len() as u64);
        }
        if self.recent.back().is_none_or(|(of, _)| *of < minute) {
            self.recent.push_back((minute, HashSet::default()));
        }
        let (newest, older) = {
            let slices = self.recent.make_contiguous();
            slices.split_last_mut().expect("one was pushed")
        };
        let fresh = keys
            .into_iter()
            .map(|key| Some(!older.iter().any(|(_, keys)| keys.contains(&key)) && newest.1.insert(key)));
        fresh.collect()
    }

    /// A hash of what identifies each row.
    fn keys(&self, table: &'static Table, batch: &RecordBatch) -> Vec<u64> {
        let mut keys = vec![self.hasher.hash_one(table.name); batch.num_rows()];
        let named = KEYS.iter().find(|(name, _)| *name == table.name).map(|(_, columns)| *columns);
        for (column, array) in table.columns.iter().zip(batch.columns()) {
            if named.is_none_or(|names| names.contains(&column.name)) {
                self.mix(&mut keys, array);
            }
        }
        keys
    }

    fn mix(&self, keys: &mut [u64], array: &ArrayRef) {
        // Nulls are a value of their own.
        const NULL: u64 = 0x9e37_79b9_7f4a_7c15;
        let all = keys.iter_mut().enumerate();
        match array.data_type() {
            DataType::Int64 => {
                let values = array.as_primitive::<Int64Type>();
                all.for_each(|(row, key)| {
                    let value = if values.is_valid(row) { values.value(row) as u64 } else { NULL };
                    *key = self.hasher.hash_one((*key, value));
                });
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                all.for_each(|(row, key)| *key = self.hasher.hash_one((*key, values.value(row).to_bits())));
            }
            DataType::Utf8 => {
                let values = array.as_string::<i32>();
                all.for_each(|(row, key)| {
                    let text = values.is_valid(row).then(|| values.value(row));
                    *key = self.hasher.hash_one((*key, text));
                });
            }
            _ => {
                let words = array.as_dictionary::<Int32Type>();
                let hashes: Vec<u64> =
                    words.values().as_string::<i32>().iter().map(|word| self.hasher.hash_one(word)).collect();
                all.for_each(|(row, key)| {
                    let hash = words.key(row).map_or(NULL, |at| hashes[at]);
                    *key = self.hasher.hash_one((*key, hash));
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_format::schema::{STITCH, TABLES};
    use iotrail_trail::arrays::{Value, batch};

    fn stitch(crumbs: &[i64]) -> RecordBatch {
        let row = |crumb: &i64| -> Vec<Value> {
            vec![
                7.into(),
                0.into(),
                "n".into(),
                1.into(),
                (*crumb).into(),
                "p".into(),
                9.into(),
                "rpc".into(),
                1.into(),
                Value::Null,
            ]
        };
        batch(&STITCH, crumbs.iter().map(row).collect()).expect("rows of the table")
    }

    #[test]
    fn keys_name_columns_of_their_tables() {
        for (table, columns) in KEYS {
            let table = TABLES.iter().find(|t| t.name == table).expect("a table");
            for name in columns {
                assert!(table.columns.iter().any(|c| c.name == *name), "{}.{name}", table.name);
            }
        }
    }

    #[test]
    fn a_row_is_known_for_ten_minutes() {
        let mut once = Once::default();
        let fresh = |once: &mut Once, crumbs: &[i64], minute: i64| {
            once.fresh(&STITCH, &stitch(crumbs), minute * MINUTE).true_count()
        };
        assert_eq!(fresh(&mut once, &[1, 2, 2, 3], 0), 3);
        assert_eq!(fresh(&mut once, &[1, 4], 5), 1);
        assert_eq!(fresh(&mut once, &[1, 2, 3, 4], 10), 0);
        assert_eq!(fresh(&mut once, &[1, 2, 3, 4], 11), 3);
    }
}
