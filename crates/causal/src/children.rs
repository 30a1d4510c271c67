//! Which child a call waited for that doesn't say so: system(3), and pclose(3).

use std::collections::{HashMap, HashSet};

use crate::calls::{Process, Row};

/// Who takes longer, ns, to learn of the end of a process waited for it; running one takes longer than this.
const REAPING: i64 = 200_000;

/// A process from its first program image to its last.
#[derive(Clone, Copy)]
struct Child<'a> {
    first: &'a Process,
    last: &'a Process,
    end: i64,
}

/// The children of one program image that have ended, the first first, and that no call has waited for yet.
type Ended<'a> = Vec<Child<'a>>;

/// Of each program image, by its id.
pub struct Children<'a>(HashMap<i64, Ended<'a>>);

impl<'a> Children<'a> {
    /// Of processes by their ids; but for those that calls say they waited for, by their machines and process ids.
    pub fn new(processes: &HashMap<i64, &'a Process>, named: &HashSet<(u32, i64)>) -> Self {
        let before = |process: &Process| {
            let parent = *processes.get(&process.parent?)?;
            (parent.machine == process.machine && parent.pid == process.pid).then_some(parent)
        };
        let replaced: HashSet<i64> =
            processes.values().filter_map(|process| Some(before(process)?.id)).collect();
        let mut children: HashMap<i64, Ended> = HashMap::new();
        for &last in processes.values() {
            if replaced.contains(&last.id) || named.contains(&(last.machine, last.pid)) {
                continue;
            }
            let mut first = last;
            // an image is no earlier image of itself, unless the recording is damaged
            for _ in 0..processes.len() {
                let Some(earlier) = before(first) else { break };
                first = earlier;
            }
            if let (Some(parent), Some(end)) = (first.parent, last.end) {
                children.entry(parent).or_default().push(Child { first, last, end });
            }
        }
        children.values_mut().for_each(|ended| ended.sort_by_key(|child| (child.end, child.last.id)));
        Self(children)
    }

    /// The first image and the last of the child that a call waited for: the last that had ended, of those that began in the call if any did. Who had to
    /// wait didn't for one that had ended before; then its child was not recorded.
    pub fn take(&mut self, parent: i64, row: &Row) -> Option<(&'a Process, &'a Process)> {
        let ended = self.0.get_mut(&parent)?;
        let until = ended.partition_point(|child| child.end <= row.end.unwrap_or(i64::MAX));
        let has_waited = row.end.is_none_or(|end| end - row.start > REAPING);
        let last = until.checked_sub(1).filter(|last| ended[*last].end >= row.start || !has_waited);
        let own = ended[..until].iter().rposition(|child| child.first.start >= row.start).or(last)?;
        let child = ended.remove(own);
        Some((child.first, child.last))
    }
}
