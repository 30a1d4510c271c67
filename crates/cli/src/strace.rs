//! `iotrail-native strace`: strace's output into Arrow. `iotrail import` runs it; it is no verb for people.
//!
//! Standard input has the text of one file after another, in pieces that end anywhere: the length of each as
//! 32 bits, little endian, then its bytes; a length of 0 ends a file. What is compressed comes decompressed.
//!
//! Standard output gets one Arrow IPC stream after another, each of one batch; `table` in its schema's
//! metadata names the table. One pipe in one order needs one reader, who can't be waited for elsewhere. When all
//! is read, the summary is written as JSON.
//!
//! With `--strict` it ends at the first line that isn't understood, which the summary has, without reading on.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use iotrail_strace::{Batch, Reader};

use crate::failure::Failure;

/// Arguments of `strace`.
#[derive(clap::Args)]
pub struct Args {
    /// Machine that the rows name
    #[arg(long, value_name = "NAME")]
    node: String,
    /// File that gets the summary
    #[arg(long, value_name = "PATH")]
    summary: PathBuf,
    /// Stop at the first line that is not understood
    #[arg(long)]
    strict: bool,
    /// For each file who calls where its lines don't say, 0 if nobody knows
    #[arg(value_name = "PID", required = true)]
    pids: Vec<u32>,
}

/// Reads, and writes what came of it.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut reader = Reader::new(&args.node, args.strict);
    let mut input = std::io::stdin().lock();
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut piece = Vec::new();
    'files: for pid in args.pids {
        reader.begin(pid);
        while next(&mut input, &mut piece)? {
            reader.feed(&piece);
            write(&mut output, reader.batches())?;
            if reader.stopped() {
                break 'files;
            }
        }
        reader.end();
    }
    let summary = reader.finish();
    write(&mut output, reader.batches())?;
    output.flush().map_err(Failure::stdout)?;
    let unwritten = |e| Failure::new(format!("cannot write {}: {e}", args.summary.display()));
    let mut file = File::create(&args.summary).map_err(unwritten)?;
    serde_json::to_writer(&mut file, &summary).map_err(|e| unwritten(e.into()))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the next piece; false at the file's end.
fn next(input: &mut impl Read, piece: &mut Vec<u8>) -> Result<bool, Failure> {
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(stdin)?;
    let length = u64::from(u32::from_le_bytes(length));
    piece.clear();
    if input.take(length).read_to_end(piece).map_err(stdin)? as u64 != length {
        return Err(stdin(ErrorKind::UnexpectedEof.into()));
    }
    Ok(length != 0)
}

fn stdin(error: std::io::Error) -> Failure {
    if error.kind() == ErrorKind::UnexpectedEof {
        return Failure::new("stdin ends before the trace does").hint("a piece of length 0 ends each file");
    }
    Failure::new(format!("cannot read stdin: {error}"))
}

fn write(output: &mut impl Write, batches: impl Iterator<Item = Batch>) -> Result<(), Failure> {
    for Batch { table, rows } in batches {
        let schema = Arc::unwrap_or_clone(rows.schema());
        let schema = schema.with_metadata([("table".to_owned(), table.name.to_owned())]);
        let written = StreamWriter::try_new(&mut *output, &schema).and_then(|mut stream| {
            stream.write(&rows)?;
            stream.finish()
        });
        written.map_err(|error| match error {
            ArrowError::IoError(_, error) => Failure::stdout(error),
            error => Failure::new(format!("cannot write rows of {}: {error}", table.name)),
        })?;
    }
    Ok(())
}
