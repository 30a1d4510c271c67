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
    Forked {
        parent: u32,
        child: u32,
    },
    Freed {
        tid: u32,
    },
}

#[derive(Clone, Copy)]
enum Kind {
    Queue,
    Merge,
    Issue,
    Requeue,
    RequestComplete,
    BioComplete,
    Switch,
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
const FOLLOW: &[(&str, Kind)] =
    &[("sched/sched_process_fork", Kind::Fork), ("sched/sched_process_free", Kind::Free)];

/// The events asked for, by their number.
pub struct Catalog {
    formats: HashMap<u16, (Kind, Format)>,
    pub names: Vec<&'static str>,
}

impl Catalog {
    /// Reads the formats below `events`. An error is the reason, in a line.
    pub fn read(events: &Path, disk: bool, sched: bool) -> Result<Catalog, String> {
        let mut catalog = Catalog { formats: HashMap::new(), names: Vec::new() };
        for (_, list) in [(disk, DISK), (sched, SCHED), (true, FOLLOW)].into_iter().filter(|(on, _)| *on) {
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
