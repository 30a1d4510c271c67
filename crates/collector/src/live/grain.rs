//! Series taken together by member, machine, rack or role, and their numbers in frames.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::members::{By, Members};
use super::series::{Samples, Word};

/// A series of a group.
pub struct Group {
    /// Member, machine, rack or role.
    pub key: Arc<str>,
    /// The series it consists of.
    pub parts: Vec<u32>,
}

/// One way of taking together.
pub struct Grain {
    by: By,
    index: HashMap<(Word, Word, Word, i64), u32, RandomState>,
    /// By number.
    pub groups: Vec<Group>,
    /// The number of each series' group.
    pub of: Vec<u32>,
    moves: u64,
}

impl Grain {
    /// One without series yet.
    #[must_use]
    pub fn new(by: By) -> Self {
        Self { by, index: HashMap::default(), groups: Vec::new(), of: Vec::new(), moves: 0 }
    }

    /// Takes in new series, and members that are somewhere else now. Numbers stay what they are.
    pub fn renew(&mut self, samples: &mut Samples, members: &Members) {
        if self.by != By::Member && self.moves != members.moves {
            self.moves = members.moves;
            self.of.clear();
            self.groups.iter_mut().for_each(|group| group.parts.clear());
        }
        for at in self.of.len()..samples.series().len() {
            let series = &samples.series()[at];
            let (metric, name, least) = (series.metric, series.name, series.least);
            let text = |word| samples.text(word).map_or("", |text| &**text);
            let group = members.group(text(series.member), text(series.node), self.by);
            let member = series.member;
            let word = samples.word(&group).unwrap_or(member);
            let key = samples.text(word).expect("it has one now").clone();
            let number = *self.index.entry((word, metric, name, least)).or_insert_with(|| {
                self.groups.push(Group { key, parts: Vec::new() });
                (self.groups.len() - 1) as u32
            });
            self.groups[number as usize].parts.push(at as u32);
            self.of.push(number);
        }
    }
}
