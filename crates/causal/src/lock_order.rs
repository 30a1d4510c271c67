//! Locks that threads would wait for each other for: programs that only ask whether a lock is free, and go another way if it isn't, take them
//! in any order.

use std::collections::{HashMap, HashSet};

/// Locks to leave out so that the others are taken in one order by all: of those in a circle the one that costs least, again and again.
///
/// `taken` has of each thread which locks it takes (true) and gives back, in its order; `costs` what each lock that may be left out costs.
#[must_use]
pub fn left_out(taken: &[Vec<(u32, bool)>], costs: &HashMap<u32, i64>) -> HashSet<u32> {
    let mut after = order(taken);
    let mut found = HashSet::new();
    loop {
        keep_circles(&mut after);
        let in_circle = after.keys().filter_map(|lock| Some((costs.get(lock)?, lock)));
        let Some(lock) = in_circle.min().map(|(_, lock)| *lock) else { return found };
        found.insert(lock);
        after.remove(&lock);
        after.values_mut().for_each(|next| {
            next.remove(&lock);
        });
    }
}

/// Which locks are taken by a thread that has another one.
fn order(taken: &[Vec<(u32, bool)>]) -> HashMap<u32, HashSet<u32>> {
    let mut after: HashMap<u32, HashSet<u32>> = HashMap::new();
    for steps in taken {
        let mut held: Vec<u32> = Vec::new();
        for (lock, takes) in steps {
            if !takes {
                held.retain(|one| one != lock);
                continue;
            }
            for first in held.iter().filter(|first| *first != lock) {
                after.entry(*first).or_default().insert(*lock);
            }
            held.push(*lock);
        }
    }
    after
}

/// Takes out what is in no circle, nor between two.
fn keep_circles(after: &mut HashMap<u32, HashSet<u32>>) {
    loop {
        let before: HashSet<u32> = after.values().flatten().copied().collect();
        let count = after.len();
        after.retain(|lock, next| !next.is_empty() && before.contains(lock));
        let there: HashSet<u32> = after.keys().copied().collect();
        after.values_mut().for_each(|next| next.retain(|lock| there.contains(lock)));
        if after.len() == count && after.values().all(|next| !next.is_empty()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_of_a_circle_is_left_out() {
        let nested = |locks: &[u32]| -> Vec<(u32, bool)> {
            locks.iter().map(|lock| (*lock, true)).chain(locks.iter().map(|lock| (*lock, false))).collect()
        };
        let costs = HashMap::from([(0, 5), (1, 3), (2, 9), (3, 1)]);
        let of = |threads: &[&[u32]]| {
            let taken: Vec<_> = threads.iter().map(|locks| nested(locks)).collect();
            let mut found: Vec<u32> = left_out(&taken, &costs).into_iter().collect();
            found.sort_unstable();
            found
        };
        assert_eq!(of(&[&[0, 1, 2], &[0, 2], &[3]]), [] as [u32; 0]);
        assert_eq!(of(&[&[0, 1], &[1, 2], &[2, 0]]), [1]);
        assert_eq!(of(&[&[0, 1], &[1, 0], &[2, 3], &[3, 2]]), [1, 3], "two circles");
        assert_eq!(of(&[&[3, 0, 1], &[1, 0, 2]]), [1], "3 is before the circle, 2 behind it");
        assert_eq!(of(&[&[8, 9], &[9, 8]]), [] as [u32; 0], "locks that are really waited for");
        assert_eq!(of(&[&[8, 1], &[1, 8]]), [1]);
        let one_after_another = vec![(0, true), (0, false), (1, true), (1, false), (0, true), (0, false)];
        assert!(left_out(&[one_after_another], &costs).is_empty());
    }
}
