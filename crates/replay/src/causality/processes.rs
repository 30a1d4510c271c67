//! How long processes took to start and to end: what the kernel and the loader do before a program is recorded, and after, is in no thread's time.

use std::collections::HashMap;

use iotrail_causal::Recorded;

/// A wait of a thread in which a process began, or for the end of one: until when, and its edge.
pub(super) struct Life {
    pub thread: usize,
    pub end: i64,
    pub edge: u32,
    pub begins: bool,
}

/// What a thread did last, ns.
struct Last {
    did: i64,
    gave: i64,
}

impl Last {
    fn of(one: &Recorded) -> Self {
        let waits = one.waits.iter().map(|wait| wait.start + wait.dur);
        let computed = one.computed.iter().map(|(at, cpu)| at + cpu);
        let did = one.ops.last().copied().into_iter().chain(waits).chain(computed).max();
        let gave = one.signals.iter().map(|(at, _)| *at).max();
        Self { did: did.unwrap_or(i64::MAX), gave: gave.unwrap_or(i64::MAX) }
    }
}

/// Has processes compute first for as long as they took to start where their makers did nothing meanwhile: they waited, as for a child's end, or
/// are the program that was replaced (exec); and who waited for the end of one for as long as that took. `processes` are those of the
/// threads: what one of the same process begins is a thread.
pub(super) fn add(recorded: &mut [Recorded], lives: &[Life], processes: &HashMap<usize, i64>) {
    let mut givers: HashMap<u32, Option<(usize, i64)>> = lives.iter().map(|life| (life.edge, None)).collect();
    for (thread, one) in recorded.iter().enumerate() {
        for (at, edge) in &one.signals {
            if let Some(giver) = givers.get_mut(edge) {
                *giver = Some((thread, *at));
            }
        }
    }
    // since when a thread has been waiting at a time
    let waiting = |thread: usize, at: i64| {
        let waits = &recorded[thread].waits;
        let before = waits.partition_point(|wait| wait.start <= at).checked_sub(1)?;
        Some(waits[before].start).filter(|start| at < start + waits[before].dur)
    };
    let mut lasts: HashMap<usize, Last> = HashMap::new();
    let mut made_since = |maker: usize, at: i64| {
        waiting(maker, at).or_else(|| {
            let last = lasts.entry(maker).or_insert_with(|| Last::of(&recorded[maker]));
            (last.gave <= at && last.did < at).then_some(last.did)
        })
    };
    let took: Vec<(&Life, i64)> = lives
        .iter()
        .filter_map(|life| {
            let (giver, at) = (*givers.get(&life.edge)?)?;
            if processes.get(&giver)? == processes.get(&life.thread)? {
                return None;
            }
            let since =
                if life.begins { made_since(giver, at)? } else { waiting(life.thread, at).map(|_| at)? };
            (since < life.end).then_some((life, life.end - since))
        })
        .collect();
    for (life, took) in took {
        let computed = &mut recorded[life.thread].computed;
        computed.insert(computed.partition_point(|(from, _)| *from < life.end), (life.end, took));
    }
}

#[cfg(test)]
mod tests {
    use iotrail_causal::{Reason, Style, Waited};

    use super::*;

    fn one(at: i64, waits: &[(i64, i64)], computed: &[(i64, i64)]) -> Recorded {
        let waited = |(start, dur): &(i64, i64)| Waited {
            start: *start,
            dur: *dur,
            reason: Reason::Edge(9, Style::Sleep),
        };
        Recorded {
            signals: vec![(at, 1)],
            waits: waits.iter().map(waited).collect(),
            computed: computed.to_vec(),
            ..Recorded::default()
        }
    }

    fn took(of: Recorded, giver: Recorded, process: i64, begins: bool) -> Option<(i64, i64)> {
        let before = of.computed.clone();
        let mut recorded = [of, giver];
        let processes = HashMap::from([(0, 7), (1, process)]);
        add(&mut recorded, &[Life { thread: 0, end: 120, edge: 1, begins }], &processes);
        recorded[0].computed.iter().find(|one| !before.contains(one)).copied()
    }

    #[test]
    fn a_process_starts_while_its_maker_waits_or_is_replaced() {
        let of = || one(500, &[(120, 0)], &[(120, 5), (130, 1)]);
        let began = |maker| took(of(), maker, 8, true);
        assert_eq!(began(one(110, &[(20, 30), (90, 400)], &[])), Some((120, 30)), "waits for its end");
        assert_eq!(took(of(), one(110, &[(20, 30), (90, 400)], &[]), 7, true), None, "a thread");
        assert_eq!(began(one(110, &[(20, 30)], &[(50, 40)])), Some((120, 30)), "is replaced");
        assert_eq!(began(one(110, &[(20, 30)], &[(50, 40), (200, 1)])), None, "goes on");
        assert_eq!(began(one(110, &[(20, 30)], &[(50, 80)])), None, "computes");
    }

    #[test]
    fn who_waits_for_a_process_waits_until_the_kernel_has_ended_it() {
        let ended =
            |start, process| took(one(500, &[(start, 120 - start)], &[]), one(100, &[], &[]), process, false);
        assert_eq!(ended(60, 8), Some((120, 20)));
        assert_eq!(ended(110, 8), None, "it had ended");
        assert_eq!(ended(60, 7), None, "a thread");
    }

    #[test]
    fn of_a_process_that_nobody_made_nothing_is_known() {
        let mut alone = [Recorded::default()];
        let life = Life { thread: 0, end: 120, edge: 1, begins: true };
        add(&mut alone, &[life], &HashMap::from([(0, 7)]));
        assert!(alone[0].computed.is_empty());
    }
}
