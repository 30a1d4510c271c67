//! `iotrail-native simulate accesses`: which blocks of each access caches of a size would have missed.
//!
//! Standard input is one Arrow IPC stream of accesses in their order: `cache`, `file`, `first` and `count` (BIGINT, blocks),
//! none of them null. Each cache is empty at first and brings in what it misses. Standard output is a stream with one row an
//! access: `missed`, how many of its blocks weren't there.

use std::process::ExitCode;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use iotrail_sim::cache::{Cache, Numbers, Policy};

use super::cache::{numbers_of, policy};
use super::{batches, print_columns};
use crate::failure::Failure;

/// Blocks of one access at most.
const MOST_BLOCKS: i64 = 1 << 24;

/// Arguments of `simulate accesses`.
#[derive(clap::Args)]
pub struct Args {
    /// Replacement policy
    #[arg(long, value_name = "NAME", default_value = "lru", value_parser = policy)]
    policy: Policy,
    /// Blocks of each cache
    #[arg(long, value_name = "N", value_delimiter = ',', required = true)]
    blocks: Vec<u32>,
}

/// Reads, simulates and answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut caches: Vec<_> =
        args.blocks.iter().map(|blocks| (Cache::new(args.policy, *blocks), Numbers::default())).collect();
    let (mut missed, mut evicted) = (Vec::new(), Vec::new());
    for batch in batches()? {
        let batch = batch?;
        let [cache, file, first, count] = [0, 1, 2, 3].map(|at| numbers_of(&batch, at));
        let (cache, file, first, count) = (cache?, file?, first?, count?);
        for at in 0..batch.num_rows() {
            let wrong = |what: &str| Failure::new(format!("stdin: row {at}: expected {what}"));
            let cache = usize::try_from(cache[at]).ok().and_then(|number| caches.get_mut(number));
            let (cache, numbers) = cache.ok_or_else(|| wrong("a cache that --blocks has"))?;
            let first = u64::try_from(first[at]).map_err(|_| wrong("a first block of 0 or more"))?;
            if !(0..=MOST_BLOCKS).contains(&count[at]) {
                return Err(wrong(&format!("0 to {MOST_BLOCKS} blocks")));
            }
            let mut misses = 0;
            for block in first..first.saturating_add(count[at] as u64) {
                // The whole of a file's id, in two halves: as a device and the upper half of its block.
                let place = (file[at] as u64 >> 32) as u32;
                let number = numbers.of(place, (file[at] as u64) << 32 ^ block);
                let number = number.ok_or_else(|| wrong("fewer different blocks"))?;
                misses += i64::from(!cache.touch(number, &mut evicted));
                evicted.clear();
            }
            missed.push(misses);
        }
    }
    print_columns([("missed", Arc::new(Int64Array::from(missed)) as ArrayRef)])
}
