//! `iotrail types`: the record types a running program posts, each switched on or off from outside.
//!
//! The switches are bytes in the program's segment, which it looks at before each record.

use std::fs::{File, Metadata};
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use iotrail_format::record::{CPU, FIRST_DECLARED, MAX_TYPES, TYPES};
use iotrail_format::schema::CPU_SLICE;
use iotrail_format::segment::{
    SEGMENT_MAGIC, SEGMENT_PREFIX, SEGMENT_SPAN, SEGMENT_VERSION, SegmentHeader, TYPES_START, TypeEntry,
};
use iotrail_trail::seal::plain::{Access, is_of_process, open_plain};
use iotrail_trail::seal::session::session_dirs;
use serde_json::json;

use crate::failure::Failure;

/// Arguments of `types`.
#[derive(clap::Args)]
pub struct Args {
    /// The program
    #[arg(value_name = "PID")]
    pid: u32,
    /// Post these types from now on (several: comma between, or `all`)
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    on: Vec<String>,
    /// Stop posting these types
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    off: Vec<String>,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

/// Switches types, and prints them all as they are then.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let segments = segments(args.pid)?;
    let mut types = types(&segments)?;
    for (names, off) in [(&args.on, false), (&args.off, true)] {
        for name in names {
            if name != "all" && !types.iter().any(|kind| kind.name == *name) {
                let known: Vec<_> = types.iter().map(|kind| kind.name.as_str()).collect();
                return Err(Failure::new(format!("process {} has no record type {name:?}", args.pid))
                    .hint(format!("it has {}", known.join(", "))));
            }
            for kind in types.iter_mut().filter(|kind| name == "all" || kind.name == *name) {
                kind.switch(&segments, off)?;
            }
        }
    }
    if args.json {
        let list: Vec<_> = types.iter().map(|kind| json!({"type": kind.name, "on": !kind.off})).collect();
        println!("{}", json!({"pid": args.pid, "types": list}));
    } else {
        for kind in &types {
            println!("{:<3}  {}", if kind.off { "off" } else { "on" }, kind.name);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A type of a program: its number in each of the program's segments.
struct Type {
    name: String,
    off: bool,
    at: Vec<(usize, usize)>,
}

impl Type {
    fn switch(&mut self, segments: &[(PathBuf, File)], off: bool) -> Result<(), Failure> {
        for (segment, number) in &self.at {
            let (path, file) = &segments[*segment];
            let place = offset_of!(SegmentHeader, types_off) + number;
            file.write_all_at(&[u8::from(off)], place as u64)
                .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
        }
        self.off = off;
        Ok(())
    }
}

/// The segments of a process: one, but for a moment after it called exec.
fn segments(pid: u32) -> Result<Vec<(PathBuf, File)>, Failure> {
    let prefix = format!("{SEGMENT_PREFIX}{pid:08x}-");
    let mut found = Vec::new();
    // A session of another user can't be listed.
    for session in session_dirs() {
        for entry in std::fs::read_dir(session).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let path = entry.path();
                let of_process = |meta: &Metadata| is_of_process(meta, pid);
                match open_plain(&path, Access::ReadWrite, SEGMENT_SPAN as u64, of_process) {
                    Ok((file, _)) => found.push((path, file)),
                    Err(error) => {
                        let error = std::io::Error::from(error);
                        return Err(Failure::new(format!("cannot open {}: {error}", path.display())));
                    }
                }
            }
        }
    }
    if found.is_empty() {
        let why = if Path::new(&format!("/proc/{pid}")).exists() {
            "is not being recorded, or not by this user"
        } else {
            "doesn't exist"
        };
        return Err(Failure::new(format!("process {pid} {why}"))
            .hint("iotrail record -- CMD records one; its processes are those to ask"));
    }
    Ok(found)
}

fn types(segments: &[(PathBuf, File)]) -> Result<Vec<Type>, Failure> {
    let mut types: Vec<Type> = Vec::new();
    for (at, (path, file)) in segments.iter().enumerate() {
        let mut bytes = vec![0; TYPES_START + MAX_TYPES * size_of::<TypeEntry>()];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        let word = |place: usize| u32::from_le_bytes(bytes[place..place + 4].try_into().expect("four bytes"));
        let version = word(offset_of!(SegmentHeader, version));
        if bytes[..8] != SEGMENT_MAGIC.to_le_bytes() || version != SEGMENT_VERSION {
            return Err(Failure::new(format!(
                "{}: a segment of version {version}, and this iotrail knows {SEGMENT_VERSION}",
                path.display()
            )));
        }
        let declared = word(offset_of!(SegmentHeader, declared)) as usize;
        let known = TYPES.iter().map(|kind| kind.table.name).chain([CPU_SLICE.name]);
        let known = known.enumerate().map(|(number, name)| (number, name.to_owned()));
        let own = (FIRST_DECLARED..(FIRST_DECLARED + declared).min(MAX_TYPES)).map(|number| {
            let entry = &bytes[TYPES_START + number * size_of::<TypeEntry>()..][..size_of::<TypeEntry>()];
            let length = usize::from(entry[0]).min(entry.len() - 1);
            (number, String::from_utf8_lossy(&entry[1..=length]).into_owned())
        });
        debug_assert_eq!(usize::from(CPU), TYPES.len());
        for (number, name) in known.chain(own) {
            let off = bytes[offset_of!(SegmentHeader, types_off) + number] != 0;
            match types.iter_mut().find(|kind| kind.name == name) {
                Some(kind) => kind.at.push((at, number)),
                None => types.push(Type { name, off, at: vec![(at, number)] }),
            }
        }
    }
    Ok(types)
}
