//! What a trail says of who waited for whom, for each thread of a plan.

use std::collections::HashMap;
use std::path::Path;

use iotrail_causal::{Reason, Recorded, Scripts, Style, Waited};
use iotrail_format::schema::{COMPUTE, SIGNAL, WAIT};
use iotrail_trail::TrailReader;

use crate::Error;
use crate::plan::{Plan, Thread};

/// Kinds of waits for a time.
const TIMERS: [&str; 2] = ["sleep", "timer"];

/// What each thread of a plan did, by its number.
#[derive(Debug, Default)]
pub struct Causality {
    /// Times are those of the plan.
    pub recorded: Vec<Recorded>,
    /// How many edges there are.
    pub edges: u32,
}

/// Reads it; `zero` is the plan's origin. Threads without operations are added to the plan.
///
/// # Errors
/// [`Error::Trail`] if the trail can't be read, [`Error::NoCausality`] if it was recorded without.
pub(crate) fn read(
    trail: &Path,
    reader: &TrailReader,
    plan: &mut Plan,
    zero: i64,
) -> Result<Causality, Error> {
    let computed = reader.small(&COMPUTE, &["thread", "ts", "dur", "cpu_ns"], &[])?;
    if computed.is_empty() {
        return Err(Error::NoCausality { path: trail.to_owned() });
    }
    let mut number_of: HashMap<i64, usize> =
        plan.threads.iter().enumerate().map(|(number, thread)| (thread.id, number)).collect();
    let mut recorded: Vec<Recorded> = plan
        .threads
        .iter()
        .map(|thread| {
            let ops = thread.ops.iter().map(|op| op.start).collect();
            Recorded { ops, ..Recorded::default() }
        })
        .collect();
    let mut edges = 0u32;
    let mut number = |id: i64, recorded: &mut Vec<Recorded>| {
        *number_of.entry(id).or_insert_with(|| {
            plan.threads.push(Thread { id, ..Thread::default() });
            recorded.push(Recorded::default());
            recorded.len() - 1
        })
    };
    for row in computed {
        if let [Some(thread), Some(ts), dur, cpu] = row.ints[..]
            && let Some(cpu) = cpu.or(dur)
        {
            let at = number(thread, &mut recorded);
            recorded[at].computed.push((ts - zero, cpu));
        }
    }
    for row in reader.small(&SIGNAL, &["thread", "ts", "edge"], &[])? {
        if let [Some(thread), Some(ts), Some(edge)] = row.ints[..] {
            let at = number(thread, &mut recorded);
            recorded[at].signals.push((ts - zero, edge as u32));
            edges = edges.max(edge as u32 + 1);
        }
    }
    for row in reader.small(&WAIT, &["thread", "ts", "dur", "edge"], &["kind", "style"])? {
        let [Some(thread), Some(ts), Some(dur), edge] = row.ints[..] else { continue };
        let kind = row.texts[0].as_deref().unwrap_or_default();
        let style = row.texts[1].as_deref().and_then(Style::from_name).unwrap_or(Style::Sleep);
        let reason = match edge {
            Some(edge) => {
                edges = edges.max(edge as u32 + 1);
                Reason::Edge(edge as u32, style)
            }
            None if TIMERS.contains(&kind) => Reason::Timer,
            None => Reason::Unknown,
        };
        let at = number(thread, &mut recorded);
        recorded[at].waits.push(Waited { start: ts - zero, dur, reason });
    }
    Ok(Causality { recorded, edges })
}

impl Causality {
    /// Scripts of the threads, by their numbers.
    #[must_use]
    pub fn scripts(&self) -> Scripts {
        let zero = self.recorded.iter().filter_map(Recorded::first).min().unwrap_or(0);
        let threads: Vec<_> = self.recorded.iter().map(|one| one.script(zero, false)).collect();
        let mut signals = vec![0; self.edges as usize];
        for (_, edge) in self.recorded.iter().flat_map(|one| &one.signals) {
            signals[*edge as usize] += 1;
        }
        Scripts { threads, signals, locks: 0 }
    }
}
