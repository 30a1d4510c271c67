//! `iotrail schema`: the tables of a trail and the calls iotrail knows, as JSON.
//!
//! `python/iotrail/schema.json` is a committed copy, so that Python needs no binary to comment columns.

use std::io::Write as _;
use std::process::ExitCode;

use iotrail_format::call::Call;
use iotrail_format::schema::TABLES;
use iotrail_format::{TRAIL_VERSION, schema};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Arguments of `schema`: none.
#[derive(clap::Args)]
pub struct Args {}

/// Prints the schema.
pub fn run(_: Args) -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(&document()).expect("plain data");
    writeln!(std::io::stdout(), "{text}").map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}

fn document() -> Value {
    json!({
        "iotrail_trail": TRAIL_VERSION,
        "tables": TABLES.iter().map(table).collect::<Vec<_>>(),
        "calls": Call::ALL.iter().map(|call| call_entry(*call)).collect::<Vec<_>>(),
    })
}

fn table(table: &schema::Table) -> Value {
    json!({
        "name": table.name,
        "meaning": table.meaning,
        "order": table.order,
        "columns": table.columns.iter().map(|column| json!({
            "name": column.name,
            "type": column.ty.sql(),
            "unit": column.unit,
            "nullable": column.nullable,
            "meaning": column.meaning,
        })).collect::<Vec<_>>(),
    })
}

/// A call goes to `sync_op` if it waits, else to `file_op`.
fn call_entry(call: Call) -> Value {
    let waits = call.kind() == iotrail_format::call::CallKind::Wait;
    json!({
        "name": call.name(),
        "kind": call.kind().name(),
        "table": if waits { schema::SYNC_OP.name } else { schema::FILE_OP.name },
        "meaning": call.meaning(),
    })
}
