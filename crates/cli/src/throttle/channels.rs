//! Which threads may wait for each other without a call that shows it: threads of a process, processes that share memory, and those of which one changes
//! a file, or a folder, and another one looks at it again and again.
//!
//! Not seen: System V's shared memory (shmget(2)), and memory of devices. A process shares memory that has no name with whom it was forked from,
//! until it runs another program.

use std::collections::{HashMap, HashSet};

use iotrail_format::call::{Call, CallKind, WaitKind};
use iotrail_format::schema::FILE;
use iotrail_trail::{Error, Order, TrailReader};

/// In the flags of mmap's rows.
const PROT_WRITE: i64 = 2;
const MAP_SHARED: i64 = 1 << 8;
/// Flag of open(2).
const O_CREAT: i64 = 0o100;

/// Processes by what they share.
#[derive(Default)]
pub struct Channels {
    /// Of each process another one that it shares something with; of one of them itself.
    of: HashMap<i64, i64>,
}

/// Who does something with a file.
#[derive(Default)]
struct Users {
    change: HashSet<i64>,
    /// How often: who waits for something looks at least twice.
    look: HashMap<i64, u32>,
    map: HashSet<i64>,
    map_to_write: HashSet<i64>,
}

impl Channels {
    /// Of a trail; by thread the process that it is of.
    pub fn read(reader: &TrailReader, process_of: &HashMap<i64, i64>) -> Result<Self, Error> {
        let mut channels = Self::default();
        let mut inside: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
        let mut rows = reader.sync_ops(Order::Thread)?;
        while let Some(row) = rows.next()? {
            if row.call == Call::Fork.name()
                && let Some(maker) = row.peer.and_then(|maker| process_of.get(&maker))
                && let Some(process) = process_of.get(&row.thread.0)
            {
                channels.join(*process, *maker);
            }
            if let (true, Some(dur)) = (row.kind == WaitKind::Mpi.name(), row.dur) {
                inside.entry(row.thread.0).or_default().push((row.ts, row.ts + dur));
            }
        }
        for users in users(reader, process_of, &inside)?.values() {
            if users.map.len() > 1 && !users.map_to_write.is_empty() {
                channels.join_all(&users.map);
            }
            let again = users.look.iter().filter(|(_, times)| **times > 1).map(|(process, _)| *process);
            let look: HashSet<i64> = again.collect();
            if !users.change.is_empty() && !look.is_empty() {
                channels.join_all(&users.change.union(&look).copied().collect());
            }
        }
        Ok(channels)
    }

    /// What tells those apart that share nothing.
    pub fn of(&self, process: i64) -> i64 {
        let mut at = process;
        while let Some(next) = self.of.get(&at).filter(|next| **next != at) {
            at = *next;
        }
        at
    }

    fn join(&mut self, one: i64, other: i64) {
        let (one, other) = (self.of(one), self.of(other));
        self.of.insert(one.max(other), one.min(other));
    }

    fn join_all(&mut self, processes: &HashSet<i64>) {
        if let Some(first) = processes.iter().min() {
            processes.iter().for_each(|one| self.join(*first, *one));
        }
    }
}

/// Who changes, looks at and maps each file. What MPI maps for itself (`inside` has its calls of each thread, in order) is left out.
fn users(
    reader: &TrailReader,
    process_of: &HashMap<i64, i64>,
    inside: &HashMap<i64, Vec<(i64, i64)>>,
) -> Result<HashMap<i64, Users>, Error> {
    let names: HashMap<&str, Call> = Call::ALL.iter().map(|call| (call.name(), *call)).collect();
    let folders = folders(reader)?;
    let mut users: HashMap<i64, Users> = HashMap::new();
    let mut rows = reader.file_ops(Order::Time)?;
    while let Some(row) = rows.next()? {
        let (Some(call), Some(file)) = (names.get(row.call), row.file) else { continue };
        let Some(process) = process_of.get(&row.thread.0) else { continue };
        let flags = row.flags.unwrap_or(0);
        if *call == Call::Mmap {
            let calls = inside.get(&row.thread.0).map_or(&[][..], Vec::as_slice);
            let before = calls.partition_point(|(from, _)| *from <= row.ts);
            let is_inside = calls[..before].last().is_some_and(|(_, to)| row.ts < *to);
            if flags & MAP_SHARED != 0 && row.errno == 0 && !is_inside {
                let of = users.entry(file.0).or_default();
                of.map.insert(*process);
                if flags & PROT_WRITE != 0 {
                    of.map_to_write.insert(*process);
                }
            }
            continue;
        }
        let creates = matches!(call, Call::Open | Call::Fopen) && flags & O_CREAT != 0;
        if (creates || changes(*call)) && row.errno == 0 {
            for file in [Some(file), row.file2].into_iter().flatten() {
                let of_folder = folders.get(&file.0).filter(|_| call.kind() == CallKind::Meta);
                for changed in [Some(&file.0), of_folder].into_iter().flatten() {
                    users.entry(*changed).or_default().change.insert(*process);
                }
            }
        }
        if looks(*call) && !creates {
            *users.entry(file.0).or_default().look.entry(*process).or_default() += 1;
        }
    }
    Ok(users)
}

fn changes(call: Call) -> bool {
    use Call::*;
    call.kind() == CallKind::Write
        || matches!(
            call,
            Creat
                | Sendfile
                | Truncate
                | Fallocate
                | Rename
                | Unlink
                | Link
                | Symlink
                | Mkdir
                | Rmdir
                | Mknod
                | Mkstemp
                | CopyFileRange
        )
}

fn looks(call: Call) -> bool {
    use Call::*;
    call.kind() == CallKind::Read
        || matches!(call, Open | Fopen | Stat | Fstat | Access | Readlink | Opendir | Readdir | Lseek | Fseek)
}

/// The folder that each file lies in, if it has an id.
fn folders(reader: &TrailReader) -> Result<HashMap<i64, i64>, Error> {
    let mut paths: HashMap<String, i64> = HashMap::new();
    for row in reader.small(&FILE, &["file"], &["path"])? {
        if let ([Some(file)], [Some(path)]) = (&row.ints[..], &row.texts[..]) {
            paths.insert(path.clone(), *file);
        }
    }
    let folder_of = |(path, file): (&String, &i64)| {
        let (folder, _) = path.rsplit_once('/')?;
        Some((*file, *paths.get(folder)?))
    };
    Ok(paths.iter().filter_map(folder_of).collect())
}

/// Members of each channel with several, by their places in a list of channels. In no order.
pub fn shared(of: &[i64]) -> Vec<Vec<u32>> {
    let mut members: HashMap<i64, Vec<u32>> = HashMap::new();
    for (node, channel) in of.iter().enumerate() {
        members.entry(*channel).or_default().push(node as u32);
    }
    let mut found: Vec<Vec<u32>> = members.into_values().filter(|nodes| nodes.len() > 1).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_with_one_shares_with_its_others() {
        let mut channels = Channels::default();
        channels.join(1, 2);
        channels.join(4, 3);
        assert_eq!(channels.of(9), 9);
        assert_ne!(channels.of(1), channels.of(3));
        channels.join_all(&HashSet::from([2, 4, 7]));
        assert!([1, 2, 3, 4, 7].iter().all(|process| channels.of(*process) == channels.of(7)));
        assert_eq!(shared(&[7, 5, 7, 6, 5, 7]), [vec![0, 2, 5], vec![1, 4]]);
        assert!(shared(&[1, 2, 3]).is_empty());
    }
}
