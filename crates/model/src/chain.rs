//! Which of some things comes next: counted, and drawn so that transitions come about as often as they were counted.

use rand::Rng;

use crate::model::Chain;
use crate::quotas::{Quotas, choose};

/// Counted transitions between things 0 to `size`, which is not 0.
#[derive(Clone, Debug)]
pub struct Counts {
    size: usize,
    /// Row: from; column: to. Requests, and those that began a run.
    counts: Vec<(u64, u64)>,
    first: Option<usize>,
    last: usize,
}

impl Counts {
    /// No transition yet.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self { size, counts: vec![(0, 0); size * size], first: None, last: 0 }
    }

    /// Counts a request.
    pub fn visit(&mut self, thing: usize, begins: bool) {
        if self.first.is_none() {
            self.first = Some(thing);
        } else {
            let count = &mut self.counts[self.last * self.size + thing];
            count.0 += 1;
            count.1 += u64::from(begins);
        }
        self.last = thing;
    }

    /// What was counted.
    #[must_use]
    pub fn found(&self) -> Chain {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| count.0 > 0);
        let row = |(at, &(requests, begun)): (usize, &(u64, u64))| {
            (at / self.size, at % self.size, requests, begun)
        };
        Chain { first: self.first.unwrap_or(0), transitions: counted.map(row).collect() }
    }
}

/// Where requests are, and where those that begin a run go next.
#[derive(Clone, Debug)]
pub struct Walk {
    /// By where from: where to, and how often with the beginning of a run.
    rows: Vec<Vec<(usize, u64)>>,
    all: Vec<(usize, u64)>,
    due: Quotas<(usize, usize)>,
    first: usize,
    at: Option<usize>,
}

impl Walk {
    /// Of counted transitions.
    #[must_use]
    pub fn new(size: usize, chain: &Chain) -> Self {
        let mut rows = vec![Vec::new(); size];
        let mut all = vec![0; size];
        for &(from, to, _, begun) in &chain.transitions {
            if begun > 0 {
                rows[from].push((to, begun));
                all[to] += begun;
            }
        }
        let all = all.into_iter().enumerate().filter(|(_, count)| *count > 0).collect();
        let due =
            Quotas::new(chain.transitions.iter().map(|&(from, to, requests, _)| ((from, to), requests)));
        Self { rows, all, due, first: chain.first, at: None }
    }

    /// Where the next run begins.
    pub fn choose(&self, random: &mut impl Rng, weight: impl Fn(usize) -> f64) -> usize {
        let Some(at) = self.at else { return self.first };
        let pull = |to: usize| self.due.pull((at, to)) * weight(to);
        choose(&self.rows[at], random, pull).or_else(|| choose(&self.all, random, pull)).unwrap_or(at)
    }

    /// Goes to where a request is.
    pub fn go(&mut self, to: usize) {
        if let Some(at) = self.at {
            self.due.take((at, to));
        }
        self.at = Some(to);
    }
}
