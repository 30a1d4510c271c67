//! `iotrail-native model`: workload models, for `iotrail model` and `iotrail generate`. It is no verb for people.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use iotrail_model::describe::{Description, OverTime, describe, over_time};
use iotrail_model::draw::Draw;
use iotrail_model::fit::fit_to;
use iotrail_model::model::MOST_LENGTH;
use iotrail_model::states::States;
use iotrail_model::{Arrival, Model};
use iotrail_sim::{Op, Request};
use serde::Serialize;

use crate::failure::Failure;
use crate::simulate::cache::numbers_of;
use crate::simulate::{batches, op_of, print};

/// Bytes of a model file at most.
const MOST_BYTES: u64 = 1 << 28;
/// Characters of an error at most: parsers repeat what they found.
const MOST_SAID: usize = 600;
/// Rows of a batch.
const ROWS: usize = 1 << 16;

/// Arguments of `model`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Fit a model to requests
    Fit {
        /// How often ranges of addresses are divided in four
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=i64::from(iotrail_model::model::MOST_LEVELS)))]
        levels: u32,
        /// Least count of what is kept apart
        #[arg(long, value_name = "N", default_value_t = 5)]
        min_count: u64,
        /// Where the addresses of each device end at least, in bytes. Devices are numbers from 0 on; without, they are numbered in
        /// the order of their first requests
        #[arg(long, value_name = "BYTES", value_delimiter = ',')]
        reaches: Vec<u64>,
    },
    /// Draw requests from a model
    Draw {
        /// Model file
        model: PathBuf,
        /// Seed of random numbers
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// Gaps between requests are divided by this
        #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
        intensity: f64,
    },
    /// What requests are like, for `iotrail model check`. Their devices are numbers from 0 on, as in the model
    Describe {
        /// Different pages that the sizes of caches are of
        #[arg(long, value_name = "N")]
        pages: Option<u64>,
        /// Model whose states are those of the transitions
        #[arg(long, value_name = "FILE")]
        model: Option<PathBuf>,
        /// Time that slices of requests over time cover, ns
        #[arg(long, value_name = "NS", default_value_t = 0)]
        length_ns: u64,
        /// Where the addresses of each device end, in bytes
        #[arg(long, value_name = "BYTES", value_delimiter = ',')]
        reaches: Vec<u64>,
    },
    /// Read a model, JSON or TOML, check it, print it as JSON
    Read {
        /// Model file
        model: PathBuf,
    },
    /// The JSON Schema of model files
    Schema,
}

/// What `describe` prints.
#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    description: Description,
    over_time: OverTime,
}

/// Answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Fit { levels, min_count, reaches } => {
            let mut numbers = HashMap::new();
            let number = |device| {
                if !reaches.is_empty() {
                    return u32::try_from(device).ok().filter(|number| (*number as usize) < reaches.len());
                }
                let next = numbers.len() as u32;
                Some(*numbers.entry(device).or_insert(next))
            };
            print(&fit_to(&arrivals(number)?, &reaches, levels, min_count))
        }
        What::Describe { pages, model, length_ns, reaches } => {
            let model = model.map(|path| read(&path)).transpose()?;
            let states = |model: Model| {
                model
                    .devices
                    .iter()
                    .map(|device| States { reach: device.reach_bytes, levels: model.levels })
                    .collect()
            };
            let arrivals = arrivals(|device| u32::try_from(device).ok())?;
            print(&Described {
                description: describe(&arrivals, &model.map_or_else(Vec::new, states), pages),
                over_time: over_time(&arrivals, length_ns, &reaches),
            })
        }
        What::Draw { model, seed, intensity } => draw(&read(&model)?, seed, intensity),
        What::Read { model } => print(&read(&model)?),
        What::Schema => print(&iotrail_model::model::schema()),
    }
}

/// Reads a model file: TOML if its name ends with `.toml`, else JSON.
pub(crate) fn read(path: &Path) -> Result<Model, Failure> {
    let shown = path.display();
    let failed = |error: &dyn Display| {
        let mut said = error.to_string();
        if let Some((end, _)) = said.char_indices().nth(MOST_SAID) {
            said.truncate(end);
            said.push('…');
        }
        Failure::new(format!("{shown}: {said}"))
            .hint("iotrail model fit makes models; iotrail model schema prints what they hold")
    };
    if path.is_dir() {
        return Err(Failure::new(format!("{shown}: expected the file of a model, found a folder"))
            .hint("of a trail iotrail model fit makes a model"));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(failed(&format!("not a model: expected at most {MOST_BYTES} bytes, found more")));
    }
    let text = if path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("toml")) {
        let model: Model = toml::from_str(&text)
            .map_err(|error| failed(&format!("not a model: {}", error.to_string().trim_end())))?;
        // as JSON it is checked
        serde_json::to_string(&model).map_err(|error| failed(&error))?
    } else {
        text
    };
    Model::read(&text).map_err(|error| failed(&error))
}

/// The requests of standard input: `ts`, `dur` (unused), `device`, `op` (0 read, 1 write, 2 flush, 3 discard), `pos`, `length`.
/// `number_of` gives devices their numbers.
fn arrivals(mut number_of: impl FnMut(i64) -> Option<u32>) -> Result<Vec<Arrival>, Failure> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    for batch in batches()? {
        let batch = batch?;
        let [ts, device, op, pos, length] = [0, 2, 3, 4, 5].map(|at| numbers_of(&batch, at));
        let (ts, device, op, pos, length) = (ts?, device?, op?, pos?, length?);
        for at in 0..batch.num_rows() {
            let wrong = |what: &str| Failure::new(format!("stdin: row {at}: expected {what}"));
            let number = |value: i64, what: &str| u64::try_from(value).map_err(|_| wrong(what));
            let op = op_of(op[at]).ok_or_else(|| wrong("an operation from 0 to 3"))?;
            let (pos, length) =
                (number(pos[at], "an offset of 0 or more")?, number(length[at], "a length of 0 or more")?);
            if length > MOST_LENGTH {
                return Err(wrong(&format!("a length of at most {MOST_LENGTH} bytes, found {length}")));
            }
            let device = number_of(device[at]).ok_or_else(|| wrong("a number of a device"))?;
            let at = number(ts[at], "a time of 0 or more")?;
            if arrivals.last().is_some_and(|last| last.at > at) {
                return Err(Failure::new("stdin: expected requests in the order of their arrivals"));
            }
            arrivals.push(Arrival { at, device, request: Request { op, pos, length } });
        }
    }
    Ok(arrivals)
}

fn draw(model: &Model, seed: u64, intensity: f64) -> Result<ExitCode, Failure> {
    let failed = |error: ArrowError| match error {
        ArrowError::IoError(_, error) => Failure::stdout(error),
        error => Failure::new(format!("cannot print the requests: {error}")),
    };
    let schema = ["ts", "device", "op", "pos", "length"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(schema.to_vec()));
    let mut out = StreamWriter::try_new(std::io::stdout().lock(), &schema).map_err(failed)?;
    let mut requests = Draw::new(model, seed);
    loop {
        let mut columns: [Vec<i64>; 5] = std::array::from_fn(|_| Vec::with_capacity(ROWS));
        for Arrival { at, device, request } in requests.by_ref().take(ROWS) {
            let op = match request.op {
                Op::Read => 0,
                Op::Write => 1,
                Op::Flush => 2,
                Op::Trim => 3,
            };
            let at = (at as f64 / intensity) as i64;
            let row = [at, i64::from(device), op, request.pos as i64, request.length as i64];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        if columns[0].is_empty() {
            break;
        }
        let arrays = columns.map(|column| Arc::new(Int64Array::from(column)) as ArrayRef);
        out.write(&RecordBatch::try_new(schema.clone(), arrays.to_vec()).map_err(failed)?).map_err(failed)?;
    }
    out.finish().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
