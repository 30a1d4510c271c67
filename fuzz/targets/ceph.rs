//! A daemon's history on any bytes, cut anywhere: its entries are told or counted as lost, and no others.

#![no_main]

use iotrail_agent::outbox::Outbox;
use iotrail_agent::source::Tick;
use iotrail_agent::sources::ceph::history::History;
use iotrail_agent::sources::ceph::requests::{Requests, Teller};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, dump)) = input.split_first() else { return };
    for member in ["osd.0", "mds.a"] {
        let teller = Teller { member: member.into(), fsid: "f".into(), fs: "fs".into(), thread: 1 };
        let (mut history, mut requests) = (History::default(), Requests::new(teller));
        let mut out = Outbox::new("n");
        out.begin(Tick { now: 2, before: Some(1), from_wall: 0, settled: 0 });
        let mut body = Vec::new();
        for part in dump.chunks(usize::from(*choice) + 1) {
            body.extend_from_slice(part);
            history.read(&mut body, false, &mut requests, &mut out);
        }
        let found = history.read(&mut body, true, &mut requests, &mut out).expect("the end");
        let (round, ..) = history.end(2, choice % 2 == 0);
        assert_eq!(round.found, found);
        out.take();
    }
});
