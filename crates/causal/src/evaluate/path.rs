//! The critical path, back from the end.

use super::Thread;
use crate::script::{Scripts, Step};

/// What a thread does on the critical path. Nobody waits for another there: then it goes on with that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// Computes.
    Compute,
    /// Would compute, but shares its core: all that makes a computation longer than its CPU time, put before it.
    Ready,
    /// Waits for the storage.
    Io,
    /// Rests.
    Rest,
}

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of the thread.
    pub thread: u32,
    /// Its step, as an index.
    pub step: u32,
    /// What it does.
    pub activity: Activity,
    /// From when, ns from the start.
    pub from: i64,
    /// Until when; later than `from`.
    pub to: i64,
}

/// The critical path of threads that have all ended.
pub(super) fn trace(scripts: &Scripts, threads: &[Thread]) -> Vec<Segment> {
    let mut path = Vec::new();
    // of equal ends the lowest number
    let last = (0..threads.len()).rev().max_by_key(|number| threads[*number].run.end());
    let Some(mut number) = last else { return path };
    let mut step = threads[number].step();
    // how many of its causes lie before where the path has got to in each thread: it only goes back
    let mut causes: Vec<usize> = threads.iter().map(|thread| thread.causes.len()).collect();
    while step > 0 {
        step -= 1;
        let thread = &threads[number];
        let ends = &thread.run.ends;
        let (from, to) = (if step > 0 { ends[step - 1] } else { 0 }, ends[step]);
        if from == to {
            continue;
        }
        let mut push = |activity, from, to| {
            if from < to {
                path.push(Segment { thread: number as u32, step: step as u32, activity, from, to });
            }
        };
        let left = &mut causes[number];
        while *left > 0 && thread.causes[*left - 1].step as usize > step {
            *left -= 1;
        }
        let cause = thread.causes[..*left].last().filter(|cause| cause.step as usize == step);
        match scripts.threads[number].steps[step] {
            Step::Compute(cpu) => {
                let begin = to - cpu.clamp(0, to - from);
                push(Activity::Compute, begin, to);
                push(Activity::Ready, from, begin);
            }
            Step::Rest(_) => push(Activity::Rest, from, to),
            // one that a signal ended leads to who gave it
            Step::Timeout(..) if cause.is_none() => push(Activity::Rest, from, to),
            Step::Timeout(..) => {}
            Step::Io(_) => push(Activity::Io, cause.map_or(from, |cause| cause.at), to),
            // who tries for it sleeps on when it has been given back, who looks for it until the next look
            Step::Lock(_) | Step::Share(_) | Step::Poll(..) => {
                push(Activity::Rest, cause.map_or(from, |cause| cause.at), to)
            }
            Step::Signal(_) | Step::Wait(..) | Step::Hurry(_) | Step::Unlock(_) => {}
        }
        if let Some(cause) = cause {
            number = cause.by as usize;
            step = cause.by_step as usize + 1;
        }
    }
    path.reverse();
    path
}
