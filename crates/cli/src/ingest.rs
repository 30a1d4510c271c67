//! `iotrail ingest`: make a trail from Arrow streams. Importers, fixtures and tests make trails this way.
//!
//! Rows may come in any order. They are collected up to a file's worth of rows, sorted and written, so
//! that memory stays bounded whatever the length of a stream. The snapshot that lists them is published
//! once at the end: a failed ingestion leaves no trail behind that looks whole.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use iotrail_format::schema::{self, TABLES, Table};
use iotrail_trail::{Ingest, TrailWriter};

use crate::failure::Failure;

/// Arguments of `ingest`.
#[derive(clap::Args)]
pub struct Args {
    /// The trail to make
    #[arg(short, long, value_name = "X.trail")]
    output: PathBuf,
    /// Replace the trail if it exists
    #[arg(long)]
    force: bool,
    /// Read one stream of this table from stdin
    #[arg(long, value_name = "TABLE", conflicts_with = "streams", value_parser = table)]
    table: Option<&'static Table>,
    /// Arrow IPC streams, as TABLE=PATH
    #[arg(value_name = "TABLE=PATH", required_unless_present = "table", value_parser = stream)]
    streams: Vec<(&'static Table, PathBuf)>,
}

fn table(name: &str) -> Result<&'static Table, String> {
    schema::table(name).ok_or_else(|| {
        let known: Vec<_> = TABLES.iter().map(|t| t.name).collect();
        format!("there is no table {name:?}; tables are {}", known.join(", "))
    })
}

pub(crate) fn stream(argument: &str) -> Result<(&'static Table, PathBuf), String> {
    let (name, path) = argument.split_once('=').ok_or("expected TABLE=PATH")?;
    Ok((table(name)?, path.into()))
}

/// Makes the trail.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut writer = TrailWriter::create(&args.output, args.force)?.durable();
    match fill(&mut writer, args) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) => {
            writer.abandon();
            Err(e)
        }
    }
}

fn fill(writer: &mut TrailWriter, args: Args) -> Result<(), Failure> {
    if let Some(table) = args.table {
        read(writer, table, "stdin", std::io::stdin().lock())?;
    }
    read_files(writer, args.streams)?;
    writer.publish()?;
    Ok(())
}

/// Adds the rows of streams, each of its table.
pub(crate) fn read_files(
    writer: &mut TrailWriter,
    streams: Vec<(&'static Table, PathBuf)>,
) -> Result<(), Failure> {
    for (table, path) in streams {
        let name = path.display().to_string();
        let file = File::open(&path).map_err(|e| Failure::new(format!("cannot open {name}: {e}")))?;
        read(writer, table, &name, BufReader::new(file))?;
    }
    Ok(())
}

/// Adds the rows of one stream.
fn read(writer: &mut TrailWriter, table: &'static Table, name: &str, from: impl Read) -> Result<(), Failure> {
    let broken = |e| {
        Failure::new(format!("{name}: not a whole Arrow IPC stream: {e}"))
            .hint("it takes the streaming format (pyarrow.ipc.new_stream), not the file format")
    };
    let mut ingest = Ingest::new(writer, table);
    let mut before = 0;
    for batch in StreamReader::try_new(from, None).map_err(broken)? {
        let batch: RecordBatch = batch.map_err(broken)?;
        let rows = batch.num_rows();
        ingest
            .add(batch)
            .map_err(|e| Failure::new(format!("{name}, rows {before}..{}: {e}", before + rows)))?;
        before += rows;
    }
    Ok(ingest.finish()?)
}
