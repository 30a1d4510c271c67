//! The events that are traced, taken out of their records.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::disk::{Request, SECTOR, rwbs};
use super::format::{Format, little};
use crate::events::{Dev, Flags, text};

/// An event's fields, as far as they count. Threads are tids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Queued {
        tid: u32,
        request: Request,
        flags: Flags,
        comm: String,
    },
    Merged(Request),
    Issued(Request),
    Requeued(Request),
    /// `error`: 0 or -errno. `issued`: as a request.
    Completed {
        request: Request,
        error: i32,
        issued: bool,
    },
    Switched {
        tid: u32,
        state: u32,
        next: u32,
    },
    /// `by` ran on that CPU.
    Waking {
        tid: u32,
        interrupt: bool,
        by: u32,
    },
    Forked {
        parent: u32,
        child: u32,
    },
    Freed {
        tid: u32,
    },
}

/// Flags of an event that an interrupt caused: hard, soft, not to be masked (enum trace_flag_type, include/linux/trace_events.h).
const INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

#[derive(Clone, Copy)]
enum Kind {
    Queue,
    Merge,
    Issue,
    Requeue,
    RequestComplete,
    BioComplete,
    Switch,
    Wake,
    Fork,
    Free,
}

const DISK: &[(&str, Kind)] = &[
    ("block/block_bio_queue", Kind::Queue),
    ("block/block_bio_backmerge", Kind::Merge),
    ("block/block_bio_frontmerge", Kind::Merge),
    ("block/block_rq_merge", Kind::Merge),
    ("block/block_rq_issue", Kind::Issue),
    ("block/block_rq_requeue", Kind::Requeue),
    ("block/block_rq_complete", Kind::RequestComplete),
    ("block/block_bio_complete", Kind::BioComplete),
];
const SCHED: &[(&str, Kind)] = &[("sched/sched_switch", Kind::Switch)];
const WAKE: &[(&str, Kind)] = &[("sched/sched_waking", Kind::Wake)];
const FOLLOW: &[(&str, Kind)] =
    &[("sched/sched_process_fork", Kind::Fork), ("sched/sched_process_free", Kind::Free)];

/// The events asked for, by their number.
pub struct Catalog {
    formats: HashMap<u16, (Kind, Format)>,
    pub names: Vec<&'static str>,
}

impl Catalog {
    /// Reads the formats below `events` of disks, of the scheduler's switches and of who is woken, where they are wanted. An
    /// error is the reason, in a line.
    pub fn read(events: &Path, [disk, sched, wake]: [bool; 3]) -> Result<Catalog, String> {
        let mut catalog = Catalog { formats: HashMap::new(), names: Vec::new() };
        let lists = [(disk, DISK), (sched, SCHED), (wake, WAKE), (true, FOLLOW)];
        for (_, list) in lists.into_iter().filter(|(on, _)| *on) {
            for &(name, kind) in list {
                let text = fs::read_to_string(events.join(name).join("format"))
                    .map_err(|error| format!("no event {name}: {error}"))?;
                let format =
                    Format::parse(&text).ok_or_else(|| format!("the format of {name} is not understood"))?;
                catalog.formats.insert(format.id, (kind, format));
                catalog.names.push(name);
            }
        }
        Ok(catalog)
    }

    /// None: an event that doesn't count.
    pub fn decode(&self, record: &[u8]) -> Option<Seen> {
        let id = little(record.get(..2)?)? as u16;
        let (kind, format) = self.formats.get(&id)?;
        let number = |name| format.number(record, name);
        let tid = |name| number(name).map(|tid| tid as u32);
        Some(match kind {
            Kind::Queue => {
                let (request, flags) = request(format, record)?;
                Seen::Queued {
                    tid: tid("common_pid")?,
                    request,
                    flags,
                    comm: text(format.bytes(record, "comm")?),
                }
            }
            Kind::Merge => Seen::Merged(request(format, record)?.0),
            Kind::Issue => Seen::Issued(request(format, record)?.0),
            Kind::Requeue => Seen::Requeued(request(format, record)?.0),
            Kind::RequestComplete | Kind::BioComplete => {
                let (request, _) = request(format, record)?;
                let issued = matches!(kind, Kind::RequestComplete) && request.length > 0;
                Seen::Completed { request, error: number("error")? as i32, issued }
            }
            Kind::Switch => {
                Seen::Switched { tid: tid("prev_pid")?, state: tid("prev_state")?, next: tid("next_pid")? }
            }
            Kind::Wake => Seen::Waking {
                tid: tid("pid")?,
                interrupt: number("common_flags")? & INTERRUPT != 0,
                by: tid("common_pid")?,
            },
            Kind::Fork => Seen::Forked { parent: tid("parent_pid")?, child: tid("child_pid")? },
            Kind::Free => Seen::Freed { tid: tid("pid")? },
        })
    }
}

fn request(format: &Format, record: &[u8]) -> Option<(Request, Flags)> {
    let number = |name| format.number(record, name);
    let length = number("nr_sector")? * SECTOR;
    let (op, flags) = rwbs(&text(format.bytes(record, "rwbs")?), length)?;
    let dev = Dev::from_kernel(number("dev")? as u32);
    Some((Request { dev, op, pos: number("sector")? * SECTOR, length }, flags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Op;

    /// Fields as `name offset size`, of Linux 6.18.
    fn format(kind: Kind, id: u16, fields: &[(&str, usize, usize)]) -> (u16, (Kind, Format)) {
        let fields = fields.iter().map(|(name, offset, size)| {
            format!("\tfield:int {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
        });
        let text = format!("ID: {id}\nformat:\n{}", fields.collect::<String>());
        (id, (kind, Format::parse(&text).unwrap()))
    }

    fn catalog() -> Catalog {
        let pid = ("common_pid", 4, 4);
        let place = [("dev", 8, 4), ("sector", 16, 8), ("nr_sector", 24, 4)];
        let formats = [
            format(Kind::Queue, 2097, &[&[pid, ("rwbs", 28, 10), ("comm", 38, 16)], &place[..]].concat()),
            format(
                Kind::RequestComplete,
                2107,
                &[&[pid, ("error", 28, 4), ("rwbs", 34, 10)], &place[..]].concat(),
            ),
            format(Kind::Switch, 372, &[("prev_pid", 24, 4), ("prev_state", 32, 8), ("next_pid", 56, 4)]),
            format(Kind::Fork, 366, &[("parent_pid", 12, 4), ("child_pid", 20, 4)]),
        ];
        Catalog { formats: formats.into(), names: Vec::new() }
    }

    fn decode(hex: &str) -> Option<Seen> {
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        catalog().decode(&bytes)
    }

    // Records of `dd` reading 64 KiB past the cache.

    #[test]
    fn queued() {
        let dev = Dev { major: 254, minor: 0 };
        let request = Request { dev, op: Op::Read, pos: 204_136_775_680, length: 65536 };
        let flags = Flags { sync: true, ..Flags::default() };
        let hex = "31080000d85800000000e00f0000000000c0c317000000008000000052530000000000000000646400000000000000000000\
            000000000000";
        assert_eq!(decode(hex), Some(Seen::Queued { tid: 22744, request, flags, comm: "dd".to_owned() }));
        assert_eq!(decode(&hex[..80]), None, "cut off");
    }

    #[test]
    fn completed() {
        let dev = Dev { major: 7, minor: 0 };
        let request = Request { dev, op: Op::Write, pos: 0xd9b0 * SECTOR, length: 4096 };
        let hex = "3b0810000e0000000000700000000000b0d90000000000000800000000000000044057530000000000000000300001000000\
            0000";
        assert_eq!(decode(hex), Some(Seen::Completed { request, error: 0, issued: true }));
    }

    #[test]
    fn switched() {
        let hex = "74010102d858000064640000000000000000000000000000d8580000780000000200000000000000696f747261696c2d6e61\
            7469766500009f58000078000000";
        assert_eq!(decode(hex), Some(Seen::Switched { tid: 22744, state: 2, next: 22687 }));
    }

    #[test]
    fn forked() {
        let hex = "6e010000d758000018000600d75800001e000600d858000070726f62650070726f626500";
        assert_eq!(decode(hex), Some(Seen::Forked { parent: 22743, child: 22744 }));
    }

    #[test]
    fn others() {
        assert_eq!(decode("ffff0000"), None);
        assert_eq!(decode("31"), None);
    }
}
