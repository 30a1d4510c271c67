//! `iotrail generate`: runs the requests of a workload model on storage, and says how it did.
//!
//! With `--output` two processes as in [`crate::replay`], so that the trail holds the requests and nothing else.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use iotrail_format::segment::SESSION_ENV;
use iotrail_model::model::{Direction, Load as ModelLoad};
use iotrail_model::runs::Kind;
use iotrail_model::{Arrival, Model};
use iotrail_replay::{
    Allowed, Bench, Engine, Load, Loop, Mapping, Place, Plan, Reach, Summary, Workload, repeat, requests,
    stream,
};
use iotrail_trail::TrailWriter;
use serde_json::{Value, json};

use crate::arguments;
use crate::failure::Failure;
use crate::host::Host;
use crate::human;
use crate::replay::{How, factor, text, word};
use crate::worker::{Outcome, Recording, exit_code, stop_on_signals};

/// Arguments of `generate`.
#[derive(clap::Args)]
pub struct Args {
    /// Model file
    #[arg(value_name = "MODEL", required_unless_present = "bench", conflicts_with = "bench")]
    model: Option<PathBuf>,
    /// Run a micro-benchmark instead of a model: threads=N, size=BYTES, stride=BYTES (default: the size), random=N%, read=N%,
    /// think=TIME
    #[arg(long, value_name = "KEY=VALUE,…", value_parser = bench, requires = "length",
        conflicts_with_all = ["when", "intensity", "depth"])]
    bench: Option<Bench>,
    /// File or block device to run on; one --target DEV=PATH for each device of the model if it has several, by their numbers
    #[arg(long, value_name = "[DEV=]PATH", required = true, value_parser = mapping)]
    target: Vec<Mapping>,
    /// End after this time, such as 60s; the model is repeated, drawn with other seeds [default: when the model ends]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    length: Option<Duration>,
    /// Start this far into the model, by its own time, such as 10min [default: at its beginning]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "bench")]
    from: Option<Duration>,
    /// Don't count requests of the first seconds
    #[arg(long, value_name = "TIME", value_parser = time)]
    warm_up: Option<Duration>,
    /// Divide the gaps between requests by this
    #[arg(long, value_name = "F", value_parser = factor)]
    intensity: Option<f64>,
    #[arg(long = "loop", value_enum, help = "When a request starts [default: open]")]
    when: Option<When>,
    /// Maximum requests in flight [default: 32 with --loop open, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: Option<u16>,
    /// How requests reach the kernel
    #[arg(long, value_enum, default_value_t = How::Psync)]
    engine: How,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Trail of the requests, with their response times
    #[arg(short, long, value_name = "Y.trail")]
    output: Option<PathBuf>,
    /// Overwrite the output if it exists
    #[arg(long)]
    force: bool,
    /// Write zeros instead of incompressible data
    #[arg(long)]
    zeros: bool,
    /// Open targets with O_DIRECT
    #[arg(long)]
    direct: bool,
    /// Wrap offsets that lie beyond the end of a target
    #[arg(long)]
    fold: bool,
    /// Allow the requests to overwrite data on the targets
    #[arg(long)]
    overwrite: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// What windows of this length are like, for the summary: JSON
    #[arg(long, hide = true, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Value>(text))]
    similarity: Option<Value>,
    /// Run the requests; the session is in the environment
    #[arg(long, hide = true)]
    worker: bool,
}

/// [`Loop`] on the command line.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum When {
    /// At its drawn time
    Open,
    /// When one of the requests in flight returns
    Closed,
}

/// A benchmark of which nothing is named.
const DEFAULT_BENCH: Bench = Bench { threads: 1, size: 4096, stride: 0, random: 1.0, read: 1.0, think: 0 };

/// A target, and the device it is for.
fn mapping(text: &str) -> Result<Mapping, String> {
    let (device, target) = match text.split_once('=') {
        // ./a=b is a path.
        Some((device, target)) if !device.contains('/') => (Some(device.to_owned()), target),
        _ => (None, text),
    };
    if target.is_empty() || device.as_ref().is_some_and(String::is_empty) {
        return Err("expected PATH or DEV=PATH, such as /dev/loop0 or 1=/dev/loop0".into());
    }
    Ok(Mapping { device, target: target.into() })
}

/// A benchmark: what is not named stays as it is here.
fn bench(text: &str) -> Result<Bench, String> {
    let mut bench = DEFAULT_BENCH;
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let wrong = |expected: &str| format!("{name}: expected {expected}, found {value:?}");
        let bytes = || {
            let longest = 16 << 20;
            let number = arguments::size(value).ok().filter(|bytes| (1..=longest).contains(bytes));
            number.ok_or_else(|| wrong("1 byte to 16MiB, such as 16KiB"))
        };
        let share = || {
            let number = value.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
            let number = number.filter(|number| (0.0..=100.0).contains(number));
            number.map(|number| number / 100.0).ok_or_else(|| wrong("0% to 100%"))
        };
        match name.trim() {
            "threads" => {
                let number = value.parse().ok().filter(|threads| (1..=1024).contains(threads));
                bench.threads = number.ok_or_else(|| wrong("1 to 1024"))?;
            }
            "size" => bench.size = bytes()?,
            "stride" => bench.stride = bytes()?,
            "random" => bench.random = share()?,
            "read" => bench.read = share()?,
            "think" => bench.think = time(value).map(ns).map_err(|_| wrong("a time above 0, such as 1ms"))?,
            _ => {
                return Err(format!(
                    "expected threads=8,size=16KiB,stride=64KiB,random=50%,read=70%,think=1ms, found {part:?}"
                ));
            }
        }
    }
    if bench.stride == 0 {
        bench.stride = bench.size;
    }
    Ok(bench)
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .ok()
        .filter(|time| !time.is_zero() && i64::try_from(time.as_nanos()).is_ok())
        .ok_or_else(|| "expected a time above 0, such as 60s or 5min".into())
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// What a model's requests need of each device. If it writes at all, it may write to each.
fn reaches(model: &Model) -> impl Iterator<Item = Reach> {
    let kinds = model.rate.counts.iter().zip(0..).filter(|(count, _)| **count > 0);
    let mut directions = kinds.filter_map(|(_, number)| Kind::of(number).direction());
    let writes = directions.any(|direction| direction != Direction::Read);
    model.devices.iter().map(move |device| Reach { bytes: device.reach_bytes, writes })
}

/// Where requests come from.
enum Source {
    Model(Box<Model>),
    Bench(Bench),
}

impl Args {
    fn source(&self) -> Result<Source, Failure> {
        match (self.bench, &self.model) {
            (None, Some(model)) => Ok(Source::Model(Box::new(crate::model::read(model)?))),
            (bench, _) => Ok(Source::Bench(bench.unwrap_or(DEFAULT_BENCH))),
        }
    }

    fn when(&self) -> When {
        self.when.unwrap_or(if self.bench.is_some() { When::Closed } else { When::Open })
    }

    fn depth(&self) -> usize {
        let default = if self.when() == When::Open { 32 } else { 1 };
        self.bench.map_or(self.depth.map_or(default, usize::from), |bench| bench.threads as usize)
    }
}

/// Runs.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.when() == When::Closed && args.intensity.is_some() {
        return Err(Failure::new("--intensity can't be combined with --loop closed, which ignores times")
            .hint("--depth N sets how many requests are in flight"));
    }
    if let (Some(length), Some(warm_up)) = (args.length, args.warm_up)
        && warm_up >= length
    {
        return Err(Failure::new(format!(
            "--warm-up {} leaves nothing of --for {}",
            human::duration(warm_up),
            human::duration(length)
        ))
        .hint("the warm-up is the first part of the run: expected less than --for"));
    }
    let source = args.source()?;
    let load = match &source {
        Source::Model(model) => model.load.clone().map(|load| (load, model.rate.count())),
        Source::Bench(_) => None,
    };
    let describe = |outcome: &mut Value, place: &Place| describe(args, place, load.as_ref(), outcome);
    if let (Some(from), Source::Model(model)) = (args.from, &source)
        && from.as_nanos() >= u128::from(model.rate.length_ns)
    {
        let all = humantime::format_duration(Duration::from_nanos(model.rate.length_ns));
        return Err(Failure::new(format!("--from {} leaves nothing of the model", human::duration(from)))
            .hint(format!("the model ends after {all}: expected less")));
    }
    let plan = match &source {
        Source::Model(model) => Plan::of_devices(Workload::Model, reaches(model)),
        Source::Bench(bench) => {
            let reach = Reach { bytes: bench.size, writes: bench.read < 1.0 };
            Plan::of_devices(Workload::Benchmark, std::iter::once(reach))
        }
    };
    Engine::from(args.engine).check(&plan)?;
    // The worker's parent has looked at the content already.
    let allowed = Allowed { fold: args.fold, overwrite: args.overwrite || args.worker };
    let place = Place::targets(&args.target, &plan, allowed)?;
    let outcome = match &args.output {
        Some(output) if !args.worker => {
            // Signals are blocked from here on.
            let host = Host::prepare();
            let recording = Recording {
                host: &host,
                writer: TrailWriter::create(output, args.force)?,
                output,
                facts: vec![("model".into(), args.model.as_ref().map(|model| model.display().to_string()))],
                name: "generate",
                what: "the run",
                links: Vec::new(),
            };
            match recording.run(|outcome| describe(outcome, &place))? {
                Outcome::Done(outcome) => outcome,
                Outcome::Killed(status) => return Ok(status),
            }
        }
        _ => {
            let summary = work(args, source, &plan, &place)?;
            let mut outcome =
                serde_json::to_value(&summary).map_err(|error| Failure::new(error.to_string()))?;
            for error in outcome["errors"].as_array_mut().into_iter().flatten() {
                let number = error["errno"].as_i64().unwrap_or(0) as i32;
                let name =
                    iotrail_strace::errno_name(number).map_or_else(|| number.to_string(), str::to_owned);
                error["errno"] = if number == 0 { "short".into() } else { name.into() };
            }
            describe(&mut outcome, &place);
            outcome
        }
    };
    if let Some(why) = outcome["stopped"].as_str().filter(|_| !args.worker) {
        return Err(Failure::new(format!("the run ended early: {why}")));
    }
    let said = if args.json || args.worker { format!("{outcome}\n") } else { summary(&outcome) };
    // Whoever read the beginning may be gone (`| head`).
    let is_read = std::io::stdout().write_all(said.as_bytes()).is_ok();
    Ok(match outcome["is_interrupted"].as_bool() {
        Some(true) if !args.worker => exit_code(128 + libc::SIGINT),
        _ if !is_read => exit_code(128 + libc::SIGPIPE),
        // As fio: nobody should take such figures for those of the storage.
        _ if outcome["errors"].as_array().is_some_and(|errors| !errors.is_empty()) && !args.worker => {
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    })
}

fn work(args: &Args, source: Source, plan: &Plan, place: &Place) -> Result<Summary, Failure> {
    let when = if args.when() == When::Open { Loop::Open } else { Loop::Closed };
    let load = Load {
        engine: args.engine.into(),
        when,
        intensity: args.intensity.unwrap_or(1.0),
        depth: args.depth(),
        length: args.length.map(ns),
        warm_up: args.warm_up.map_or(0, ns),
        think: args.bench.map_or(0, |bench| bench.think),
        fold: args.fold,
        direct: args.direct,
        zeros: args.zeros,
    };
    stop_on_signals();
    let session = args.worker.then(|| std::env::var_os(SESSION_ENV).unwrap_or_default());
    let session = session.as_ref().map(|session| session.as_encoded_bytes());
    let is_shown = std::io::stderr().is_terminal();
    let all = if let Source::Model(model) = &source { model.rate.count() } else { 0 };
    let mut progress = |time: i64, requests: u64| {
        if is_shown {
            let done = match args.length {
                Some(length) => {
                    format!(
                        "{} of {}",
                        human::duration(Duration::from_secs(time as u64 / 1_000_000_000)),
                        human::duration(length)
                    )
                }
                None => {
                    format!(
                        "{} % of {} requests",
                        (requests * 100).checked_div(all).unwrap_or(0),
                        human::count(all)
                    )
                }
            };
            eprint!("\r\x1b[Kiotrail: {done}, {} requests", human::count(requests));
        }
    };
    let found = match source {
        Source::Model(model) => {
            let from = args.from.map_or(0, ns) as u64;
            let mut source = repeat(*model, args.seed, args.length.is_some()).peekable();
            // Here, where no request waits for it.
            while source.next_if(|arrival| arrival.at < from).is_some() {}
            let source = source.map(move |arrival| Arrival { at: arrival.at - from, ..arrival });
            stream(plan, place, source, load, session, &mut progress)
        }
        Source::Bench(bench) => {
            let source = requests(bench, place.size_of(0) as u64, args.seed);
            stream(plan, place, source, load, session, &mut progress)
        }
    };
    if is_shown {
        eprint!("\r\x1b[K");
    }
    Ok(found?)
}

/// Adds how it was done to how it went.
fn describe(args: &Args, place: &Place, load: Option<&(ModelLoad, u64)>, outcome: &mut Value) {
    outcome["model"] = args.model.as_deref().map(text).into();
    outcome["bench"] = args.bench.map(|bench| json!(bench)).into();
    outcome["seed"] = args.seed.into();
    outcome["loop"] = word(args.when());
    outcome["engine"] = word(args.engine);
    outcome["depth"] = args.depth().into();
    outcome["intensity"] =
        if args.when() == When::Open { args.intensity.unwrap_or(1.0).into() } else { Value::Null };
    outcome["for_ns"] = args.length.map(ns).into();
    outcome["from_ns"] = args.from.map_or(0, ns).into();
    outcome["similarity"] = args.similarity.clone().into();
    outcome["warm_up_ns"] = args.warm_up.map_or(0, ns).into();
    outcome["trail"] = args.output.as_deref().map(text).into();
    outcome["load"] = load.map(|(load, requests)| taken(load, *requests, &outcome["iops"])).into();
    if let Place::Targets(targets) = place {
        let mut targets: Vec<_> = targets.values().collect();
        targets.sort_unstable_by_key(|target| target.device.path);
        outcome["targets"] = targets
            .into_iter()
            .map(|target| json!({ "device": target.device.path, "target": text(&target.path), "bytes": target.size }))
            .collect();
    }
}

/// What the programs of a model took for so many requests, at a rate of them: CPUs, and bytes per second; null unknown.
fn taken(load: &ModelLoad, requests: u64, iops: &Value) -> Value {
    let per_second = |amount: Option<u64>| Some(amount? as f64 / requests.max(1) as f64 * iops.as_f64()?);
    json!({
        "cpus": per_second(load.cpu_ns).map(|ns| ns / 1e9),
        "sent_bytes_per_s": per_second(load.sent_bytes),
        "received_bytes_per_s": per_second(load.received_bytes),
    })
}

/// The summary for people.
fn summary(outcome: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let rate = |value: &Value| human::count(value.as_f64().unwrap_or(0.0).round() as u64);
    let time = |value: &Value| duration(value.as_i64().unwrap_or(0));
    let mut lines = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(lines, "{name:<11}{text}");
    };
    let asked = match &outcome["iops_asked"] {
        Value::Null => String::new(),
        asked => format!(", asked {}", rate(asked)),
    };
    line(
        "requests",
        format!(
            "{} in {}: {} per second{asked}",
            human::count(number(&outcome["requests"])),
            time(&outcome["took_ns"]),
            rate(&outcome["iops"]),
        ),
    );
    line("bytes", human::bytes(number(&outcome["bytes"])));
    let columns = ["requests", "per second", "MB/s", "mean", "p50", "p99", "max"];
    let row = |cells: [String; 7]| {
        let mut text = String::new();
        cells.iter().zip(columns).for_each(|(cell, name)| {
            let _ = write!(text, "{cell:>width$}", width = name.len().max(9) + 2);
        });
        text
    };
    line("", row(columns.map(str::to_owned)));
    for (op, found) in outcome["by_op"].as_object().into_iter().flatten() {
        let response = &found["response"];
        let cells = [
            human::count(number(&found["requests"])),
            rate(&found["iops"]),
            format!("{:.1}", found["mb_per_s"].as_f64().unwrap_or(0.0)),
            time(&response["mean_ns"]),
            time(&response["p50_ns"]),
            time(&response["p99_ns"]),
            time(&response["max_ns"]),
        ];
        line(op, row(cells));
    }
    let load = &outcome["load"];
    let megabytes = |name: &str, what: &str| Some(format!("{:.1} MB/s {what}", load[name].as_f64()? / 1e6));
    let cpus = load["cpus"].as_f64().map(|cpus| format!("{cpus:.2} CPUs"));
    let taken = [cpus, megabytes("sent_bytes_per_s", "sent"), megabytes("received_bytes_per_s", "received")];
    let taken: Vec<_> = taken.into_iter().flatten().collect();
    if !taken.is_empty() {
        line("not run", format!("{}: what the original's programs took at this rate", taken.join(", ")));
    }
    let late = &outcome["lateness"];
    if !late.is_null() {
        let text = format!(
            "mean {}, p50 {}, p99 {}, max {}; {:.2} % over 1 ms",
            time(&late["mean_ns"]),
            time(&late["p50_ns"]),
            time(&late["p99_ns"]),
            time(&late["max_ns"]),
            late["share_over_ms"].as_f64().unwrap_or(0.0) * 100.0
        );
        line("lateness", text);
    }
    for error in outcome["errors"].as_array().into_iter().flatten() {
        let (op, name) = (error["op"].as_str().unwrap_or(""), error["errno"].as_str().unwrap_or(""));
        let name = if name == "short" { "moved fewer bytes than asked for" } else { name };
        line("errors", format!("{} {op}: {name}", human::count(number(&error["count"]))));
    }
    for (why, skipped) in outcome["skipped"].as_object().into_iter().flatten() {
        line("skipped", format!("{} {why}", human::count(number(skipped))));
    }
    if number(&outcome["warm_up_ns"]) > 0 {
        let requests = human::count(number(&outcome["warm_up_requests"]));
        line("warm-up", format!("{requests} requests in {}, not counted", time(&outcome["warm_up_ns"])));
    }
    if outcome["is_interrupted"] == true {
        line("", "interrupted: this is what was done until then".into());
    }
    if let Some(trail) = outcome["trail"].as_str() {
        line("next:", format!("iotrail report {trail}"));
    }
    lines
}

fn duration(ns: i64) -> String {
    let time = ns as f64;
    match ns {
        ..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", time / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", time / 1e6),
        _ => format!("{:.2} s", time / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_paths_or_devices_and_paths() {
        let read = |text| mapping(text).map(|found| (found.device, found.target));
        assert_eq!(read("/dev/a"), Ok((None, "/dev/a".into())));
        assert_eq!(read("1=/dev/a"), Ok((Some("1".into()), "/dev/a".into())));
        assert_eq!(read("./1=a"), Ok((None, "./1=a".into())));
        assert!(read("1=").is_err() && read("=a").is_err() && read("").is_err());
    }

    #[test]
    fn numbers_are_shown_with_their_units() {
        assert_eq!([5, 1500, 2_500_000].map(duration), ["5 ns", "1.5 µs", "2.50 ms"]);
    }

    #[test]
    fn times_are_above_zero() {
        assert!(time("60s").is_ok() && time("5min").is_ok());
        assert!(["0s", "x", "", "-5s"].iter().all(|text| time(text).is_err()));
    }
}
