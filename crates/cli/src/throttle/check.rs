//! `iotrail record --causal --check`: one more run of the program, in which each operation takes longer, beside a simulation of it from the
//! recording. How far they differ says how well other storage is predicted for this program.

use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use iotrail_causal::{Durations, Machines, evaluate};
use iotrail_format::schema::RECORDING;
use iotrail_replay::plan_with_causality;
use iotrail_trail::seal::session::{Session, node};
use iotrail_trail::{Ingest, TrailReader, TrailWriter, say};

use super::{Program, kill, page::Page, spawn, tail, watch};
use crate::causal::operations;
use crate::human;

/// How much longer an operation takes at least and at most, ns: a shorter sleep is mostly what ending it costs, a longer one nobody waits for.
/// Where there are too many operations for the one, some of them take longer.
const LEAST: i64 = 200_000;
const MOST: i64 = 50_000_000;
/// A run becomes about twice as long, and at least so much longer, ns: starting a short program alone takes now 5, now 20 ms.
const LEAST_ADDED: u128 = 500_000_000;
/// Between two looks at the program.
const TICK: Duration = Duration::from_millis(2);

/// Which operations of a thread take longer: each `period`-th, by so many ns.
#[derive(Clone, Copy)]
struct Longer {
    ns: i64,
    period: u32,
}

/// What came of it.
pub struct Checked {
    /// How much longer each operation took, ns.
    longer: u64,
    /// How long the program ran, as it is and so, ns.
    took: u64,
    took_longer: u64,
    /// How long it would have run so by the recording, ns.
    predicted: u64,
}

/// Does the run, says how far off a simulation of it is, and writes that into the trail of this machine. `took` is how long the program ran when it
/// was recorded, `status` how it ended. What can't be done is said.
pub fn check(trail: &Path, machine: &str, program: &Program<'_>, took: Duration, status: ExitStatus) {
    let checked = measure(trail, program, took, status).and_then(|checked| checked.keep(trail, machine));
    if let Err(why) = checked {
        say!("iotrail: warning: the recording was not checked: {why}");
    }
}

/// Does the run, and says how far off a simulation of it is. An error if the program ends otherwise than before, or hangs.
pub fn measure(
    trail: &Path,
    program: &Program<'_>,
    took: Duration,
    status: ExitStatus,
) -> Result<Checked, String> {
    let model = Model::read(trail)?;
    let most = model.ends.iter().map(Vec::len).max().unwrap_or(0) as i64;
    if most == 0 {
        return Err("it has no calls on files".to_owned());
    }
    let added = took.as_nanos().max(LEAST_ADDED) as i64;
    let period = u32::try_from((LEAST * most / added).max(1)).unwrap_or(u32::MAX);
    let wanted = Longer { ns: (added / most * i64::from(period)).clamp(LEAST, MOST), period };
    let all: u64 = model.ends.iter().map(|of| of.len() as u64 / u64::from(period)).sum();
    say!(
        "iotrail: one more run of the program, in which {} of its operations take {} longer: about {}",
        human::count(all),
        human::duration(Duration::from_nanos(wanted.ns as u64)),
        human::duration(took + Duration::from_nanos((wanted.ns * (most / i64::from(period))) as u64))
    );
    let (took_longer, ns) = run(program, wanted, took, status)?;
    let added = model.elapsed(Longer { ns, period })? - model.elapsed(Longer { ns: 0, period })?;
    let took = took.as_nanos() as u64;
    let checked =
        Checked { longer: ns as u64, took, took_longer, predicted: took.saturating_add_signed(added) };
    say!(
        "iotrail: so the program ran {} instead of {}; predicted {} ({:+.1} %)",
        human::duration(Duration::from_nanos(checked.took_longer)),
        human::duration(Duration::from_nanos(checked.took)),
        human::duration(Duration::from_nanos(checked.predicted)),
        100.0 * checked.error()
    );
    Ok(checked)
}

/// Runs the program. How long it ran, and how much longer such an operation took on average, ns.
fn run(
    program: &Program<'_>,
    longer: Longer,
    took: Duration,
    status: ExitStatus,
) -> Result<(u64, i64), String> {
    let session = Session::create_on(&node(), program.memory).map_err(|error| error.to_string())?;
    session.record_causality();
    session.follow_only();
    let ran = watched(program, &session, longer, took, status);
    session.close();
    session.remove();
    ran
}

fn watched(
    program: &Program<'_>,
    session: &Session,
    longer: Longer,
    took: Duration,
    status: ExitStatus,
) -> Result<(u64, i64), String> {
    let page = Page::longer(session.dir(), longer.ns as u64, longer.period)
        .map_err(|error| format!("cannot make the page of pauses in {}: {error}", session.dir().display()))?;
    let began = Instant::now();
    let (mut child, output) = spawn(program, session.dir())?;
    let limit = Duration::from_nanos(watch::HANG) + took * 20;
    let ended = loop {
        page.beat();
        match child.try_wait() {
            Ok(Some(ended)) => break ended,
            Ok(None) => {}
            Err(error) => {
                kill(session.dir(), &mut child);
                return Err(format!("cannot wait for the program: {error}"));
            }
        }
        if let Some(signal) = program.host.next_signal(TICK) {
            kill(session.dir(), &mut child);
            return Err(format!("it was ended by signal {signal}"));
        }
        if began.elapsed() > limit {
            kill(session.dir(), &mut child);
            return Err(format!(
                "the program ran for {} and was ended{}",
                human::duration(limit),
                tail(&output)
            ));
        }
    };
    let ran = began.elapsed().as_nanos() as u64;
    // a terminal sends it to the program, too
    if let Some(signal) = program.host.next_signal(Duration::ZERO) {
        return Err(format!("it was ended by signal {signal}"));
    }
    if ended != status {
        return Err(format!(
            "the program ended with {ended} instead of {status}, its files may have to be as they were before{}",
            tail(&output)
        ));
    }
    let seen = page.read();
    let slept: u64 = seen.iter().map(|seen| seen.slept).sum();
    let count: u64 = seen.iter().map(|seen| u64::from(seen.done / longer.period)).sum();
    if count == 0 {
        return Err("no operation of it was seen".to_owned());
    }
    Ok((ran, (slept / count) as i64))
}

/// The recorded program in virtual time.
struct Model {
    plan: iotrail_replay::Plan,
    /// Of each thread the end of each operation, in the times of the plan.
    ends: Vec<Vec<i64>>,
    machines: Machines,
}

impl Model {
    fn read(trail: &Path) -> Result<Self, String> {
        let plan = plan_with_causality(trail).map_err(|error| error.to_string())?;
        let reader = TrailReader::open(trail).map_err(|error| error.to_string())?;
        let mut found = operations(&reader).map_err(|error| error.to_string())?;
        let mut of = |thread: i64| found.remove(&thread).unwrap_or_default().times;
        let ends = plan
            .threads
            .iter()
            .map(|thread| of(thread.id).into_iter().map(|(_, end)| end - plan.zero).collect())
            .collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { plan, ends, machines: Machines::one(cores as u32) })
    }

    /// How long it runs if threads sleep so long after these operations, ns. What an operation did (a file appears) others see before that.
    fn elapsed(&self, longer: Longer) -> Result<i64, String> {
        let mut causality = self.plan.causality.clone().unwrap_or_default();
        for (ends, recorded) in self.ends.iter().zip(&mut causality.recorded) {
            let is_longer = |(number, _): &(u32, i64)| number.is_multiple_of(longer.period) && longer.ns > 0;
            recorded.rests =
                (1..).zip(ends.iter().copied()).filter(is_longer).map(|(_, end)| (end, longer.ns)).collect();
        }
        let durs = self.plan.threads.iter().map(|thread| thread.ops.iter().map(|op| op.dur).collect());
        let scripts = causality.scripts(false);
        evaluate(&scripts, &self.plan, &mut Durations::new(durs.collect()), &self.machines)
            .map(|found| found.elapsed)
            .map_err(|standstill| standstill.to_string())
    }
}

impl Checked {
    /// How much longer than it ran it would have run by the recording, as a share of it.
    pub fn error(&self) -> f64 {
        self.predicted as f64 / self.took_longer as f64 - 1.0
    }

    /// Writes what was found into the trail of this machine.
    pub fn keep(&self, trail: &Path, machine: &str) -> Result<(), String> {
        self.write(trail, machine).map_err(|error| format!("what it showed could not be written: {error}"))
    }

    /// As facts of the recording.
    fn write(&self, trail: &Path, machine: &str) -> Result<(), iotrail_trail::Error> {
        let facts = [
            ("check_longer_ns", self.longer),
            ("check_took_ns", self.took),
            ("check_took_longer_ns", self.took_longer),
            ("check_predicted_ns", self.predicted),
        ];
        let texts = |values: Vec<String>| -> ArrayRef { Arc::new(StringArray::from(values)) };
        let columns = [
            texts(vec![machine.to_owned(); facts.len()]),
            texts(facts.iter().map(|(name, _)| (*name).to_owned()).collect()),
            texts(facts.iter().map(|(_, value)| value.to_string()).collect()),
        ];
        let named = RECORDING.columns.iter().map(|column| column.name).zip(columns);
        let batch = RecordBatch::try_from_iter(named).map_err(|error| iotrail_trail::Error::BadRows {
            table: RECORDING.name,
            why: error.to_string(),
        })?;
        let mut writer = TrailWriter::open(trail)?;
        let mut table = Ingest::new(&mut writer, &RECORDING);
        table.add(batch)?;
        table.finish()?;
        writer.publish()?;
        Ok(())
    }
}
