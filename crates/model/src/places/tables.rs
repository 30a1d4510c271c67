//! Keys and tables of [`super::Places`]. What is looked up several times a request has one number as its key, which is hashed
//! faster than several.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::UNSEEN;
use crate::model::{Direction, Return, Table, rows};

/// Of a range: its number has at most 16 bits.
pub fn range_key(device: u32, level: u32, number: u64) -> u64 {
    u64::from(device) << 32 | u64::from(level) << 24 | number
}

/// Of the distance class where a run begins.
pub fn start_key(direction: Direction, class: u8) -> u16 {
    (direction as u16) << 8 | u16::from(class)
}

/// Of what a run returns to, by a distance class in fours.
pub fn return_key(direction: Direction, fours: u8, back: Return) -> u32 {
    u32::from(start_key(direction, fours)) << 8 | u32::from(u8::from(back))
}

/// How much more often each distance class comes with a kind of run than by chance.
pub type Lifts = HashMap<(Direction, u8, u8), Vec<f64>, FixedState>;

/// Of counted beginnings of runs.
pub fn lifts(begins: &Table<(u8, u8, u8, u64)>) -> Lifts {
    let (mut of_kind, mut of_class, mut of_both) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (d, (near, length, class, count)) in rows(begins) {
        *of_kind.entry((d, near, length)).or_insert(0) += count;
        *of_class.entry((d, class)).or_insert(0) += count;
        *of_both.entry(d).or_insert(0) += count;
    }
    let mut lifts = Lifts::default();
    for (d, (near, length, class, count)) in rows(begins) {
        let chance = of_kind[&(d, near, length)] as f64 * of_class[&(d, class)] as f64 / of_both[&d] as f64;
        let of = lifts.entry((d, near, length)).or_default();
        of.resize(of.len().max(usize::from(class) + 1), UNSEEN);
        of[usize::from(class)] = count as f64 / chance.max(f64::MIN_POSITIVE);
    }
    lifts
}
