//! Rows of `thread_time`: what threads read from their own CPU clocks, and what the scheduler says of them.

use super::kernel::Whose;
use super::slot::Fields;
use super::{Rows, Small};
use crate::arrays::Value;
use crate::seal::view::Unit;

impl Rows {
    /// What a thread posted of itself ([`iotrail_format::segment::OP_TIME`]).
    pub(super) fn own_time(&self, thread: i64, slot: Fields<'_>) -> Vec<Value> {
        let (ts, end) = (self.ts(slot.start()), self.ts(slot.end()));
        let dur = (end - ts).max(0);
        // A program may have written anything into its ring: nothing lasts longer than the stretch.
        let within = |value: i64| value.clamp(0, dur);
        let [outside, away, io, wait] = [slot.object(), slot.pos(), slot.length(), slot.result()].map(within);
        let (major, voluntary) = (slot.aux() & 0xffff_ffff, slot.aux() >> 32 & 0xffff_ffff);
        vec![
            ts.into(),
            dur.into(),
            self.node.as_str().into(),
            thread.into(),
            "thread".into(),
            outside.saturating_add(io).saturating_add(wait).min(dur).into(),
            outside.into(),
            io.into(),
            wait.into(),
            away.into(),
            Value::Null,
            i64::from(slot.fd()).max(0).into(),
            major.into(),
            voluntary.into(),
        ]
    }

    /// What the recorder sampled of threads ([`iotrail_format::segment::OP_SAMPLE`]). Of a thread that nothing else
    /// tells of there is no row.
    pub(super) fn samples(&mut self, units: &[Unit], small: &mut Small) {
        for unit in units {
            let slot = Fields(unit);
            let (ts, end) = (self.clock.ts_of_mono(slot.start()), self.clock.ts_of_mono(slot.end()));
            let (pid, tid) = (slot.object() as u32, slot.fd() as u32);
            let Some(Whose { thread, image, .. }) = self.whose(pid, tid, ts) else { continue };
            self.noticed(image, tid, slot);
            small.time.push(vec![
                ts.into(),
                (end - ts).max(0).into(),
                self.node.as_str().into(),
                thread.into(),
                "scheduler".into(),
                slot.pos().max(0).into(),
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                slot.length().max(0).into(),
                Value::Null,
                Value::Null,
                Value::Null,
            ]);
        }
    }
}
