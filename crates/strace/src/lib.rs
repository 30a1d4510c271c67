//! strace's output as the tables of a trail: any combination of -f, -t, -tt, -ttt, -r, -T, -y and -yy
//! (strace(1), 6.x), in one file or several (-ff).
//!
//! Bytes go into a [`Reader`], Arrow batches come out. A line is taken apart ([`lines`]), gets its time
//! ([`times`]), and a call in it goes to the handler ([`calls`]) that [`iotrail_format::syscall`] names for it. Handlers follow
//! what needs to be followed ([`state`]): which path a descriptor stands for (through open, dup, pipe, socket,
//! fork, exec, close), where in the file it is (through read, write, lseek), and which threads make a
//! process. With -y the path strace prints wins over what was followed.
//!
//! Rows are those a recorder would have written: calls on files in `file_op`, calls that wait, and reads and
//! writes on pipes, sockets and terminals, in `sync_op`. Other system calls (memory, signals, identity) have no
//! rows and are counted.
//!
//! Constraints: any bytes are read, at worst as lines that are not understood; memory grows with the number of
//! processes, threads and paths of a trace, not with its calls; nothing is read or written but what is given.

mod arguments;
mod calls;
mod constants;
mod lines;
mod rows;
mod state;
mod times;

use std::collections::HashMap;

use iotrail_format::schema::{FILE, PROCESS, THREAD, UNSEEN};
use iotrail_format::syscall::{Kind, kind};
use iotrail_trail::LONGEST;
use iotrail_trail::arrays::{Value, batch, lossy};
use memchr::{memchr_iter, memrchr};
use serde::Serialize;

use crate::arguments::{Bad, descriptor, first_string};
use crate::calls::{Syscall, clone_flags, outcome};
use crate::lines::{Event, Line, Returned, said_within};
use crate::rows::Rows;
use crate::state::{Cloning, Ended, Pending, State};
use crate::times::{Clock, duration};

pub use crate::constants::errno_name;
pub use crate::rows::Batch;
pub use crate::times::{Form, Times};

/// Bytes of a file that are looked at to tell how it was made.
const HEAD: usize = 256 << 10;
/// Lines that weren't understood of which the text is kept.
const SHOWN: usize = 3;
/// Characters kept of such a line; one more says that there were more.
const EXCERPT: usize = 120 + 1;
/// Names kept of calls that have no rows.
const NAMED: usize = 3;
/// Rows of the small tables in a batch.
const SMALL_BATCH: usize = 1 << 16;

/// Reads strace's output.
///
/// For each file [`Reader::begin`], [`Reader::feed`] as often as needed, [`Reader::end`]; at last
/// [`Reader::finish`]. [`Reader::batches`] gives what is ready, at any time.
pub struct Reader {
    node: String,
    strict: bool,
    state: State,
    rows: Rows,
    input: Option<Input>,
    sources: Vec<Times>,
    others: Others,
    lines: u64,
    signals: u64,
    unfinished: u64,
    backwards: u64,
    rings: i64,
    skipped: Skipped,
}

/// The file being read.
struct Input {
    /// Who called, where the lines don't say.
    pid: u32,
    /// A call whose line ends in what the program wrote to the same file.
    broken: Option<Broken>,
    /// A line that ended in what strace itself said.
    begun: Option<Vec<u8>>,
    /// What wasn't read yet: the head, or a line without its end.
    buffer: Vec<u8>,
    /// Known once the head is there.
    clock: Option<Clock>,
    took: bool,
    line: u64,
}

/// The beginning of a call, whose line a program's own output broke.
struct Broken {
    thread: usize,
    ts: i64,
    row: i64,
    name: Box<[u8]>,
    args: Vec<u8>,
    /// Lines since that aren't understood: what the program wrote, if the call goes on behind them.
    lines: Vec<SkippedLine>,
    /// How many.
    count: u64,
}

/// Calls without rows, in the order of their first.
#[derive(Default)]
struct Others {
    places: HashMap<Box<[u8]>, usize>,
    counts: Vec<(Box<[u8]>, u64)>,
}

impl Others {
    fn count(&mut self, name: &[u8]) {
        if let Some(&at) = self.places.get(name) {
            self.counts[at].1 += 1;
        } else {
            self.places.insert(name.into(), self.counts.len());
            self.counts.push((name.into(), 1));
        }
    }
}

/// What was read, beside rows.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Lines, also those left out.
    pub lines: u64,
    /// Of each file.
    pub sources: Vec<Times>,
    /// Earliest and latest moment, in ns; none without rows.
    pub span: Option<(i64, i64)>,
    /// Calls that are no I/O.
    pub calls_without_rows: u64,
    /// The most frequent of them.
    pub most: Vec<(String, u64)>,
    /// Signals.
    pub signals: u64,
    /// Calls that never return.
    pub unfinished: u64,
    /// Lines whose time is before the last one's.
    pub backwards: u64,
    /// Lines that aren't understood.
    pub skipped: Skipped,
}

/// Lines that aren't understood, and left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<SkippedLine>,
}

/// A line that isn't understood.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedLine {
    /// The file, by number.
    pub source: usize,
    /// The line, from 1.
    pub line: u64,
    /// How it begins.
    pub text: String,
    /// Whether the file ends in it.
    pub cut: bool,
}

impl Reader {
    /// A reader of a trace of `node`. If strict it stops at the first line that isn't understood.
    #[must_use]
    pub fn new(node: &str, strict: bool) -> Self {
        Self {
            node: node.into(),
            strict,
            state: State::new(node.into()),
            rows: Rows::new(node.into()),
            input: None,
            sources: Vec::new(),
            others: Others::default(),
            lines: 0,
            signals: 0,
            unfinished: 0,
            backwards: 0,
            rings: 0,
            skipped: Skipped::default(),
        }
    }

    /// A file begins. `pid` is who calls where its lines don't say (-ff); 0 if nobody knows.
    pub fn begin(&mut self, pid: u32) {
        self.end();
        self.input = Some(Input {
            pid,
            broken: None,
            begun: None,
            buffer: Vec::new(),
            clock: None,
            took: false,
            line: 0,
        });
    }

    /// More bytes of the file that began last; pieces may end anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some(mut input) = self.input.take() else { return };
        let whole = memrchr(b'\n', bytes).map(|at| input.buffer.len() + at + 1);
        input.buffer.extend_from_slice(bytes);
        if input.clock.is_some() || input.buffer.len() >= HEAD {
            // Without a line feed what waits needn't be looked at again.
            let end =
                if input.clock.is_some() { whole } else { memrchr(b'\n', &input.buffer).map(|at| at + 1) };
            if let Some(end) = end {
                self.read(&mut input, end);
            }
        }
        self.input = Some(input);
    }

    /// The file ends. Its last line may lack its line feed.
    pub fn end(&mut self) {
        let Some(mut input) = self.input.take() else { return };
        let end = input.buffer.len();
        self.read(&mut input, end);
        self.give_up(&mut input);
        self.backwards += input.clock.map_or(0, |clock| clock.backwards);
    }

    /// Whether a strict reader met a line that it doesn't understand: it takes no more.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.strict && self.skipped.count > 0
    }

    /// Batches that are ready.
    pub fn batches(&mut self) -> impl Iterator<Item = Batch> + '_ {
        self.rows.ready.drain(..)
    }

    /// The trace ends: calls that never returned, processes, threads and files become rows.
    pub fn finish(&mut self) -> Summary {
        self.end();
        let mut living: Vec<usize> = self.state.live.values().copied().collect();
        living.sort_unstable();
        living.into_iter().for_each(|thread| self.never_returned(thread));
        self.rows.flush();
        self.small_tables();
        let mut most = self.others.counts.clone();
        // Stable: of equals the first.
        most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Summary {
            lines: self.lines,
            sources: self.sources.clone(),
            span: self.rows.span,
            calls_without_rows: most.iter().map(|(_, count)| count).sum(),
            most: most.iter().take(NAMED).map(|(name, count)| (lossy(name), *count)).collect(),
            signals: self.signals,
            unfinished: self.unfinished,
            backwards: self.backwards,
            skipped: self.skipped.clone(),
        }
    }

    // -- lines

    /// Reads what the buffer has up to `end`, which is after a line feed or the file's end.
    fn read(&mut self, input: &mut Input, end: usize) {
        let buffer = std::mem::take(&mut input.buffer);
        if input.clock.is_none() {
            let times = Times::of(&buffer[..buffer.len().min(HEAD)]);
            self.sources.push(times);
            (input.clock, input.took) = (Some(Clock::new(times.form)), times.took);
        }
        let mut begin = 0;
        for feed in memchr_iter(b'\n', &buffer[..end]) {
            self.line(input, &buffer[begin..feed], true);
            begin = feed + 1;
        }
        if begin < end {
            self.line(input, &buffer[begin..end], false);
        }
        input.buffer = buffer;
        input.buffer.drain(..end);
    }

    fn line(&mut self, input: &mut Input, text: &[u8], whole: bool) {
        if self.stopped() {
            return;
        }
        input.line += 1;
        self.lines += 1;
        let mut joined = None;
        if let Some(begun) = input.begun.take() {
            // The rest of the line before, unless it makes sense by itself.
            if matches!(Line::parse(text).event, Event::Unknown | Event::Mended(_) | Event::MendedUnfinished)
            {
                joined = Some([&begun, text].concat());
            } else {
                self.skip(1, vec![self.excerpt(input, &begun, true)]);
            }
        }
        let text = joined.as_deref().unwrap_or(text);
        if let Some((begun, tid)) = said_within(text).filter(|_| whole) {
            self.state.attached.insert(tid);
            input.begun = Some(begun.to_vec());
            return;
        }
        let line = Line::parse(text);
        // Lines behind a broken one that aren't understood may be what the program wrote.
        match line.event {
            Event::Unknown | Event::Empty | Event::Said | Event::Attached(_) => {}
            Event::Mended(_) | Event::MendedUnfinished => {}
            _ => self.give_up(input),
        }
        if self.understand(input, &line, text, whole).is_ok() {
            return;
        }
        let skipped = self.excerpt(input, text, whole);
        match &mut input.broken {
            Some(broken) => {
                broken.count += 1;
                if broken.lines.len() < SHOWN {
                    broken.lines.push(skipped);
                }
            }
            None => self.skip(1, vec![skipped]),
        }
    }

    fn excerpt(&self, input: &Input, text: &[u8], whole: bool) -> SkippedLine {
        // No character has more than four bytes.
        let text = lossy(text.get(..EXCERPT * 4).unwrap_or(text));
        SkippedLine {
            source: self.sources.len() - 1,
            line: input.line,
            text: text.chars().take(EXCERPT).collect(),
            cut: !whole,
        }
    }

    fn skip(&mut self, count: u64, lines: Vec<SkippedLine>) {
        self.skipped.count += count;
        let room = SHOWN.saturating_sub(self.skipped.first.len());
        self.skipped.first.extend(lines.into_iter().take(room));
    }

    /// A broken line never went on: it isn't understood, nor what followed it.
    fn give_up(&mut self, input: &mut Input) {
        if let Some(begun) = input.begun.take() {
            self.skip(1, vec![self.excerpt(input, &begun, true)]);
        }
        if let Some(broken) = input.broken.take() {
            self.skip(broken.count, broken.lines);
        }
    }

    /// What follows a broken line came: the call, without what the program wrote.
    fn mend(&mut self, input: &mut Input) -> Result<Broken, Bad> {
        let mut broken = input.broken.take().ok_or(Bad)?;
        // Behind the string the length, and what the program wrote. Where that begins with a digit it can't be told
        // from the length: then a number that no column holds, which is null.
        let (text, at) = first_string(&broken.args).ok_or(Bad)?;
        let ambiguous = text.first().is_some_and(u8::is_ascii_digit);
        let digits = broken.args[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        broken.args.truncate(at + if ambiguous { 0 } else { digits });
        if ambiguous {
            broken.args.extend_from_slice(u64::MAX.to_string().as_bytes());
        }
        Ok(broken)
    }

    fn understand(
        &mut self,
        input: &mut Input,
        line: &Line<'_>,
        text: &[u8],
        whole: bool,
    ) -> Result<(), Bad> {
        match line.event {
            Event::Said | Event::Empty => return Ok(()),
            Event::Unknown => return Err(Bad),
            Event::Attached(tid) => {
                self.state.attached.insert(tid);
                return Ok(());
            }
            Event::Broken { .. } if !whole => return Err(Bad),
            Event::Mended(Returned { result, rest, .. }) => {
                let Broken { thread, ts, row, name, args, .. } = self.mend(input)?;
                let call = Returned { name: &name, args: &args, result, rest };
                return self.call(thread, ts, row, &call, input.took);
            }
            Event::MendedUnfinished => {
                let Broken { thread, ts, row, name, args, .. } = self.mend(input)?;
                return self.interrupted(thread, ts, row, &name, &args);
            }
            _ => {}
        }
        let clock = input.clock.as_mut().ok_or(Bad)?;
        let ts = clock.next(line.stamp).ok_or(Bad)?;
        let thread = self.who(input, line, ts);
        let row = self.lines as i64 - 1;
        self.state.threads[thread].last = ts;
        match line.event {
            Event::Broken { name, args } => {
                // The line itself is one that isn't understood, should nothing mend it.
                let lines = vec![self.excerpt(input, text, whole)];
                let (name, args) = (name.into(), args.to_vec());
                input.broken = Some(Broken { thread, ts, row, name, args, lines, count: 1 });
                Ok(())
            }
            Event::Call(call) => self.call(thread, ts, row, &call, input.took),
            Event::Unfinished { name, args } => self.interrupted(thread, ts, row, name, args),
            Event::Resumed(call) => self.resumed(thread, ts, &call, input.took),
            Event::Exited(status) => self.ended(thread, ts, Ended::Exit, Some(status)),
            Event::Killed => self.ended(thread, ts, Ended::Killed, None),
            Event::Signal => {
                self.signals += 1;
                Ok(())
            }
            _ => Err(Bad),
        }
    }

    /// The thread of a line. Where strace writes to its standard error, a line has a pid only while strace traces
    /// several threads: those without are of the only one.
    fn who(&mut self, input: &Input, line: &Line<'_>, ts: i64) -> usize {
        let tid = line.pid.unwrap_or(input.pid);
        if let Some(&thread) = self.state.live.get(&tid) {
            return thread;
        }
        let state = &mut self.state;
        let attached = state.attached.remove(&tid);
        if line.pid.is_none() && tid == 0 {
            let resumed = match line.event {
                Event::Resumed(call) => Some(call.name),
                _ => None,
            };
            // Several only if strace says nothing of those that end (-q): the one that can go on, else the first.
            let alone = state.live.values().copied().min_by_key(|thread| {
                let thread = &state.threads[*thread];
                (thread.pending.as_ref().map(|pending| &*pending.name) != resumed, thread.start)
            });
            if let Some(thread) = alone {
                return thread;
            }
        } else if let Some(&first) = state.live.get(&0)
            && !attached
        {
            let goes_on = match (line.event, &state.threads[first].pending) {
                (Event::Resumed(call), Some(pending)) => *pending.name == *call.name,
                _ => false,
            };
            if (goes_on || state.cloning.is_empty() || !state.attached.is_empty())
                && let Some(thread) = state.name_first(tid)
            {
                return thread;
            }
        }
        state.first_seen(tid, ts)
    }

    fn call(&mut self, thread: usize, ts: i64, row: i64, call: &Returned<'_>, took: bool) -> Result<(), Bad> {
        let Returned { name, args, result, rest } = *call;
        let Some(kind) = kind(name) else {
            self.others.count(name);
            return Ok(());
        };
        let dur = duration(rest).filter(|_| took);
        self.state.threads[thread].last = ts + dur.unwrap_or(0);
        let (result, errno) = outcome(result, rest)?;
        self.handle(kind, &Syscall { thread, ts, dur, returned: true, row, name, args, result, errno, rest })
    }

    /// The first line of a call in two.
    fn interrupted(&mut self, thread: usize, ts: i64, row: i64, name: &[u8], args: &[u8]) -> Result<(), Bad> {
        let mut closes = None;
        match kind(name) {
            Some(Kind::Close) => {
                let (fd, _) = descriptor(args)?;
                closes = self.state.open(thread, fd);
                self.state.process_of(thread).descriptors.borrow_mut().close(fd.number);
            }
            Some(Kind::Clone) => {
                self.state.cloning.push_back(Cloning { parent: thread, how: clone_flags(args) });
            }
            _ => {}
        }
        self.state.threads[thread].pending =
            Some(Pending { start: ts, name: name.into(), args: args.to_vec(), row, closes });
        Ok(())
    }

    /// The second line.
    fn resumed(&mut self, thread: usize, ts: i64, call: &Returned<'_>, took: bool) -> Result<(), Bad> {
        let Returned { name, args: more, result, rest } = *call;
        let same = |pending: &mut Pending| *pending.name == *name;
        let Some(pending) = self.state.threads[thread].pending.take_if(same) else {
            // Its beginning is before the trace's.
            self.others.count(name);
            return Ok(());
        };
        let Some(kind) = kind(name) else {
            self.others.count(name);
            return Ok(());
        };
        let Pending { start, mut args, row, closes, .. } = pending;
        // Between two stamps, of which one is wrong, may lie more than a duration can be.
        let between = || Some((ts - start).max(0)).filter(|dur| *dur <= LONGEST);
        let dur = duration(rest).filter(|_| took).or_else(between);
        if !args.is_empty() && !more.is_empty() {
            args.extend_from_slice(b", ");
        }
        args.extend_from_slice(more);
        let (result, errno) = outcome(result, rest)?;
        let ts = start;
        let call = Syscall { thread, ts, dur, returned: true, row, name, args: &args, result, errno, rest };
        match kind {
            Kind::Close => self.closed(&call, closes),
            kind => self.handle(kind, &call),
        }
    }

    fn ended(&mut self, thread: usize, ts: i64, ended: Ended, status: Option<i64>) -> Result<(), Bad> {
        self.never_returned(thread);
        self.state.end(thread, ts, ended, status);
        Ok(())
    }

    /// The call a thread is in never returned: what is known of it, without result.
    fn never_returned(&mut self, thread: usize) {
        let Some(pending) = self.state.threads[thread].pending.take() else { return };
        let Pending { start: ts, name, args, row, closes } = pending;
        let call = Syscall {
            thread,
            ts,
            dur: None,
            returned: false,
            row,
            name: &name,
            args: &args,
            result: None,
            errno: 0,
            rest: b"",
        };
        let handled = match kind(&name) {
            None | Some(Kind::Clone) => Err(Bad),
            Some(Kind::Close) => self.closed(&call, closes),
            // Its arguments may be printed only when it returns.
            Some(kind) => self.handle(kind, &call),
        };
        match handled {
            Ok(()) => self.unfinished += 1,
            Err(Bad) => self.others.count(&name),
        }
    }

    // -- the small tables

    fn small_tables(&mut self) {
        let State { processes, threads, files, .. } = &mut self.state;
        for thread in threads.iter() {
            let process = &mut processes[thread.process];
            process.end = process.end.max(thread.last);
            self.rows.extend(thread.start, thread.last);
        }
        let node = || Value::from(self.node.as_str());
        let text = |bytes: &Option<std::rc::Rc<[u8]>>| Value::from(bytes.as_deref().map(lossy));
        let thread_rows = threads.iter().map(|thread| {
            let process = &processes[thread.process];
            vec![
                node(),
                thread.id.into(),
                i64::from(process.pid).into(),
                i64::from(thread.tid).into(),
                process.id.into(),
                process.program.name().into(),
                thread.start.into(),
                thread.last.into(),
            ]
        });
        let process_rows = processes.iter().map(|process| {
            let name = process.program.name().unwrap_or_else(|| match process.pid {
                0 => self.node.clone(),
                pid => format!("pid {pid}"),
            });
            vec![
                node(),
                process.id.into(),
                i64::from(process.pid).into(),
                name.into(),
                Value::Null,
                Value::Null,
                process.start.into(),
                process.end.max(process.start).into(),
                process.parent.into(),
                text(&process.program.exe),
                text(&process.program.cmd),
                text(&process.cwd),
                process.ended.name().into(),
                process.status.into(),
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
            ]
        });
        let file_rows = files.iter().map(|(id, path)| vec![node(), (*id).into(), lossy(path).into()]);
        let detail = "strace shows that io_uring was entered, not what was read or written through it.";
        let unseen_rows = (self.rings != 0).then(|| {
            vec![node(), "io_uring_enter".into(), Value::Null, Value::Null, self.rings.into(), detail.into()]
        });
        let ready = &mut self.rows.ready;
        let mut add = |table, rows: &mut dyn Iterator<Item = Vec<Value>>| {
            loop {
                let rows: Vec<_> = rows.take(SMALL_BATCH).collect();
                if rows.is_empty() {
                    return;
                }
                ready.push(Batch { table, rows: batch(table, rows).expect("rows are the table's") });
            }
        };
        add(&THREAD, &mut { thread_rows });
        add(&PROCESS, &mut { process_rows });
        add(&FILE, &mut { file_rows });
        add(&UNSEEN, &mut unseen_rows.into_iter());
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Int32Type, Int64Type};
    use iotrail_format::schema::{FILE_OP, SYNC_OP, Table};
    use proptest::prelude::*;

    use super::*;

    /// What a trace becomes.
    struct Read {
        batches: Vec<Batch>,
        summary: Summary,
    }

    fn read(text: &str) -> Read {
        read_pieces(&[text.as_bytes()], text.len().max(1))
    }

    fn read_pieces(files: &[&[u8]], size: usize) -> Read {
        let mut reader = Reader::new("trace", false);
        for file in files {
            reader.begin(0);
            file.chunks(size).for_each(|piece| reader.feed(piece));
        }
        let summary = reader.finish();
        Read { batches: reader.batches().collect(), summary }
    }

    impl Read {
        /// The rows of a table in the order they were made, each with these columns; null is `-`, a file its path.
        fn rows(&self, table: &Table, columns: &[&str]) -> Vec<String> {
            let of = |table: &Table| {
                let name = table.name;
                self.batches.iter().filter(move |batch| batch.table.name == name).map(|batch| &batch.rows)
            };
            let mut paths = HashMap::new();
            for files in of(&FILE) {
                let ids = files.column(1).as_primitive::<Int64Type>().values();
                paths.extend(ids.iter().copied().zip(files.column(2).as_string::<i32>().iter().flatten()));
            }
            let cell = |rows: &arrow_array::RecordBatch, column: &str, row: usize| {
                let values = rows.column_by_name(column).expect("a column");
                if values.is_null(row) {
                    return "-".to_owned();
                }
                if let Some(ints) = values.as_primitive_opt::<Int64Type>() {
                    let value = ints.value(row);
                    let is_file = column.starts_with("file");
                    return match paths.get(&value).filter(|_| is_file) {
                        Some(path) => (*path).to_owned(),
                        None => value.to_string(),
                    };
                }
                if let Some(texts) = values.as_string_opt::<i32>() {
                    return texts.value(row).to_owned();
                }
                let texts = values.as_dictionary::<Int32Type>();
                texts.values().as_string::<i32>().value(texts.keys().value(row) as usize).to_owned()
            };
            let row = |rows, row| columns.iter().map(|c| cell(rows, c, row)).collect::<Vec<_>>().join(" ");
            of(table)
                .flat_map(|rows| (0..rows.num_rows()).map(|at| row(rows, at)).collect::<Vec<_>>())
                .collect()
        }
    }

    #[test]
    fn a_number_closed_in_one_thread_is_free_before_the_close_is_done() {
        let got = read(
            "1 openat(AT_FDCWD, \"/old\", O_RDONLY) = 3\n\
             1 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2\n\
             1 close(3 <unfinished ...>\n\
             2 openat(AT_FDCWD, \"/new\", O_RDONLY) = 3\n\
             1 <... close resumed>)             = 0\n\
             2 read(3,  <unfinished ...>\n\
             1 close(4 <unfinished ...>\n\
             2 <... read resumed>\"\", 5) = 5\n",
        );
        assert_eq!(
            got.rows(&FILE_OP, &["call", "file", "fd", "length", "dur"]),
            [
                "open /old 3 - -",
                "open /new 3 - -",
                "close /old 3 - 2000",
                "read /new 3 5 2000",
                "close - 4 - -"
            ]
        );
        assert_eq!((got.summary.unfinished, got.summary.skipped.count), (1, 0));
    }

    #[test]
    fn a_child_seen_before_its_clone_returns_is_its_parents() {
        let got = read(
            "1 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n\
             1 openat(AT_FDCWD, \"/b\", O_RDONLY|O_CLOEXEC) = 4\n\
             1 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n\
             2 read(3, \"\", 100) = 100\n\
             1 <... clone resumed>, child_tidptr=0x7f) = 2\n\
             2 execve(\"/bin/cat\", [\"cat\", \"-\\\"\"], 0x7f /* 1 var */) = 0\n\
             2 read(4, \"\", 1) = -1 EBADF (Bad file descriptor)\n\
             1 read(3, \"\", 100) = 100\n\
             2 read(3, \"\", 1) = 1\n\
             2 +++ exited with 3 +++\n",
        );
        assert_eq!(
            got.rows(&FILE_OP, &["call", "file", "pos", "result", "errno"])[2..],
            ["read /a 0 100 0", "read - - -1 9", "read /a 100 100 0", "read /a 200 1 0"]
        );
        assert_eq!(
            got.rows(&PROCESS, &["pid", "name", "exe", "cmd", "ended", "status"]),
            ["1 pid 1 - - running -", "2 pid 2 - - exec -", "2 cat /bin/cat cat -\" exit 3"]
        );
    }

    #[test]
    fn descriptors_are_followed_through_dup_and_flags() {
        let got = read(
            "1 open(\"/a\", O_RDWR|O_APPEND) = 3\n\
             1 dup2(3, 9) = 9\n\
             1 fcntl(3, F_DUPFD_CLOEXEC, 10) = 10\n\
             1 fcntl(9, F_SETFD, FD_CLOEXEC) = 0\n\
             1 lseek(9, 0, SEEK_SET) = 0\n\
             1 read(10, \"\", 7) = 7\n\
             1 write(3, \"\", 5) = 5\n\
             1 read(9, \"\", 7) = 7\n\
             1 execve(\"/b\", [\"b\"], 0x7f) = 0\n\
             1 fsync(3) = 0\n\
             1 fsync(9) = 0\n\
             1 fsync(10) = 0\n\
             1 close_range(3, 4294967295, 0) = 0\n\
             1 fsync(3) = 0\n\
             1 dup2(8, 3) = 3\n",
        );
        assert_eq!(
            got.rows(&FILE_OP, &["call", "file", "fd", "pos"]),
            [
                "open /a 3 -",
                "dup /a 3 -",
                "dup /a 3 -",
                "lseek /a 9 -",
                "read /a 10 0",
                "write /a 3 -",
                "read /a 9 -",
                "fsync /a 3 -",
                "fsync - 9 -",
                "fsync - 10 -",
                "close_range - - -",
                "fsync - 3 -",
                "dup - 8 -"
            ]
        );
    }

    #[test]
    fn relative_paths_are_completed_where_their_directory_is_known() {
        let got = read(
            "1 mkdirat(AT_FDCWD, \"x\", 0777) = 0\n\
             1 chdir(\"/w\") = 0\n\
             1 open(\"d\", O_RDONLY|O_DIRECTORY) = 5\n\
             1 openat(5, \"../f\\74\\303\\244\", O_RDONLY) = 6\n\
             1 renameat2(5, \"a\", AT_FDCWD</z>, \"b\", 0) = 0\n\
             1 unlinkat(AT_FDCWD, \"b\", AT_REMOVEDIR) = 0\n\
             1 symlinkat(\"to\", 7</y>, \"l\") = 0\n\
             1 newfstatat(5, \"\", {}, AT_EMPTY_PATH) = 0\n\
             1 statx(5, NULL, 0, 0, 0x7f) = 0\n\
             1 fchdir(5) = 0\n\
             1 openat2(AT_FDCWD, \"g\", {flags=O_WRONLY|O_CREAT, mode=0644}, 24) = 8\n\
             1 rename(\"g\", \"h\") = 0\n\
             1 symlink(\"to\", \"m\") = 0\n",
        );
        assert_eq!(
            got.rows(&FILE_OP, &["call", "file", "file2", "fd", "flags"]),
            [
                "mkdir x - - -",
                "chdir /w - - -",
                "open /w/d - 5 65536",
                "open /w/f<ä - 6 0",
                "rename /w/d/a /z/b - -",
                "rmdir /z/b - - -",
                "symlink /y/l - - -",
                "fstat /w/d - 5 -",
                "stat /w/d - 5 -",
                "chdir /w/d - 5 -",
                "open /w/d/g - 8 65",
                "rename /w/d/g /w/d/h - -",
                "symlink /w/d/m - - -"
            ]
        );
    }

    #[test]
    fn names_strace_prints_win() {
        let got = read(
            "1 read(3</a>, \"\", 5) = 5\n\
             1 read(3</b (deleted)>, \"\", 5) = 5\n\
             1 read(0</dev/pts/0<char 136:0>>, \"\", 1) = 1\n\
             1 socketpair(AF_UNIX, SOCK_STREAM, 0, [4<UNIX-STREAM:[1->2]>, 5<UNIX-STREAM:[2->1]>]) = 0\n\
             1 write(5<UNIX-STREAM:[2->1]>, \"\", 5) = 5\n\
             1 sendto(4, \"a, b\"..., 50, 0, NULL, 0) = 50\n\
             1 accept4(6, NULL, NULL, SOCK_CLOEXEC) = 7<TCP:[1->2]>\n\
             1 write(7, \"\", 9) = -1 EAGAIN (Resource temporarily unavailable)\n",
        );
        assert_eq!(got.rows(&FILE_OP, &["call", "file", "pos"]), ["read /a -", "read /b (deleted) -"]);
        assert_eq!(
            got.rows(&SYNC_OP, &["call", "kind", "fd", "length", "result", "errno"]),
            [
                "read terminal 0 1 1 0",
                "write socket 5 5 5 0",
                "send socket 4 50 50 0",
                "accept socket 6 - 7 0",
                "write socket 7 9 -1 11"
            ]
        );
    }

    #[test]
    fn bytes_moved_between_descriptors() {
        let got = read(
            "1 open(\"/a\", O_RDONLY) = 3\n\
             1 open(\"/b\", O_WRONLY) = 4\n\
             1 sendfile(4, 3, NULL, 100) = 60\n\
             1 copy_file_range(3, NULL, 4, NULL, 1000, 0) = 40\n\
             1 pwritev2(4, [{iov_base=\"iov\", iov_len=5}, {iov_base=\"\", iov_len=6}], 2, 77, RWF_DSYNC) = 11\n\
             1 fallocate(4, FALLOC_FL_KEEP_SIZE, 10, 20) = -1 EOPNOTSUPP (Operation not supported)\n\
             1 read(3, \"\", 18446744073709551615) = -1 EFAULT (Bad address)\n",
        );
        assert_eq!(
            got.rows(&FILE_OP, &["call", "file", "file2", "pos", "length", "result", "errno"])[2..],
            [
                "sendfile /a /b 0 100 60 0",
                "copy_file_range /a /b 60 1000 40 0",
                "pwritev /b - 77 11 11 0",
                "fallocate /b - 10 20 -1 95",
                "read /a - 100 - -1 14"
            ]
        );
    }

    #[test]
    fn what_is_not_understood_is_counted_and_the_first_kept() {
        let text =
            "1 close(3) = 0\nwhat is this\n1 read(3) = 0\n1 close(x) = 0\n\n2 nonsense\n1 write(1, \"cut o";
        let got = read(text);
        assert_eq!((got.summary.lines, got.summary.skipped.count), (7, 5));
        let first: Vec<_> = got.summary.skipped.first.iter().map(|l| (l.line, &*l.text, l.cut)).collect();
        assert_eq!(
            first,
            [(2, "what is this", false), (3, "1 read(3) = 0", false), (4, "1 close(x) = 0", false)]
        );
        assert_eq!(got.rows(&THREAD, &["tid"]), ["1"]);
        let mut strict = Reader::new("trace", true);
        strict.begin(0);
        strict.feed(text.as_bytes());
        strict.end();
        assert!(strict.stopped());
        assert_eq!(strict.finish().lines, 2);
    }

    #[test]
    fn several_files_are_several_processes() {
        let mut reader = Reader::new("trace", false);
        for (pid, text) in [(7, "close(3) = 0\n"), (8, "close(4) = 0")] {
            reader.begin(pid);
            reader.feed(text.as_bytes());
        }
        let summary = reader.finish();
        let got = Read { batches: reader.batches().collect(), summary };
        assert_eq!(got.rows(&THREAD, &["pid", "tid"]), ["7 7", "8 8"]);
        assert_eq!(got.summary.sources.len(), 2);
    }

    /// strace -f 2>file: a pid only while several threads are traced, and the program's own output within lines.
    #[test]
    fn standard_error_of_strace_and_of_the_program() {
        let got = read(
            "openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n\
             write(2, \"err\\n\", 4err\n\
             )                    = 4\n\
             write(2, \"12\\nx, \\\"y\\\", 2\\n\", 1212\n\
             x, \"y\", 2\n\
             ) = 12\n\
             clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLDstrace: Process 8 attached\n\
             , child_tidptr=0x7f) = 8\n\
             [pid     7] read(3,  <unfinished ...>\n\
             [pid     8] write(2, \"c\\n\", 2c\n \
             <unfinished ...>\n\
             [pid     7] <... read resumed>\"x\", 100) = 1\n\
             [pid     8] <... write resumed>)        = 2\n\
             [pid     8] +++ exited with 0 +++\n\
             fsync(3) = 0\n\
             noise\n\
             +++ exited with 0 +++\n",
        );
        assert_eq!(got.rows(&THREAD, &["pid", "tid"]), ["7 7", "8 8"]);
        assert_eq!(got.rows(&PROCESS, &["pid", "ended"]), ["7 exit", "8 exit"]);
        assert_eq!(
            got.rows(&FILE_OP, &["call", "file", "fd", "length", "result", "trace_row"]),
            [
                "open /a 3 - 3 0",
                "write - 2 4 4 1",
                "write - 2 - 12 3",
                "read /a 3 100 1 8",
                "write - 2 2 2 9",
                "fsync /a 3 - 0 14"
            ]
        );
        let first: Vec<_> = got.summary.skipped.first.iter().map(|line| &*line.text).collect();
        assert_eq!((got.summary.skipped.count, first), (1, vec!["noise"]));
    }

    /// A quiet strace (-q) says nothing of threads it attaches to.
    #[test]
    fn the_first_thread_is_told_by_what_it_was_in() {
        let got = read(
            "clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n\
             [pid 7] <... clone resumed>) = 8\n\
             [pid 8] close(5) = 0\n\
             [pid 7] close(4) = 0\n\
             close(6) = 0\n",
        );
        assert_eq!(got.rows(&THREAD, &["pid", "tid"]), ["7 7", "8 8"]);
        assert_eq!(got.summary.skipped.count, 0);
    }

    #[test]
    fn commands_numbers_and_stacks() {
        let got = read(
            "7<a b> 12:00:00 [ 257] openat(AT_FDCWD, \"/a\", O_RDONLY) = 3</a> <0.000012>\n \
             > /usr/lib/libc.so.6(__open64+0x51) [0xf8011]\n \
             > /usr/bin/cat() [0x2752]\n\
             7<a b> 12:00:01 [  61] wait4(-1, NULL, 0, NULL) = 8<cat> <0.5>\n\
             7<a b> 12:00:01 [   3] close(3</a>) = 0\n\
             7<a b> 12:00:02 [ 231] +++ exited with 0 +++\n",
        );
        assert_eq!(got.rows(&FILE_OP, &["call", "dur"]), ["open 12000", "close -"]);
        assert_eq!(got.rows(&SYNC_OP, &["call", "peer", "dur"]), ["wait 8 500000000"]);
        assert_eq!(got.summary.skipped.count, 0);
    }

    proptest! {
        /// Where pieces end makes no difference.
        #[test]
        fn pieces_end_anywhere(size in 1_usize..90, lines in prop::collection::vec(0_usize..6, 0..40), cut in 0_usize..40) {
            let known = [
                "1 1700000000.000001 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3 <0.000010>\n",
                "1 1700000000.000002 read(3, \"ab) = 7\"..., 100) = 9 <0.000003>\n",
                "2 1700000000.000003 read(0,  <unfinished ...>\n",
                "2 1700000000.000004 <... read resumed>\"x\", 1) = 1 <0.000002>\n",
                "\n",
                "noise\n",
            ];
            let text: String = lines.iter().map(|line| known[*line]).collect();
            let text = &text.as_bytes()[..text.len().saturating_sub(cut)];
            let (whole, pieces) = (read_pieces(&[text], text.len().max(1)), read_pieces(&[text], size));
            let columns: Vec<_> = FILE_OP.columns.iter().map(|column| column.name).collect();
            prop_assert_eq!(whole.rows(&FILE_OP, &columns), pieces.rows(&FILE_OP, &columns));
            prop_assert_eq!(format!("{:?}", whole.summary), format!("{:?}", pieces.summary));
        }
    }
}
