//! Several trails into one: those of several machines, or of ranks that recorded apart.
//!
//! Data files are copied as they are, since rows carry their node; names of files become one list. The
//! copies are verified on the way, so that damage doesn't spread.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use iotrail_format::schema::{FILE, PROCESS, Table, WORKLOAD};

use crate::columns::position;
use crate::compact::merge_files;
use crate::error::Error;
use crate::file::{OpenFile, copy};
use crate::snapshot::Snapshot;
use crate::writer::TrailWriter;

/// Merges trails into a new one. `force` replaces a trail at `output`, never one of the inputs.
///
/// # Errors
/// [`Error::Merge`] if two inputs hold the same recording, if an input is the output, or if one has
/// tables this iotrail doesn't know; [`Error::NewerVersion`]; [`Error::Exists`]; what reading an input
/// may give. There is no output then.
pub fn merge(inputs: &[PathBuf], output: &Path, force: bool) -> Result<Snapshot, Error> {
    let mut snapshots = Vec::with_capacity(inputs.len());
    let mut tables: Vec<&'static Table> = Vec::new();
    for input in inputs {
        let refuse = |why: String| Error::Merge { path: input.clone(), why };
        let snapshot = Snapshot::newest(input)?;
        for (name, files) in &snapshot.tables {
            match snapshot.all_tables().into_iter().find(|table| table.name == *name) {
                None if !files.files.is_empty() => {
                    return Err(refuse(format!(
                        "it has a table {name}, which this iotrail doesn't know; update iotrail"
                    )));
                }
                // Equal descriptions are one table.
                Some(table) if tables.iter().any(|other: &&Table| other.name == *name && *other != table) => {
                    return Err(refuse(format!(
                        "its table {name} has other columns than that of an input before it"
                    )));
                }
                Some(table) if !tables.contains(&table) => tables.push(table),
                _ => {}
            }
        }
        if let (Ok(input), Ok(output)) = (input.canonicalize(), output.canonicalize())
            && input == output
        {
            return Err(refuse("it is the output too".into()));
        }
        snapshots.push(snapshot);
    }
    refuse_repeated(inputs, &snapshots)?;
    let mut writer = TrailWriter::create(output, force)?.durable();
    match fill(&mut writer, &tables, inputs, &snapshots) {
        Ok(()) => Ok(writer.snapshot().clone()),
        Err(e) => {
            writer.abandon();
            Err(e)
        }
    }
}

fn fill(
    writer: &mut TrailWriter,
    tables: &[&'static Table],
    inputs: &[PathBuf],
    snapshots: &[Snapshot],
) -> Result<(), Error> {
    for &table in tables {
        let files = || {
            inputs.iter().zip(snapshots).flat_map(|(input, snapshot)| {
                snapshot.files(table.name).iter().map(move |file| (input.as_path(), file))
            })
        };
        if table.name == FILE.name {
            merge_files(writer, table, files().collect::<Vec<_>>().into_iter())?;
            continue;
        }
        for (input, entry) in files() {
            let file = copy(input, table, entry, writer.path())?;
            writer.add(file);
        }
    }
    for snapshot in snapshots {
        writer.add_nodes(&snapshot.node);
    }
    writer.publish().map(drop)
}

/// Refuses trails that hold the same rows: a trail given twice, a copy, or a merger that contains another
/// input. They share a data file, or a run of a program.
fn refuse_repeated(inputs: &[PathBuf], snapshots: &[Snapshot]) -> Result<(), Error> {
    let mut files: HashMap<(u32, u64, u64), usize> = HashMap::new();
    let mut runs: HashMap<(String, i64), usize> = HashMap::new();
    for (at, (input, snapshot)) in inputs.iter().zip(snapshots).enumerate() {
        let again = |other: usize, what: String| {
            let why = format!("it and {} both hold {what}: it would count twice", inputs[other].display());
            Err(Error::Merge { path: input.clone(), why })
        };
        // Names of files, and of what requests are, may well be the same in two recordings.
        let large =
            snapshot.tables.iter().filter(|(name, _)| ![FILE.name, WORKLOAD.name].contains(&name.as_str()));
        let large = large.flat_map(|(_, table)| &table.files);
        for file in large {
            if let Some(other) =
                files.insert((file.crc32, file.bytes, file.rows), at).filter(|other| *other != at)
            {
                return again(other, format!("the rows of {}", file.path));
            }
        }
        let mut own = HashSet::new();
        for entry in snapshot.files(PROCESS.name) {
            for batch in OpenFile::open(input, &PROCESS, entry)?.read_all(8192)? {
                let batch = batch?;
                let column = |name| batch.column(position(&PROCESS, name).expect("a column of process"));
                let nodes = column("node").as_dictionary::<Int32Type>();
                let words = nodes.values().as_string::<i32>();
                for (node, process) in
                    nodes.keys_iter().zip(column("process").as_primitive::<Int64Type>().values())
                {
                    own.extend(node.map(|node| (words.value(node).to_owned(), *process)));
                }
            }
        }
        for run in own {
            if let Some(other) = runs.get(&run) {
                return again(*other, format!("process {} of node {}", run.1, run.0));
            }
            runs.insert(run, at);
        }
    }
    Ok(())
}
