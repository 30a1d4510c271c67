//! Which names of a trail stand for which files, at each moment of it, and so what was there before it began.
//!
//! A trail says nothing about what a program left alone, and little about what was there: it is inferred from how
//! the first use of each name ended. A name that was found existed before; one that was looked up and missing, or that
//! was made, did not. A name that was opened with O_CREAT alone may have been either: it is taken for new until
//! something is read from it that the trail has not written, or appended after such. Files move with renames, of
//! directories too, so that what is read later under a new name has to exist under the first.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::plan::{NONE, Need};

/// What a name stands for at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    /// Nothing; `by_trail` if an operation of the trail removed it.
    Absent {
        by_trail: bool,
    },
    Is(u32),
}

/// Where a file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It was there before, under this name.
    Before(u32),
    /// It was opened with O_CREAT under this name, and may have been there.
    Perhaps(u32),
    /// An operation of the trail makes it.
    Made,
    /// Something that is not in the trail made it meanwhile.
    Unseen,
}

struct Name {
    parent: u32,
    children: Vec<u32>,
    state: State,
    /// Whether some call found directories all the way to a name below it.
    is_passed: bool,
}

/// A file or directory.
struct Entry {
    start: Start,
    kind: Need,
    /// Bytes it has to have at the start.
    needed: i64,
    /// Its size, or as much as is known of it.
    size: i64,
    /// Whether its size is known: the trail made or emptied it.
    is_size_known: bool,
    /// What the trail has written, as long as the size is unknown: start to end.
    covered: BTreeMap<i64, i64>,
}

/// A write as the file took it.
pub(crate) struct Growth {
    /// The first byte that was not there before it, or that it wrote.
    pub(crate) from: i64,
    /// Whether the file got longer, as far as is known.
    pub(crate) extends: bool,
    /// By how many bytes.
    pub(crate) by: u64,
}

/// All names of a trail.
#[derive(Default)]
pub(crate) struct Namespace {
    pub(crate) paths: Vec<String>,
    by_path: HashMap<String, u32>,
    names: Vec<Name>,
    files: Vec<Entry>,
}

impl Namespace {
    /// The number of a path; that of its directories too, from then on.
    pub(crate) fn name(&mut self, path: &str) -> u32 {
        if let Some(known) = self.by_path.get(path) {
            return *known;
        }
        let parent = Path::new(path)
            .parent()
            .and_then(Path::to_str)
            .filter(|parent| parent.len() > 1)
            .map_or(NONE, |parent| self.name(parent));
        let number = self.add(path, parent);
        self.by_path.insert(path.to_owned(), number);
        number
    }

    /// A device of one of several machines, which name theirs alike.
    pub(crate) fn device(&mut self, path: &str) -> u32 {
        self.add(path, NONE)
    }

    fn add(&mut self, path: &str, parent: u32) -> u32 {
        let number = self.names.len() as u32;
        self.paths.push(path.to_owned());
        self.names.push(Name { parent, children: Vec::new(), state: State::Unknown, is_passed: false });
        if parent != NONE {
            self.names[parent as usize].children.push(number);
        }
        number
    }

    /// The directories on the way to a name, nearest first.
    pub(crate) fn directories(&self, name: u32) -> impl Iterator<Item = u32> + '_ {
        let above =
            move |name: &u32| Some(self.names[*name as usize].parent).filter(|parent| *parent != NONE);
        std::iter::successors(above(&name), above)
    }

    /// The file that a name stands for now, if that is known.
    pub(crate) fn file(&self, name: u32) -> Option<u32> {
        match self.names[name as usize].state {
            State::Is(file) => Some(file),
            State::Unknown | State::Absent { .. } => None,
        }
    }

    fn new_file(&mut self, start: Start, kind: Need) -> u32 {
        let is_size_known = !matches!(start, Start::Before(_) | Start::Unseen);
        let covered = BTreeMap::new();
        self.files.push(Entry { start, kind, needed: 0, size: 0, is_size_known, covered });
        self.files.len() as u32 - 1
    }

    /// Notes that a name was found, as a file of this kind.
    pub(crate) fn found(&mut self, name: u32, kind: Need) -> u32 {
        self.found_directories(name);
        let this = &self.names[name as usize];
        let kind = if this.is_passed { Need::Directory } else { kind };
        let start = match this.state {
            State::Is(file) => {
                let known = &mut self.files[file as usize].kind;
                match (&*known, kind) {
                    (Need::File(_), kind @ Need::Directory) => *known = kind,
                    (Need::Link(_), kind @ (Need::Directory | Need::File(_))) => *known = kind,
                    _ => {}
                }
                return file;
            }
            State::Absent { by_trail: true } => Start::Unseen,
            State::Unknown | State::Absent { by_trail: false } => self.origin(name),
        };
        let file = self.new_file(start, kind);
        self.names[name as usize].state = State::Is(file);
        file
    }

    /// Where something comes from that is found under a name no operation has made.
    fn origin(&mut self, name: u32) -> Start {
        let parent = self.names[name as usize].parent;
        if parent == NONE {
            return Start::Before(name);
        }
        match self.file(parent).map(|file| self.files[file as usize].start) {
            Some(Start::Before(directory)) if directory != parent => {
                let last = Path::new(&self.paths[name as usize]).file_name().and_then(|last| last.to_str());
                let path = format!("{}/{}", self.paths[directory as usize], last.unwrap_or_default());
                let under = self.name(&path);
                Start::Before(under)
            }
            Some(Start::Made | Start::Unseen) => Start::Unseen,
            _ => Start::Before(name),
        }
    }

    /// Notes that the directories on the way to a name are there.
    fn found_directories(&mut self, name: u32) {
        let parent = self.names[name as usize].parent;
        if parent != NONE && !self.is_directory(parent) {
            self.found(parent, Need::Directory);
        }
    }

    fn is_directory(&self, name: u32) -> bool {
        self.file(name).is_some_and(|file| self.files[file as usize].kind == Need::Directory)
    }

    /// Notes that a name was looked up and missing. What lies on the way to it is a directory if it is there. `removes`
    /// says that the call would have removed it: if it is found later it was not there before all the same.
    pub(crate) fn missing(&mut self, name: u32, removes: bool) {
        let mut above = self.names[name as usize].parent;
        while above != NONE {
            self.names[above as usize].is_passed = true;
            if let Some(file) = self.file(above) {
                let kind = &mut self.files[file as usize].kind;
                if *kind != Need::Directory {
                    *kind = Need::Directory;
                }
            }
            above = self.names[above as usize].parent;
        }
        let state = &mut self.names[name as usize].state;
        if *state == State::Unknown {
            *state = State::Absent { by_trail: removes };
        }
    }

    /// Notes that an operation made a name that was not there.
    pub(crate) fn made(&mut self, name: u32, kind: Need) -> u32 {
        self.found_directories(name);
        let file = self.new_file(Start::Made, kind);
        self.names[name as usize].state = State::Is(file);
        file
    }

    /// A file that never has a name.
    pub(crate) fn nameless(&mut self) -> u32 {
        self.new_file(Start::Made, Need::File(0))
    }

    /// Notes an open with O_CREAT; whether it may have made the file.
    pub(crate) fn opened_or_made(&mut self, name: u32, empties: bool) -> (u32, bool) {
        match self.names[name as usize].state {
            State::Is(file) => (file, false),
            State::Unknown if !empties => {
                self.found_directories(name);
                let file = self.new_file(Start::Perhaps(name), Need::File(0));
                self.names[name as usize].state = State::Is(file);
                (file, true)
            }
            State::Unknown | State::Absent { .. } => (self.made(name, Need::File(0)), true),
        }
    }

    /// Notes that a name is no more.
    pub(crate) fn removed(&mut self, name: u32, kind: Need) {
        self.found(name, kind);
        self.names[name as usize].state = State::Absent { by_trail: true };
    }

    /// Notes that a file, with what lies in it if it is a directory, has another name.
    pub(crate) fn renamed(&mut self, from: u32, to: u32) {
        self.found(from, Need::File(0));
        self.found_directories(to);
        self.carry(from, to);
    }

    fn carry(&mut self, from: u32, to: u32) {
        let state = self.names[from as usize].state;
        self.names[to as usize].state = state;
        self.names[from as usize].state = State::Absent { by_trail: true };
        if from == to {
            self.names[from as usize].state = state;
            return;
        }
        for child in self.names[from as usize].children.clone() {
            let State::Is(_) = self.names[child as usize].state else { continue };
            let last = self.paths[child as usize].rsplit('/').next().unwrap_or_default();
            let path = format!("{}/{last}", self.paths[to as usize]);
            let into = self.name(&path);
            self.carry(child, into);
        }
    }

    /// Notes that a file has a second name.
    pub(crate) fn linked(&mut self, from: u32, to: u32) {
        let file = self.found(from, Need::File(0));
        self.found_directories(to);
        self.names[to as usize].state = State::Is(file);
    }

    /// Notes that bytes were read.
    pub(crate) fn read(&mut self, file: u32, from: i64, to: i64) {
        let this = &mut self.files[file as usize];
        match this.start {
            Start::Perhaps(name) if to > this.size => {
                // It was there: nothing in the trail wrote that.
                this.start = Start::Before(name);
                this.is_size_known = false;
                this.needed = this.needed.max(to);
                this.size = this.size.max(to);
            }
            Start::Before(_) if !this.is_size_known => {
                if let Some(missing) = last_uncovered(&this.covered, from, to) {
                    this.needed = this.needed.max(missing);
                    this.size = this.size.max(missing);
                }
            }
            _ => {}
        }
    }

    /// Notes that bytes were written, `appends` if at the end whatever that was.
    pub(crate) fn written(&mut self, file: u32, from: i64, to: i64, appends: bool) -> Growth {
        let this = &mut self.files[file as usize];
        if appends && from > this.size {
            // The end was there, so it was not the trail that put it there.
            if let Start::Perhaps(name) = this.start {
                this.start = Start::Before(name);
                this.is_size_known = false;
            }
            if let (Start::Before(_), false) = (this.start, this.is_size_known) {
                this.needed = this.needed.max(from);
                this.size = this.size.max(from);
            }
        }
        let size = this.size;
        if !this.is_size_known {
            cover(&mut this.covered, from, to);
        }
        this.size = size.max(to);
        Growth {
            // what lies between the old end and the write is there with it
            from: if this.is_size_known { from.min(size) } else { from },
            extends: to > size,
            by: (to - size.max(from)).max(0) as u64,
        }
    }

    /// Notes that a file got this size.
    pub(crate) fn resized(&mut self, file: u32, size: i64) {
        let this = &mut self.files[file as usize];
        this.size = size;
        this.is_size_known = true;
        this.covered = BTreeMap::new();
    }

    /// What has to be there at the start, with all directories on the way.
    pub(crate) fn needs(&self) -> BTreeMap<u32, Need> {
        let mut needs = BTreeMap::new();
        for file in &self.files {
            let Start::Before(name) = file.start else { continue };
            let need = match file.kind {
                Need::File(_) => Need::File(file.needed.max(0) as u64),
                Need::Directory => Need::Directory,
                Need::Link(length) => Need::Link(length),
            };
            needs.insert(name, need);
        }
        // Under a name that was found a directory was found; of devices and of names after a rename there may be none.
        let above: Vec<u32> = needs.keys().flat_map(|name| self.directories(*name)).collect();
        for name in above {
            needs.insert(name, Need::Directory);
        }
        needs
    }
}

/// The end of the last part of a range that was not covered.
fn last_uncovered(covered: &BTreeMap<i64, i64>, from: i64, to: i64) -> Option<i64> {
    let mut end = to;
    while end > from {
        match covered.range(..end).next_back() {
            Some((start, until)) if *until >= end => end = *start,
            _ => return Some(end),
        }
    }
    None
}

/// Adds a range, joined with what touches it.
fn cover(covered: &mut BTreeMap<i64, i64>, from: i64, to: i64) {
    let (mut from, mut to) = (from, to);
    while let Some((start, until)) = covered.range(..=to).next_back().map(|(a, b)| (*a, *b)) {
        if until < from {
            break;
        }
        covered.remove(&start);
        from = from.min(start);
        to = to.max(until);
    }
    covered.insert(from, to);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(names: &Namespace) -> Vec<(&str, Need)> {
        names.needs().into_iter().map(|(name, need)| (names.paths[name as usize].as_str(), need)).collect()
    }

    #[test]
    fn what_is_looked_up_and_missing_or_made_was_not_there() {
        let mut names = Namespace::default();
        let [missing, made, kept] = ["/d/missing", "/d/made", "/d/kept"].map(|path| names.name(path));
        names.missing(missing, false);
        let (file, may_make) = names.opened_or_made(missing, false);
        assert!(may_make && !names.opened_or_made(missing, false).1);
        names.written(file, 0, 100, false);
        names.read(file, 0, 100);
        names.found(missing, Need::File(0));
        names.made(made, Need::File(0));
        names.removed(made, Need::File(0));
        names.removed(kept, Need::File(0));
        assert_eq!(needed(&names), [("/d", Need::Directory), ("/d/kept", Need::File(0))]);
    }

    #[test]
    fn what_was_opened_with_o_creat_was_there_if_it_held_something() {
        let mut names = Namespace::default();
        let [new, old, log] = ["/new", "/old", "/log"].map(|path| names.name(path));
        let (file, _) = names.opened_or_made(new, false);
        names.written(file, 8192, 12288, false);
        names.read(file, 0, 4096);
        let (file, _) = names.opened_or_made(old, false);
        names.read(file, 0, 10);
        let (file, _) = names.opened_or_made(log, false);
        assert!(names.written(file, 700, 710, true).extends);
        assert_eq!(needed(&names), [("/old", Need::File(10)), ("/log", Need::File(700))]);
    }

    #[test]
    fn a_file_needs_what_was_read_and_not_written_before() {
        let mut names = Namespace::default();
        let name = names.name("/data");
        let file = names.found(name, Need::File(0));
        names.written(file, 1 << 20, (1 << 20) + 4096, false);
        names.read(file, 1 << 20, (1 << 20) + 4096);
        assert_eq!(needed(&names), [("/data", Need::File(0))]);
        names.read(file, 4096, 8192);
        assert_eq!(needed(&names), [("/data", Need::File(8192))]);
        names.read(file, (1 << 20) - 100, (1 << 20) + 4096);
        assert_eq!(needed(&names), [("/data", Need::File(1 << 20))]);
        // emptied: what is read from now on was written by the trail
        names.resized(file, 0);
        let growth = names.written(file, 4096, 8192, false);
        assert_eq!((growth.from, growth.extends, growth.by), (0, true, 4096));
        names.read(file, 0, 8192);
        assert_eq!(needed(&names), [("/data", Need::File(1 << 20))]);
    }

    #[test]
    fn files_move_with_their_directory() {
        let mut names = Namespace::default();
        let [from, inside, to, after, unseen] =
            ["/a", "/a/x", "/b", "/b/x", "/b/y"].map(|path| names.name(path));
        let file = names.found(inside, Need::File(0));
        names.renamed(from, to);
        assert_eq!(names.file(after), Some(file));
        let other = names.found(unseen, Need::File(0));
        names.read(other, 0, 5);
        names.read(file, 0, 9);
        assert_eq!(
            needed(&names),
            [("/a", Need::Directory), ("/a/x", Need::File(9)), ("/a/y", Need::File(5))]
        );
    }

    #[test]
    fn what_could_not_be_removed_was_not_there() {
        let mut names = Namespace::default();
        let [socket, polled] = ["/socket", "/polled"].map(|path| names.name(path));
        names.missing(socket, true);
        names.missing(polled, false);
        // made by something the trail does not hold; who polls for a file is served, since it reads it
        names.found(socket, Need::File(0));
        let file = names.found(polled, Need::File(0));
        names.read(file, 0, 3);
        assert_eq!(needed(&names), [("/polled", Need::File(3))]);
    }

    #[test]
    fn a_name_below_one_that_was_missing_tells_that_it_is_a_directory() {
        let mut names = Namespace::default();
        let [folder, below] = ["/folder", "/folder/none"].map(|path| names.name(path));
        names.missing(below, false);
        names.found(folder, Need::File(0));
        assert_eq!(needed(&names), [("/folder", Need::Directory)]);
    }
}
