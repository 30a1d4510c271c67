//! Records of requests: from slots to the tables they belong to (see `iotrail_format::record`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray, new_null_array,
};
use arrow_schema::{DataType, Field, Schema};
use iotrail_format::record::{
    COMMON, Declaration, FIRST_DECLARED, FIRST_TYPE, MAX_TYPES, TYPES, WORDS, Wire,
};
use iotrail_format::schema::{CPU_SLICE, ColumnType, Table};
use iotrail_format::segment::NONE;

use super::slot::Fields;
use super::{BAD_RECORD, Rows, Sink, Small};
use crate::arrays::{Nullable, ints, lossy, named, repeated};
use crate::columns::arrow_type;
use crate::declared::of_declaration;
use crate::error::{ArrowContext as _, Error};
use crate::seal::clock::Clock;
use crate::seal::view::Unit;

/// Bytes of symbols that a process may announce: as many as the SDK keeps. A program that writes over its rings can
/// announce without end.
const MOST_SYMBOL_BYTES: usize = 64 << 20;
/// Record types of one recording: each is a table for as long as the recorder runs.
const MOST_TYPES: usize = 4096;
/// By how many ticks a time in a record may lie after the last pair of the clock.
const FUTURE_TICKS: u64 = 1 << 32;

/// A record type: where its rows go, and where each column stands.
pub(super) struct RecordType {
    table: &'static Table,
    wires: Vec<Wire>,
}

/// What a process announced, by number.
#[derive(Default)]
pub(super) struct Announced {
    pub(super) symbols: BTreeMap<u32, String>,
    symbol_bytes: usize,
    pub(super) types: BTreeMap<u16, (String, Option<Arc<RecordType>>)>,
}

/// One record of a journal.
struct Place {
    process: i64,
    thread: i64,
    /// Its first slot.
    at: u32,
}

/// A stretch of time for a breadcrumb on a thread.
pub(super) struct Slice {
    pub(super) thread: i64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) crumb: i64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Its time on a CPU, if that is known.
    pub(super) cpu_ns: Option<i64>,
    /// Whether the rest of the stretch is nobody's: the row is as long as its time on a CPU, at the stretch's end.
    pub(super) only_cpu: bool,
}

/// The records of a journal.
#[derive(Default)]
pub(super) struct Gathered {
    known: Vec<Vec<Place>>,
    declared: BTreeMap<&'static str, (Arc<RecordType>, Vec<Place>)>,
    pub(super) slices: Vec<Slice>,
    /// What the kernel saw.
    pub(super) kernel: Vec<Unit>,
    /// Breadcrumb of each call, by unit; empty if none has one.
    pub(super) crumbs: Vec<i64>,
    pub(super) times: Times,
}

/// What the times of calls are.
#[derive(Clone, Copy, Default)]
pub(super) enum Times {
    /// Counter ticks: a recorder's in the program.
    #[default]
    Ticks,
    /// CLOCK_MONOTONIC: the kernel's.
    Monotonic,
}

impl Times {
    /// `ts` of a call's time; `piece` as of [`Clock::ts`].
    pub(super) fn ts(self, clock: &Clock, time: u64, piece: &mut usize) -> i64 {
        match self {
            Self::Ticks => clock.ts(time, piece),
            Self::Monotonic => clock.ts_of_mono(time),
        }
    }
}

impl Gathered {
    /// Nothing yet, of calls with such times.
    pub(super) fn of(times: Times) -> Self {
        Self { times, ..Self::default() }
    }

    /// Says that the call at a unit, of so many, was for a breadcrumb.
    pub(super) fn call(&mut self, units: usize, at: u32, crumb: i64) {
        if crumb != 0 {
            self.crumbs.resize(units, 0);
            self.crumbs[at as usize] = crumb;
        }
    }

    /// The breadcrumb of the call at a unit.
    pub(super) fn crumb(&self, at: u32) -> i64 {
        self.crumbs.get(at as usize).copied().unwrap_or(0)
    }
}

impl Announced {
    /// Keeps a symbol; false if there is no room for more.
    pub(super) fn name(&mut self, number: u32, text: String) -> bool {
        // Each costs its place, too.
        let bytes = text.len() + 64;
        if self.symbol_bytes + bytes > MOST_SYMBOL_BYTES + MOST_SYMBOL_BYTES / 2 {
            return false;
        }
        self.symbol_bytes += bytes;
        self.symbols.insert(number, text);
        true
    }

    /// A type's description, as the process announced it. `types` are those of the whole recording: the first
    /// description of a name holds.
    pub(super) fn declare(
        &mut self,
        number: u64,
        text: &[u8],
        types: &mut HashMap<String, (String, Arc<RecordType>)>,
    ) -> Result<(), &'static str> {
        let text = lossy(text);
        let Ok(number) = u16::try_from(number) else { return Err("bad_type") };
        let Ok(declaration) = Declaration::parse(&text) else { return Err("bad_type") };
        let is_room = types.len() < MOST_TYPES || types.contains_key(declaration.name);
        if usize::from(number) >= MAX_TYPES || !is_room {
            return Err("bad_type");
        }
        let known = types.entry(declaration.name.to_owned()).or_insert_with(|| {
            let kind = RecordType { table: of_declaration(&declaration), wires: declaration.wires() };
            (text.clone(), Arc::new(kind))
        });
        let same = known.0 == text;
        let kind = same.then(|| known.1.clone());
        self.types.insert(number, (text, kind));
        if same { Ok(()) } else { Err("redeclared_type") }
    }
}

impl Rows {
    /// Notes a record at unit `at`; `slots` begin with it. Returns how many further slots it has.
    pub(super) fn record(
        &mut self,
        (process, thread): (i64, i64),
        at: u32,
        slots: &[Unit],
        gathered: &mut Gathered,
        small: &mut Small,
    ) -> usize {
        let slot = Fields(&slots[0]);
        let number = slot.opcode() - FIRST_TYPE;
        let extra = slot.errno() as usize;
        if extra >= slots.len() {
            small.add("bad_type", process, 0, 1);
            return slots.len() - 1;
        }
        let place = Place { process, thread, at };
        if usize::from(number) < TYPES.len() {
            if gathered.known.is_empty() {
                gathered.known.resize_with(TYPES.len(), Vec::new);
            }
            gathered.known[usize::from(number)].push(place);
            self.totals.records += 1;
            return extra;
        }
        let types = self.processes.get(&process).map(|process| &process.announced.types);
        match types.and_then(|types| types.get(&number)) {
            Some((_, Some(kind))) if usize::from(number) >= FIRST_DECLARED => {
                let entry = gathered.declared.entry(kind.table.name);
                entry.or_insert_with(|| (kind.clone(), Vec::new())).1.push(place);
                self.totals.records += 1;
            }
            Some((_, None)) => small.add("redeclared_type", process, 0, 1),
            _ => small.add("bad_type", process, 0, 1),
        }
        extra
    }

    pub(super) fn write_records(
        &mut self,
        units: &[Unit],
        gathered: Gathered,
        small: &mut Small,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        for (kind, places) in TYPES.iter().zip(gathered.known) {
            self.write_type(units, kind.table, kind.wires, places, small, sink)?;
        }
        for (kind, places) in gathered.declared.into_values() {
            self.write_type(units, kind.table, &kind.wires, places, small, sink)?;
        }
        self.write_slices(gathered.slices, sink)
    }

    fn write_type(
        &mut self,
        units: &[Unit],
        table: &'static Table,
        wires: &[Wire],
        mut places: Vec<Place>,
        small: &mut Small,
        sink: Sink<'_>,
    ) -> Result<(), Error> {
        let own = &table.columns[COMMON.len()..];
        let required: Vec<Wire> =
            own.iter().zip(wires).filter(|(column, _)| !column.nullable).map(|(_, wire)| *wire).collect();
        places.retain(|place| {
            let is_whole = required.iter().all(|wire| has_value(units, place, *wire));
            if !is_whole {
                small.add(BAD_RECORD, place.process, 0, 1);
                self.totals.records -= 1;
            }
            is_whole
        });
        if places.is_empty() {
            return Ok(());
        }
        let (mut piece, mut end_piece) = (0, 0);
        let times: Vec<(i64, i64)> = places
            .iter()
            .map(|place| {
                let slot = Fields(&units[place.at as usize]);
                (self.clock.ts(slot.start(), &mut piece), self.clock.ts(slot.end(), &mut end_piece))
            })
            .collect();
        let mut order: Vec<(i64, i64, u32)> = (0..places.len() as u32)
            .map(|at| (Fields(&units[places[at as usize].at as usize]).object(), times[at as usize].0, at))
            .collect();
        order.sort_unstable();
        let rows = order.len();
        let place = |at: u32| &places[at as usize];
        let slot = |at: u32| Fields(&units[places[at as usize].at as usize]);

        let mut dur = Nullable::new(rows);
        for (_, ts, at) in &order {
            dur.push(times[*at as usize].1 - ts, slot(*at).finished());
        }
        let mut columns: Vec<ArrayRef> = vec![
            ints(order.iter().map(|(_, ts, _)| *ts).collect()),
            dur.finish(),
            repeated(&self.node, rows),
            ints(order.iter().map(|(.., at)| place(*at).thread).collect()),
            ints(order.iter().map(|(crumb, ..)| *crumb).collect()),
        ];
        let latest =
            self.clock.pairs().last().map_or(u64::MAX, |pair| pair.ticks.saturating_add(FUTURE_TICKS));
        for (column, wire) in own.iter().zip(wires) {
            let word = |at: u32, number: u8| word(units, place(at), number);
            let small = |at: u32| slot(at).fd() as u32;
            let order = order.iter().map(|(.., at)| *at);
            columns.push(match *wire {
                Wire::Kind(names) => {
                    let known = names.len() as i32 - 1;
                    let keys = order.map(|at| i32::from(slot(at).kind()).min(known)).collect();
                    named(keys, StringArray::from(names.to_vec()))
                }
                Wire::Name(half) => {
                    let number = |at| small(at) >> (16 * u32::from(half)) & 0xffff;
                    self.texts(column.nullable, order.map(|at| (place(at).process, number(at))))
                }
                Wire::Small => self.texts(column.nullable, order.map(|at| (place(at).process, small(at)))),
                Wire::Text(at_word) | Wire::LowText(at_word) => {
                    // NONE has no low half.
                    self.texts(column.nullable, order.map(|at| (place(at).process, word(at, at_word) as u32)))
                }
                Wire::Word(number) => numbers(order.map(|at| Some(word(at, number)).filter(|v| *v != NONE))),
                Wire::High(number) => numbers(order.map(|at| {
                    Some(i64::from((word(at, number) >> 32) as i32)).filter(|v| *v != i64::from(i32::MIN))
                })),
                Wire::Real(number) => {
                    let real =
                        |at| Some(word(at, number)).filter(|v| *v != NONE).map(|v| f64::from_bits(v as u64));
                    Arc::new(order.map(real).collect::<Float64Array>())
                }
                Wire::Ticks(number) => {
                    let mut piece = 0;
                    numbers(order.map(|at| {
                        let ticks = Some(word(at, number)).filter(|v| *v != NONE).map(|ticks| ticks as u64);
                        let ticks = ticks.filter(|ticks| *ticks <= latest);
                        ticks.map(|ticks| self.clock.ts(ticks, &mut piece))
                    }))
                }
                Wire::Zero => ints(vec![0; rows]),
                Wire::Null => new_null_array(&arrow_type(column), rows),
            });
        }
        sink(table, together(table, columns)?)
    }

    fn write_slices(&self, mut slices: Vec<Slice>, sink: Sink<'_>) -> Result<(), Error> {
        if slices.is_empty() {
            return Ok(());
        }
        slices.sort_unstable_by_key(|slice| (slice.thread, slice.start));
        let rows = slices.len();
        let (mut piece, mut end_piece) = (0, 0);
        let (mut ts, mut dur, mut cpu_ns) = (vec![0; rows], vec![0; rows], vec![None; rows]);
        for (at, slice) in slices.iter().enumerate() {
            let (start, end) =
                (self.clock.ts(slice.start, &mut piece), self.clock.ts(slice.end, &mut end_piece));
            // Two clocks: one may say a little more than the other.
            cpu_ns[at] = slice.cpu_ns.map(|cpu_ns| cpu_ns.clamp(0, end - start));
            dur[at] = cpu_ns[at].filter(|_| slice.only_cpu).unwrap_or(end - start);
            ts[at] = end - dur[at];
        }
        let columns: Vec<ArrayRef> = vec![
            ints(ts),
            ints(dur),
            repeated(&self.node, rows),
            ints(slices.iter().map(|slice| slice.thread).collect()),
            ints(slices.iter().map(|slice| slice.crumb).collect()),
            repeated("user", rows),
            numbers((0..rows).map(|_| None)),
            ints(slices.iter().map(|slice| i64::from(slice.pid)).collect()),
            ints(slices.iter().map(|slice| i64::from(slice.tid)).collect()),
            named_or_null((0..rows).map(|_| None), Vec::new()),
            numbers(cpu_ns.into_iter()),
        ];
        sink(&CPU_SLICE, together(&CPU_SLICE, columns)?)
    }

    /// Symbols as text: a dictionary of those that occur. What was never announced is null, or `?` where null
    /// may not be.
    fn texts(&self, nullable: bool, symbols: impl Iterator<Item = (i64, u32)>) -> ArrayRef {
        let mut keys: HashMap<(i64, u32), Option<i32>> = HashMap::new();
        let mut words: Vec<&str> = Vec::new();
        let mut last = ((0, 0), None);
        let symbols: Vec<Option<i32>> = symbols
            .map(|symbol| {
                if symbol == last.0 {
                    return last.1;
                }
                let key = *keys.entry(symbol).or_insert_with(|| {
                    let own = symbol.1 == 0 && !nullable;
                    let text = self.symbol(symbol.0, symbol.1).or(own.then_some(self.node.as_str()));
                    let text = text.or((!nullable).then_some("?"))?;
                    Some(words.iter().position(|word| *word == text).unwrap_or_else(|| {
                        words.push(text);
                        words.len() - 1
                    }) as i32)
                });
                last = (symbol, key);
                key
            })
            .collect();
        named_or_null(symbols.into_iter(), words)
    }

    fn symbol(&self, process: i64, number: u32) -> Option<&str> {
        let announced = match self.processes.get(&process) {
            Some(process) => &process.announced,
            None => self.gone.get(&process)?,
        };
        announced.symbols.get(&number).map(String::as_str)
    }
}

/// A word of a record, or [`NONE`] if the record has fewer.
fn word(units: &[Unit], place: &Place, number: u8) -> i64 {
    let (first, number) = (place.at as usize, usize::from(number));
    match number.checked_sub(WORDS.0) {
        None => units[first][4 + number] as i64,
        // A program may leave out the last columns.
        Some(more) if (more / WORDS.1) as i64 >= Fields(&units[first]).errno() => NONE,
        Some(more) => units[first + 1 + more / WORDS.1][1 + more % WORDS.1] as i64,
    }
}

/// Whether a record has a value for a column that may not be null.
fn has_value(units: &[Unit], place: &Place, wire: Wire) -> bool {
    match wire {
        Wire::Word(number) | Wire::Real(number) | Wire::Ticks(number) => word(units, place, number) != NONE,
        Wire::High(number) => (word(units, place, number) >> 32) as i32 != i32::MIN,
        Wire::Null => false,
        // A text that was never announced is `?`.
        Wire::Kind(_) | Wire::Name(_) | Wire::Small | Wire::Text(_) | Wire::LowText(_) | Wire::Zero => true,
    }
}

pub(super) fn numbers(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    let mut column = Nullable::new(values.size_hint().0);
    values.for_each(|value| column.push(value.unwrap_or(0), value.is_some()));
    column.finish()
}

pub(super) fn named_or_null(keys: impl Iterator<Item = Option<i32>>, words: Vec<&str>) -> ArrayRef {
    let keys: Int32Array = keys.collect();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(StringArray::from(words))))
}

/// The columns as a batch; its texts are dictionaries, which the writer lays out as the table wants.
pub(super) fn together(table: &'static Table, columns: Vec<ArrayRef>) -> Result<RecordBatch, Error> {
    let fields = table.columns.iter().map(|column| {
        let ty = match column.ty {
            ColumnType::BigInt => DataType::Int64,
            ColumnType::Double => DataType::Float64,
            ColumnType::Text => DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()),
        };
        Field::new(column.name, ty, column.nullable)
    });
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)
        .when("make rows of records")
}
