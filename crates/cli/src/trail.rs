//! `iotrail trail`: look at trails, check, compact, merge and prune them.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use iotrail_format::schema::Table;
use iotrail_trail::{Check, Info, Snapshot, TrailWriter, Visible, check, compact, merge, one_line};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::human;
use crate::ingest;

/// Arguments of `trail`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Say what a trail holds and how it was made
    Info {
        /// The trail
        #[arg(value_name = "X.trail")]
        trail: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Verify every file, name what is damaged, recover what a killed recorder left
    Check {
        /// The trail
        #[arg(value_name = "X.trail")]
        trail: PathBuf,
        /// Drop what is damaged and keep the rest
        #[arg(long)]
        repair: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make few sorted files of many small ones
    Compact {
        /// The trail
        #[arg(value_name = "X.trail")]
        trail: PathBuf,
        /// How long to keep replaced files for readers that still use them; 0s deletes them now
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
        grace: Duration,
    },
    /// Make one trail of several machines' or ranks' trails
    Merge {
        /// The trails
        #[arg(value_name = "X.trail", required = true)]
        trails: Vec<PathBuf>,
        /// The trail to make
        #[arg(short, long, value_name = "ALL.trail")]
        output: PathBuf,
        /// Replace the trail if it exists
        #[arg(long)]
        force: bool,
    },
    /// Replace raw records of requests by rollups
    #[command(disable_help_flag = true)]
    Prune {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<OsString>,
    },
    /// Let rows that were computed from files take their place, in one step: for `prune`
    #[command(hide = true)]
    Replace {
        /// The trail
        #[arg(value_name = "X.trail")]
        trail: PathBuf,
        /// A list of the files that go: paths in the trail, one a line
        #[arg(long, value_name = "LIST")]
        remove: PathBuf,
        /// How long to keep them for readers that still use them; 0s deletes them now
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
        grace: Duration,
        /// Arrow IPC streams of what comes, as TABLE=PATH
        #[arg(value_name = "TABLE=PATH", value_parser = ingest::stream)]
        streams: Vec<(&'static Table, PathBuf)>,
    },
}

/// Runs the chosen verb.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match args.verb {
        Verb::Info { trail, json } => {
            let info = Info::of(&trail)?;
            if json {
                print_json(&mut out, &info)
            } else {
                print_info(&mut Visible(&mut out), &info).map_err(Failure::stdout)
            }?;
        }
        Verb::Check { trail, repair, json } => {
            let found = check(&trail, repair)?;
            if json {
                print_json(&mut out, &found)
            } else {
                print_check(&mut Visible(&mut out), &found).map_err(Failure::stdout)
            }?;
            drop(out);
            if found.repaired.is_none() && !found.is_sound() {
                let what = match found.snapshot {
                    0 => "none of its snapshots can be read".to_owned(),
                    _ => format!(
                        "{} of {} rows can't be read",
                        human::count(found.lost),
                        human::count(found.rows)
                    ),
                };
                return Err(Failure::new(format!("{} is damaged: {what}", trail.display()))
                    .hint(format!("iotrail trail check --repair {} keeps the rest", trail.display())));
            }
        }
        Verb::Compact { trail, grace } => {
            let done = compact(&trail, grace)?;
            writeln!(
                out,
                "{} files, {} -> {} files, {} (snapshot {})",
                done.files_before,
                human::bytes(done.bytes_before),
                done.files_after,
                human::bytes(done.bytes_after),
                done.snapshot
            )
            .map_err(Failure::stdout)?;
        }
        Verb::Merge { trails, output, force } => {
            for trail in trails.iter().filter(|trail| trail.join("session.json").exists()) {
                iotrail_trail::say!(
                    "iotrail: note: {0} is being recorded, or its recorder was killed (iotrail trail check {0}); \
                     it is taken as it is now",
                    trail.display()
                );
            }
            let snapshot = merge(&trails, &output, force)?;
            let rows: u64 = snapshot.all_files().map(|file| file.rows).sum();
            let nodes = snapshot.node.len();
            writeln!(
                out,
                "{}: {} rows of {nodes} node(s) from {} trails",
                output.display(),
                human::count(rows),
                trails.len()
            )
            .map_err(Failure::stdout)?;
            warn_of_gaps(&trails)?;
        }
        Verb::Prune { .. } => {
            return Err(Failure::new("trail prune asks with SQL, which this program can't")
                .hint("run it as `iotrail trail prune`, which comes with iotrail's Python package"));
        }
        Verb::Replace { trail, remove, grace, streams } => {
            let snapshot = replace(&trail, &remove, grace, streams)?;
            writeln!(out, "{snapshot}").map_err(Failure::stdout)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes files off the list and adds rows in one snapshot, whose number it returns.
fn replace(
    trail: &Path,
    remove: &Path,
    grace: Duration,
    streams: Vec<(&'static Table, PathBuf)>,
) -> Result<u64, Failure> {
    let list = std::fs::read_to_string(remove)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", remove.display())))?;
    let mut writer = TrailWriter::open(trail)?.durable();
    list.lines().for_each(|path| writer.remove(path));
    ingest::read_files(&mut writer, streams)?;
    let snapshot = writer.publish()?;
    writer.sweep(grace)?;
    Ok(snapshot)
}

/// Says where trails lie days apart: of one event, their clocks differ; of several, a report of all shows little.
fn warn_of_gaps(trails: &[PathBuf]) -> Result<(), Failure> {
    const DAY: i64 = 24 * 3600 * 1_000_000_000;
    let mut spans = Vec::new();
    for trail in trails {
        let snapshot = Snapshot::newest(trail)?;
        let files = || ["file_op", "sync_op"].into_iter().flat_map(|table| snapshot.files(table));
        let (first, last) = (files().filter_map(|f| f.min_ts).min(), files().filter_map(|f| f.max_ts).max());
        spans.extend(first.zip(last).map(|(first, last)| (first, last, trail)));
    }
    spans.sort_unstable();
    let mut end: Option<(i64, &PathBuf)> = None;
    for (first, last, trail) in spans {
        if let Some((ended, before)) = end
            && first.saturating_sub(ended) > DAY
        {
            iotrail_trail::say!(
                "iotrail: warning: {} begins {:.1} days after {} ends: are their clocks apart?",
                trail.display(),
                first.saturating_sub(ended) as f64 / DAY as f64,
                before.display()
            );
        }
        end = end.max(Some((last, trail)));
    }
    Ok(())
}

fn print_json(out: &mut impl Write, value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("plain data");
    writeln!(out, "{text}").map_err(Failure::stdout)
}

fn print_info(out: &mut impl Write, info: &Info) -> io::Result<()> {
    writeln!(
        out,
        "{} (trail format {}, snapshot {} of {})",
        info.path, info.version, info.snapshot, info.created
    )?;
    writeln!(out, "  written by {}", info.writer)?;
    if info.session {
        writeln!(out, "  being recorded, or its recorder was killed: iotrail trail check {}", info.path)?;
    }
    for number in &info.unreadable {
        writeln!(out, "  snapshot {number} can't be read: iotrail trail check {}", info.path)?;
    }
    let nodes: Vec<String> = info.node.iter().map(|name| one_line(name)).collect();
    let nodes = if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") };
    writeln!(out, "  node       {nodes}")?;
    match info.start_ts.zip(info.end_ts) {
        Some((start, end)) => {
            let began = Duration::from_nanos(start.unsigned_abs());
            let began = humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + began);
            let seconds = end.saturating_sub(start) as f64 / 1e9;
            writeln!(out, "  operations from {began} on, for {seconds:.3} s")?;
        }
        None => writeln!(out, "  operations none")?,
    }
    writeln!(out, "\n  {:<16} {:>14} {:>7} {:>12} {:>11}", "table", "rows", "files", "size", "bytes/row")?;
    for table in &info.tables {
        let each = match table.rows {
            0 => String::new(),
            rows => format!("{:.2}", table.bytes as f64 / rows as f64),
        };
        let size = human::bytes(table.bytes);
        writeln!(
            out,
            "  {:<16} {:>14} {:>7} {size:>12} {each:>11}",
            table.name,
            human::count(table.rows),
            table.files
        )?;
    }
    print_rows(out, "recorded", &info.recording, |row| (text(row, "name"), text(row, "value")))?;
    print_left_out(out, info, "recording")?;
    print_rows(out, "not seen", &info.unseen, |row| {
        (format!("{} {}", text(row, "amount"), text(row, "kind")), text(row, "detail"))
    })?;
    print_left_out(out, info, "unseen")?;
    print_rows(out, "pruned", &info.pruned, |row| {
        let what = format!("{} {}", text(row, "n"), text(row, "record"));
        (what, format!("{}, every {}, kept {}", span(row), width(row), text(row, "kept")))
    })?;
    print_left_out(out, info, "pruned")
}

/// Says how many rows of a table are not shown.
fn print_left_out(out: &mut impl Write, info: &Info, table: &str) -> io::Result<()> {
    info.left_out.get(table).map_or(Ok(()), |rows| {
        writeln!(out, "    {} more rows: iotrail sql {} 'FROM {table}'", human::count(*rows), info.path)
    })
}

/// From when to when pruned records were, of a row of `pruned`.
fn span(row: &Map<String, Value>) -> String {
    let number = |name| row.get(name).and_then(Value::as_i64).unwrap_or(0);
    let at = |ns: i64| {
        humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_nanos(ns.unsigned_abs()))
    };
    format!(
        "{} to {} of {}",
        at(number("ts")),
        at(number("ts").saturating_add(number("dur"))),
        text(row, "node")
    )
}

/// Width of the rollups' stretches of time, of a row of `pruned`.
fn width(row: &Map<String, Value>) -> humantime::FormattedDuration {
    let every = row.get("every_ns").and_then(Value::as_u64).unwrap_or(0);
    humantime::format_duration(Duration::from_nanos(every))
}

fn print_rows(
    out: &mut impl Write,
    title: &str,
    rows: &[Map<String, Value>],
    parts: impl Fn(&Map<String, Value>) -> (String, String),
) -> io::Result<()> {
    if !rows.is_empty() {
        writeln!(out, "\n  {title}")?;
    }
    rows.iter().try_for_each(|row| {
        let (name, value) = parts(row);
        writeln!(out, "    {name:<24} {value}")
    })
}

fn print_check(out: &mut impl Write, found: &Check) -> io::Result<()> {
    found.recovered.iter().try_for_each(|what| writeln!(out, "{what}"))?;
    if let Some(pid) = found.recorder {
        writeln!(out, "still being recorded, by process {pid}: this is how it is now")?;
    }
    for snapshot in &found.bad_snapshots {
        writeln!(out, "snapshot skipped: {snapshot}")?;
    }
    for file in &found.damaged {
        writeln!(
            out,
            "damaged: {} ({} of {} rows lost)",
            file.path,
            human::count(file.lost),
            human::count(file.rows)
        )?;
        file.why.iter().try_for_each(|why| writeln!(out, "  {why}"))?;
        for group in &file.row_groups {
            writeln!(
                out,
                "  row group {} ({} rows): {}",
                group.row_group,
                human::count(group.rows),
                group.why
            )?;
        }
    }
    if !found.orphans.is_empty() {
        writeln!(
            out,
            "{} data file(s) that no snapshot lists, left by a writer that was ended:",
            found.orphans.len()
        )?;
        found.orphans.iter().take(10).try_for_each(|path| writeln!(out, "  {path}"))?;
    }
    let state = if found.is_sound() { "all can be read" } else { "damaged" };
    let rows = human::count(found.rows);
    writeln!(out, "snapshot {}: {} files, {rows} rows, {state}", found.snapshot, found.files)?;
    found.repaired.iter().try_for_each(|number| {
        writeln!(out, "repaired: snapshot {number} holds {} rows", human::count(found.rows - found.lost))
    })
}

/// A value of a row for people; nothing for null.
fn text(row: &Map<String, Value>, name: &str) -> String {
    match row.get(name) {
        Some(Value::String(text)) => one_line(text),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
