//! Trails that recorders on this machine write (`iotrail record`, also with `--kernel`): each new file of them goes to
//! the collector, so that what programs and the kernel did stands beside the samples.
//!
//! The recorder's trail is what waits while the collector is away, so nothing is copied into the agent's own file
//! before it can be sent soon. How far each file was sent is written down once all that was said is settled; after an
//! agent was killed the last rows are said again, and the collector takes each only once. A trail that is compacted
//! before it was sent is sent again as a whole: leave compaction to the collector's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iotrail_format::schema::{ROLLUPS, TABLES, Table};
use iotrail_trail::{Error, TrailReader};
use serde::{Deserialize, Serialize};

use crate::outbox::Outbox;
use crate::source::{Source, Tick};

/// Rows a tick at most: of a flood the samples beside it must not wait.
const ROWS: u64 = 20_000;
/// Rows that may be said and not settled: then nothing more is said until they are.
const UNSETTLED: u64 = 4 * ROWS;
/// Rows of a batch.
const BATCH: usize = 4096;

/// Rows sent, by trail and file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Progress(BTreeMap<PathBuf, BTreeMap<String, u64>>);

/// Trails to send.
pub struct Trails {
    /// Trails, or folders with trails in them.
    places: Vec<PathBuf>,
    /// Where the progress is written down.
    file: PathBuf,
    progress: Progress,
    written: Progress,
    said: u64,
}

impl Trails {
    /// `state` is the agent's folder.
    #[must_use]
    pub fn new(places: Vec<PathBuf>, state: &Path) -> Self {
        let file = state.join("trails.json");
        let progress: Progress =
            fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Self { places, file, written: progress.clone(), progress, said: 0 }
    }

    fn write(&mut self) -> std::io::Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, serde_json::to_vec(&self.progress)?)?;
        fs::rename(&new, &self.file)?;
        self.written = self.progress.clone();
        Ok(())
    }

    /// The trails there are now.
    fn trails(&self, out: &mut Outbox) -> Vec<PathBuf> {
        let is_trail = |path: &Path| path.join("snapshots").is_dir();
        let mut trails = Vec::new();
        for place in &self.places {
            if is_trail(place) {
                trails.push(place.clone());
                continue;
            }
            match fs::read_dir(place) {
                Ok(entries) => {
                    trails.extend(entries.flatten().map(|e| e.path()).filter(|path| is_trail(path)))
                }
                Err(error) => out.warn(format!("cannot look for trails in {}: {error}", place.display())),
            }
        }
        trails.sort();
        trails
    }

    /// Says what is new of a trail, `left` rows at most; returns how many are left of them.
    fn say(&mut self, trail: &Path, mut left: u64, out: &mut Outbox) -> Result<u64, Error> {
        let reader = TrailReader::open(trail)?;
        let sent = self.progress.0.entry(trail.to_owned()).or_default();
        // What a compaction or a pruning took away needn't be remembered.
        let live: Vec<&str> = reader.snapshot().all_files().map(|file| file.path.as_str()).collect();
        sent.retain(|path, _| live.contains(&path.as_str()));
        let sendable = |table: &&&'static Table| !ROLLUPS.contains(&table.name);
        for table in TABLES.iter().filter(|table| sendable(&table)) {
            for file in reader.snapshot().files(table.name) {
                let mut done = sent.get(&file.path).copied().unwrap_or(0);
                if done >= file.rows || left == 0 {
                    continue;
                }
                let mut skip = done;
                for batch in reader.batches(table, file, BATCH)? {
                    let batch = batch?;
                    let rows = batch.num_rows() as u64;
                    if skip >= rows {
                        skip -= rows;
                        continue;
                    }
                    let take = (rows - skip).min(left);
                    out.batch(table, batch.slice(skip as usize, take as usize));
                    skip = 0;
                    done += take;
                    self.said += take;
                    left -= take;
                    if left == 0 {
                        break;
                    }
                }
                sent.insert(file.path.clone(), done);
            }
        }
        Ok(left)
    }
}

impl Source for Trails {
    fn name(&self) -> &'static str {
        "trails"
    }

    fn repeats(&self) -> bool {
        true
    }

    fn poll(&mut self, tick: Tick, out: &mut Outbox) {
        if self.said == tick.settled
            && self.progress != self.written
            && let Err(error) = self.write()
        {
            out.warn(format!("cannot write {}: {error}", self.file.display()));
        }
        let mut left = UNSETTLED.saturating_sub(self.said - tick.settled).min(ROWS);
        for trail in self.trails(out) {
            match self.say(&trail, left, out) {
                Ok(rest) => left = rest,
                // One that is being made has no snapshot for a moment; one that stays so is said each tick, once.
                Err(error) => out.warn(format!("{}: {error}", trail.display())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_format::schema::NODE_SAMPLE;
    use iotrail_trail::TrailWriter;

    /// Adds a file of samples to a trail.
    fn add(writer: &mut TrailWriter, from: i64, rows: i64) {
        let mut out = Outbox::new("here");
        for now in from..from + rows {
            out.begin(Tick { now, before: None, from_wall: 0, settled: 0 });
            out.level("here", "load", None, 1.0);
        }
        let (table, batch) = out.take().remove(0);
        writer.append(table, &batch).expect("rows of the table");
        writer.publish().expect("published");
    }

    /// Rows said in a tick.
    fn said(trails: &mut Trails, settled: u64) -> u64 {
        let mut out = Outbox::new("here");
        trails.poll(Tick { now: 1, before: None, from_wall: 0, settled }, &mut out);
        assert!(out.take_warnings().is_empty());
        out.take()
            .iter()
            .map(|(table, batch)| {
                assert_eq!(table.name, NODE_SAMPLE.name);
                batch.num_rows() as u64
            })
            .sum()
    }

    #[test]
    fn each_row_is_said_once_and_again_only_if_it_was_not_settled() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = TrailWriter::create(&folder.path().join("a.trail"), false).expect("a trail");
        add(&mut writer, 0, 7000);
        let places = vec![folder.path().to_owned()];
        let mut trails = Trails::new(places.clone(), folder.path());
        assert_eq!(said(&mut trails, 0), 7000);
        assert_eq!(said(&mut trails, 0), 0);
        add(&mut writer, 7000, 5);
        // All of the first file are settled, and written down.
        assert_eq!(said(&mut trails, 7000), 5);
        drop(trails);
        let mut trails = Trails::new(places, folder.path());
        assert_eq!(said(&mut trails, 0), 5);
    }

    #[test]
    fn a_flood_is_said_bit_by_bit() {
        let folder = tempfile::tempdir().expect("a folder");
        let trail = folder.path().join("a.trail");
        let mut writer = TrailWriter::create(&trail, false).expect("a trail");
        add(&mut writer, 0, 130_000);
        let mut trails = Trails::new(vec![trail], folder.path());
        let ticks: Vec<u64> = (0..5).map(|_| said(&mut trails, 0)).collect();
        assert_eq!(ticks, [ROWS, ROWS, ROWS, ROWS, 0], "what isn't settled holds back the rest");
        assert_eq!(said(&mut trails, 80_000), ROWS);
        assert_eq!(said(&mut trails, 100_000), ROWS);
        assert_eq!(said(&mut trails, 120_000), 10_000);
    }
}
