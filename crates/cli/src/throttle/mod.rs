//! `iotrail record --causal --throttle`: further runs of the program in which threads are paused, to find who waits for whom without a call
//! that shows it (//TRACE, FAST 2007; [`iotrail_causal::throttle`]).
//!
//! Constraints: the trail of the run without pauses is whole before the first further run, and stays as it is if one fails. Runs that
//! are done are kept beside it and not repeated. However a run ends, nothing of it is left running or paused.

mod auto;
mod channels;
mod check;
mod free;
mod keep;
mod page;
mod watch;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use iotrail_causal::throttle::{Analysis, OpTimes, Releases, Run, analyze, groups, one_each};
use iotrail_trail::say;
use iotrail_trail::seal::session::{Session, node};

use crate::causal::{self, Hidden};
use crate::host::{Host, processes_of};
use crate::human;
pub use check::check;
use free::{Counted, FreeRun};
use keep::{Job, Kept};
pub use page::Page;
use watch::{End, Watchdog};

/// Share of the threads' lives that has to be unexplained for further runs.
const LEAST_UNEXPLAINED: f64 = 0.01;
/// How many times as long as before a thread is given, in all, and how far that grows where it was too short.
const SCALE: (u64, u64) = (2, 8);
/// How often a plan is repeated where dependencies were seen too seldom to be told from accidents.
const MOST_ROUNDS: u64 = 2;
/// Bytes of a run's stderr that are shown where it fails.
const TAIL: usize = 2000;

/// Which threads pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Halves of them.
    Groups,
    /// Each alone.
    All,
    /// So many of them, each alone.
    Some(u32),
    /// Halves, if a check says that something is missing, with a period that becomes smaller until none does.
    Auto,
}

impl std::str::FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "groups" => Ok(Self::Groups),
            "all" => Ok(Self::All),
            "auto" => Ok(Self::Auto),
            _ => match text.parse() {
                Ok(count) if count > 0 => Ok(Self::Some(count)),
                _ => Err("expected auto, groups, all, or a number of threads".into()),
            },
        }
    }
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Groups => f.write_str("groups"),
            Self::All => f.write_str("all"),
            Self::Some(count) => write!(f, "{count}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl Which {
    /// The nodes that are held in each run, of those that may wait for each other without a call that shows it: `shared` has them together. What
    /// is apart is held in the same run.
    fn plan(self, shared: &[Vec<u32>], seed: u64) -> Vec<Vec<u32>> {
        let plan_of = |nodes: &Vec<u32>| {
            let count = nodes.len() as u32;
            let plan = match self {
                Self::Groups | Self::Auto => groups(count, seed),
                Self::All => one_each(count, count, seed),
                Self::Some(most) => one_each(count, most, seed),
            };
            let name = |held: Vec<u32>| held.into_iter().map(|place| nodes[place as usize]).collect();
            plan.into_iter().map(name).collect::<Vec<Vec<u32>>>()
        };
        let mut all: Vec<Vec<u32>> = Vec::new();
        for plan in shared.iter().map(plan_of) {
            all.resize(all.len().max(plan.len()), Vec::new());
            all.iter_mut().zip(plan).for_each(|(held, more)| held.extend(more));
        }
        all.iter_mut().for_each(|held| held.sort_unstable());
        all
    }
}

/// How the program is started.
pub struct Program<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its words.
    pub words: &'a [OsString],
    /// Value of LD_PRELOAD for a session.
    pub preload: &'a dyn Fn(&Path) -> Option<OsString>,
    /// What is given back to it.
    pub host: &'a Host,
    /// Bytes that a session may have.
    pub memory: u64,
}

/// What is asked for.
pub struct Wish {
    /// Which threads pause.
    pub which: Which,
    /// Before how many of their operations; none if that is chosen ([`Which::Auto`]).
    pub period: Option<u32>,
}

/// The run without pauses.
pub struct First<'a> {
    /// Name of the machine.
    pub machine: &'a str,
    /// How long the program ran.
    pub took: Duration,
    /// How it ended.
    pub status: ExitStatus,
}

/// Runs that are to be done for a trail.
pub struct Throttle<'a> {
    trail: &'a Path,
    program: &'a Program<'a>,
    which: Which,
    job: Job,
    kept: Kept,
}

/// Whether a trail waits for runs of this command; an error if for those of another one.
pub fn unfinished(trail: &Path, words: &[OsString], wish: &Wish) -> Result<bool, String> {
    let Some(job) = Kept::of(trail).job().filter(|_| trail.join("snapshots").is_dir()) else {
        return Ok(false);
    };
    let is_same_period = wish.period.is_none_or(|period| period == job.period);
    if job.command != bytes(words) || job.which != wish.which.to_string() || !is_same_period {
        let command: Vec<_> = job.command.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let period = wish.period.map(|_| format!(" --period {}", job.period)).unwrap_or_default();
        return Err(format!(
            "{} waits for more runs of another command: --throttle {}{period} -- {}",
            trail.display(),
            job.which,
            command.join(" ")
        ));
    }
    Ok(true)
}

fn bytes(words: &[OsString]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

impl<'a> Throttle<'a> {
    /// After the run without pauses, of which `page` counted the operations.
    pub fn begin(
        trail: &'a Path,
        program: &'a Program<'a>,
        wish: &Wish,
        page: &Page,
        first: &First<'_>,
    ) -> Self {
        let seen = page.read();
        let counted = seen.iter().filter(|seen| seen.lineage != 0).map(Counted::from).collect();
        if page.refused() > 0 {
            say!(
                "iotrail: warning: {} threads more than can be followed; nothing is found of them",
                page.refused()
            );
        }
        let job = Job {
            command: bytes(program.words),
            which: wish.which.to_string(),
            period: wish.period.unwrap_or(1),
            seed: u64::from(std::process::id()),
            machine: first.machine.to_owned(),
            took: first.took.as_nanos() as u64,
            status: first.status.into_raw(),
            counted,
        };
        Self { trail, program, which: wish.which, job, kept: Kept::of(trail) }
    }

    /// Goes on with what was not finished; none if there is nothing.
    pub fn resume(trail: &'a Path, program: &'a Program<'a>, wish: &Wish) -> Option<Self> {
        let kept = Kept::of(trail);
        let job = kept.job()?;
        Some(Self { trail, program, which: wish.which, job, kept })
    }

    /// How the run without pauses ended.
    pub fn status(&self) -> ExitStatus {
        ExitStatus::from_raw(self.job.status)
    }

    /// Does the runs and writes what they say into the trail. What can't be done is said.
    pub fn run(&self) {
        if let Err(why) = self.try_run() {
            say!("iotrail: warning: {why}");
        }
    }

    fn try_run(&self) -> Result<(), String> {
        let free = FreeRun::read(self.trail, &self.job.counted).map_err(|error| error.to_string())?;
        if free.incomplete > 0 {
            say!(
                "iotrail: warning: of {} threads not all operations were recorded; nothing is found of them",
                free.incomplete
            );
        }
        if self.which == Which::Auto {
            return auto::run(self, &free);
        }
        if let Some(why) = nothing_to_find(&free) {
            say!("iotrail: no further runs: {why}");
            return Ok(());
        }
        self.pause_all(&free)
    }

    /// The same with another period.
    fn with_period(&self, period: u32) -> Self {
        let (trail, program, which) = (self.trail, self.program, self.which);
        Self { trail, program, which, job: Job { period, ..self.job.clone() }, kept: Kept::of(trail) }
    }

    /// Whether runs of it are kept that it goes on with.
    fn is_begun(&self) -> bool {
        self.kept.job().as_ref() == Some(&self.job)
    }

    /// Does the runs of the plan, and writes what they say into the trail.
    fn pause_all(&self, free: &FreeRun) -> Result<(), String> {
        if !self.is_begun() {
            let began = self.kept.begin(&self.job);
            began
                .map_err(|error| format!("cannot keep runs in {}: {error}", self.kept.folder().display()))?;
        }
        // of a recorder that was killed; one that is in use is locked
        if let Some(Ok(left)) = self.kept.session().map(|session| Session::open(&session)) {
            left.remove();
        }
        let runs = self.do_runs(free)?;
        let analysis = analyze_all(&runs, free);
        let threads = free.nodes.iter().map(|node| node.thread).collect();
        let hidden = Hidden { found: analysis.found.clone(), threads };
        let edges = causal::derive(self.trail, Some(&hidden)).map_err(|error| {
            format!("who waited for whom could not be written: {error}; the same command tries again")
        })?;
        report(&analysis, edges, &runs, free);
        self.kept.remove().map_err(|error| format!("cannot remove {}: {error}", self.kept.folder().display()))
    }

    /// All runs of the plan, and those again that it needs.
    fn do_runs(&self, free: &FreeRun) -> Result<Vec<Run>, String> {
        let shared = free.shared();
        let mut releases = Releases::new(self.job.seed);
        let mut runs: Vec<Run> = Vec::new();
        let mut scale = SCALE.0;
        for round in 0..MOST_ROUNDS {
            let plan = self.which.plan(&shared, self.job.seed.wrapping_add(round));
            let all = runs.len() + plan.len();
            let pauses: u64 = plan.iter().map(|held| self.pauses(free, held)).sum();
            say!(
                "iotrail: {} {} runs of the program, with about {} pauses: {} at least",
                human::count(plan.len() as u64),
                if round == 0 { "further" } else { "more" },
                human::count(pauses),
                human::duration(
                    Duration::from_nanos(pauses * watch::LEAST_PAUSE)
                        + Duration::from_nanos(free.length) * plan.len() as u32
                )
            );
            for held in plan {
                let number = runs.len();
                let run = match self.kept.run(number, &held, self.job.period) {
                    Some(run) => run,
                    None => {
                        let run = self.one_run(free, &held, &mut releases, scale, (number + 1, all))?;
                        let kept = self.kept.keep(number, &held, &run);
                        kept.map_err(|error| {
                            format!("cannot keep a run in {}: {error}", self.kept.folder().display())
                        })?;
                        run
                    }
                };
                releases.learn(&run);
                if run.late > 0 && scale < SCALE.1 {
                    scale *= 2;
                    say!(
                        "iotrail: {} threads moved that seemed stuck: they are given {scale} times as long as before from now on",
                        run.late
                    );
                }
                runs.push(run);
            }
            if analyze_all(&runs, free).doubtful == 0 {
                break;
            }
        }
        Ok(runs)
    }

    /// One run. `place` is its number and how many there are.
    fn one_run(
        &self,
        free: &FreeRun,
        held: &[u32],
        releases: &mut Releases,
        scale: u64,
        place: (usize, usize),
    ) -> Result<Run, String> {
        let (number, all) = place;
        let began = Instant::now();
        let what = format!("run {number} of {all}");
        let fail =
            |why: String| format!("{what} failed, and the trail has no edges of paused threads: {why}");
        let session =
            Session::create_on(&node(), self.program.memory).map_err(|error| fail(error.to_string()))?;
        session.record_causality();
        session.follow_only();
        self.kept
            .note_session(session.dir())
            .map_err(|error| fail(format!("cannot write into {}: {error}", self.kept.folder().display())))?;
        let lineages: Vec<u64> = held.iter().map(|node| free.nodes[*node as usize].lineage).collect();
        let pauses = self.pauses(free, held);
        let ended = self.watched(free, &session, &lineages, releases, (scale, &what, pauses));
        session.close();
        session.remove();
        let (run, end, output) = ended.map_err(fail)?;
        match end {
            End::Exited(status) if status.into_raw() == self.job.status => {}
            End::Exited(status) => {
                return Err(fail(format!(
                    "the program ended with {status} instead of {}, its files may have to be as they were before the first run{}; the same command \
                     repeats the run",
                    self.status(),
                    tail(&output)
                )));
            }
            End::Hung => {
                return Err(fail(format!(
                    "nothing moved any more for {:.0} s after the pauses, so that the program was killed{}; the same command repeats the run",
                    (free.length as f64 / 1e9).mul_add(watch::HANG_TIMES as f64, watch::HANG as f64 / 1e9),
                    tail(&output)
                )));
            }
            End::Interrupted(signal) => {
                return Err(format!(
                    "{what} was ended by signal {signal}; {} runs are kept in {}, and the same command goes on",
                    number - 1,
                    self.kept.folder().display()
                ));
            }
        }
        let strayed = run.strayed.iter().filter(|strayed| **strayed).count();
        let pauses = run.snapshots.iter().filter(|one| one.released.is_some()).count();
        let other = if strayed > 0 {
            format!(
                "; {strayed} threads did other operations than before, and nothing is concluded about them"
            )
        } else {
            String::new()
        };
        say!(
            "iotrail: {what}: {} of {} threads paused {pauses} times in {:.1} s{other}",
            held.len(),
            free.nodes.len(),
            began.elapsed().as_secs_f64()
        );
        Ok(run)
    }

    /// How long the pauses of the plan's runs take at least, ns.
    fn least(&self, free: &FreeRun) -> u64 {
        let plan = self.which.plan(&free.shared(), self.job.seed);
        plan.iter().map(|held| self.pauses(free, held)).sum::<u64>() * watch::LEAST_PAUSE
    }

    /// About how many pauses a run has in which these are held.
    fn pauses(&self, free: &FreeRun, held: &[u32]) -> u64 {
        let ops =
            held.iter().map(|node| u64::from(free.nodes[*node as usize].total.div_ceil(self.job.period)));
        ops.sum()
    }

    fn watched(
        &self,
        free: &FreeRun,
        session: &Session,
        lineages: &[u64],
        releases: &mut Releases,
        (scale, what, pauses): (u64, &str, u64),
    ) -> Result<(Run, End, Output), String> {
        let page = Page::create(session.dir(), lineages, self.job.period).map_err(|error| {
            format!("cannot make the page of pauses in {}: {error}", session.dir().display())
        })?;
        let (mut child, output) = spawn(self.program, session.dir())?;
        let mut dog = Watchdog::new(&page, free, self.job.period, scale);
        let is_shown = std::io::stderr().is_terminal();
        if is_shown {
            dog = dog.show(what, pauses);
        }
        let watched = dog.watch(&mut child, self.program.host, releases);
        page.release_all();
        if is_shown {
            eprint!("\r\x1b[K");
        }
        let is_over = matches!(&watched, Ok(watched) if matches!(watched.end, End::Exited(_)));
        if !is_over {
            kill(session.dir(), &mut child);
        }
        let watched = watched.map_err(|error| format!("cannot wait for the program: {error}"))?;
        Ok((watched.run, watched.end, output))
    }
}

/// Starts the program once more, recorded into a session. Its stdin is empty, and what it prints isn't shown.
fn spawn(program: &Program<'_>, session: &Path) -> Result<(Child, Output), String> {
    let mut command = Command::new(program.path);
    std::os::unix::process::CommandExt::arg0(&mut command, &program.words[0]);
    command.args(&program.words[1..]).env(iotrail_format::segment::SESSION_ENV, session);
    let preload = (program.preload)(session)
        .ok_or_else(|| format!("cannot link the recorder's library into {}", session.display()))?;
    command.env("LD_PRELOAD", preload).stdin(Stdio::null());
    program.host.restore_in(&mut command);
    // what they stand for decides which calls are calls on files
    command.stdout(like(libc::STDOUT_FILENO)).stderr(like(libc::STDERR_FILENO));
    let mut child =
        command.spawn().map_err(|error| format!("cannot run {}: {error}", program.path.display()))?;
    let output = Output::default();
    if let Some(stdout) = child.stdout.take() {
        drain(stdout, None);
    }
    if let Some(stderr) = child.stderr.take() {
        drain(stderr, Some(output.clone()));
    }
    Ok((child, output))
}

/// The end of what a program wrote to stderr.
type Output = Arc<Mutex<Vec<u8>>>;

/// Something of the kind that the recorder's descriptor is: a file, or a stream that is read.
fn like(fd: i32) -> Stdio {
    // SAFETY: zeroed, and filled by the call.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut stat) == 0).then_some(stat)
    };
    // SAFETY: no pointers.
    let is_terminal = unsafe { libc::isatty(fd) } == 1;
    let kind = stat.map(|stat| stat.st_mode & libc::S_IFMT);
    match kind {
        Some(libc::S_IFIFO | libc::S_IFSOCK) => Stdio::piped(),
        Some(libc::S_IFCHR) if is_terminal => Stdio::piped(),
        _ => Stdio::null(),
    }
}

/// Reads all that a program writes, in a thread of its own, which ends when the last process that has the stream does.
fn drain(mut from: impl std::io::Read + Send + 'static, keep: Option<Output>) {
    let read = move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if let Some(Ok(mut kept)) = keep.as_ref().map(|keep| keep.lock()) {
                kept.extend_from_slice(&buffer[..count]);
                let excess = kept.len().saturating_sub(TAIL);
                kept.drain(..excess);
            }
        }
    };
    // without, the program gets an error when the pipe is closed
    let _ = std::thread::Builder::new().name("iotrail-drain".into()).spawn(read);
}

fn tail(output: &Output) -> String {
    // what it wrote last may still be on its way
    std::thread::sleep(std::time::Duration::from_millis(50));
    let text = output.lock().map(|kept| String::from_utf8_lossy(&kept).trim().to_owned()).unwrap_or_default();
    if text.is_empty() { text } else { format!(" (it said: {text})") }
}

/// Ends all processes of a session.
fn kill(session: &Path, child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
    for pid in processes_of(session) {
        // SAFETY: no pointers; its environment names this run's session.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

fn nothing_to_find(free: &FreeRun) -> Option<String> {
    if free.nodes.len() < 2 {
        let count = free.nodes.len();
        return Some(format!(
            "{count} threads do operations on files, and it takes two for one to wait for the other"
        ));
    }
    if free.unexplained < LEAST_UNEXPLAINED {
        return Some(format!(
            "recorded calls explain what the threads did but for {:.1} % of their time",
            100.0 * free.unexplained
        ));
    }
    free.shared().is_empty().then(|| {
        "no two threads that do operations on files share memory, or a file that one of them changes and another one looks at again and again".into()
    })
}

fn analyze_all(runs: &[Run], free: &FreeRun) -> Analysis {
    let totals: Vec<u32> = free.nodes.iter().map(|node| node.total).collect();
    let times: Vec<OpTimes> = free.nodes.iter().map(|node| node.times.clone()).collect();
    let mut analysis = analyze(runs, &totals, &times);
    // who shares nothing was only slow
    let channel = |node: u32| free.nodes[node as usize].channel;
    analysis.found.retain(|found| channel(found.dependency.giver) == channel(found.dependency.taker));
    analysis
}

fn report(analysis: &Analysis, edges: usize, runs: &[Run], free: &FreeRun) {
    say!(
        "iotrail: {} dependencies between operations of {} threads found in {} further runs; {edges} edges that no call shows",
        analysis.found.len(),
        free.nodes.len(),
        runs.len()
    );
    for (count, what) in [
        (analysis.inferred, "of them never came last, and are taken from the same threads' other waits"),
        (analysis.contradicted, "more were seen in one run and contradicted by another: an order by chance"),
        (analysis.doubtful, "more were seen too seldom to be told from slow threads"),
        (analysis.undecided, "waits may have more causes: --throttle all tells, with a run for each thread"),
    ] {
        if count > 0 {
            say!("iotrail: {count} {what}");
        }
    }
    let unsettled = runs.iter().flat_map(|run| &run.snapshots).filter(|one| !one.is_settled).count();
    if unsettled > 0 {
        say!(
            "iotrail: warning: {unsettled} pauses ended before all others had stopped; nothing is concluded from those"
        );
    }
}

/// Forgets the runs that were done for a trail.
pub fn forget(trail: &Path) {
    let _ = Kept::of(trail).remove();
}
