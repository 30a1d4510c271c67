//! Whether a program can be recorded, known before it is started.
//!
//! The recorder is a shared library that the dynamic loader puts into the program (LD_PRELOAD,
//! ld.so(8)). A static program has no loader, a program that gains privileges has one that ignores
//! LD_PRELOAD (AT_SECURE), one of another architecture can't load the library: such a program would
//! run and leave an empty trail, so it is refused with the reason. Where the kernel is recorded too it sees the
//! calls of the first two.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};

use crate::failure::Failure;

/// Interpreters of interpreters that the kernel follows (BINPRM_MAX_RECURSION in fs/exec.c is 5).
const MOST_INTERPRETERS: usize = 5;
/// Bytes of the first line that the kernel reads (BINPRM_BUF_SIZE in include/uapi/linux/binfmts.h).
const FIRST_LINE: usize = 256;

/// Why a program can't be recorded, with the exit status that a shell would give.
#[derive(Debug)]
pub struct Refused {
    /// 127 not found, 126 found but not runnable, 1 runnable but not recordable.
    pub status: u8,
    /// What a person reads.
    pub failure: Failure,
}

fn refuse(status: u8, message: String, hint: Option<&str>) -> Refused {
    let failure = Failure::new(message);
    Refused {
        status,
        failure: match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
    }
}

/// A program that can be recorded.
#[derive(Debug)]
pub struct Found {
    /// Its file.
    pub path: PathBuf,
    /// Why only the kernel sees its calls, if so: a sentence's beginning.
    pub bare: Option<String>,
}

/// Finds the program as execvp(3) does and looks whether it can be recorded; `kernel`: whether the kernel is too.
pub fn find(name: &OsStr, kernel: bool) -> Result<Found, Refused> {
    let path = locate(name)?;
    let mut file = path.clone();
    for _ in 0..MOST_INTERPRETERS {
        match check(&file, &path)? {
            Checked::Interpreted(interpreter) => file = interpreter,
            Checked::Recordable => return Ok(Found { path, bare: None }),
            Checked::Bare { why, .. } if kernel => return Ok(Found { path, bare: Some(why) }),
            Checked::Bare { why, so, hint } => return Err(refuse(1, format!("{why}, {so}"), Some(hint))),
        }
    }
    Ok(Found { path, bare: None })
}

/// What one file turned out to be.
enum Checked {
    Recordable,
    Interpreted(PathBuf),
    /// No recorder can be in it: why, what follows, and what can be done.
    Bare {
        why: String,
        so: &'static str,
        hint: &'static str,
    },
}

fn locate(name: &OsStr) -> Result<PathBuf, Refused> {
    let shown = name.to_string_lossy();
    if name.is_empty() {
        return Err(refuse(127, "the program's name is empty".into(), None));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match executable(&path) {
            Ok(()) => Ok(path),
            Err(why) => Err(why),
        };
    }
    // The system's default when there is no PATH (confstr(3), _CS_PATH).
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let mut denied = None;
    for dir in std::env::split_paths(&search) {
        let path = if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) };
        match executable(&path) {
            Ok(()) => return Ok(path),
            // A shell goes on past directories and files it may not run, and tells of them at the end.
            Err(why) if why.status == 126 && !path.is_dir() => denied = denied.or(Some(why)),
            Err(_) => {}
        }
    }
    Err(denied.unwrap_or_else(|| {
        refuse(
            127,
            format!("{shown}: no such program in PATH"),
            Some("a program in the working directory is named with ./ in front"),
        )
    }))
}

fn executable(path: &Path) -> Result<(), Refused> {
    let shown = path.display();
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => {
            let status = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
            return Err(refuse(status, format!("{shown}: {}", plain(&error)), None));
        }
    };
    if meta.is_dir() {
        return Err(refuse(126, format!("{shown} is a directory, not a program"), None));
    }
    let allowed = CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: a NUL-terminated path. Effective ids, as exec uses them.
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
    });
    if meta.is_file() && allowed {
        return Ok(());
    }
    Err(refuse(
        126,
        format!("{shown} is not executable"),
        Some("chmod +x makes a script or program executable"),
    ))
}

/// The system's message without Rust's "(os error N)".
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Looks at one file.
fn check(path: &Path, program: &Path) -> Result<Checked, Refused> {
    let shown = path.display();
    let through = if path == program {
        format!("{shown}")
    } else {
        format!("{} is run by {shown}, which", program.display())
    };
    // A program that may be run and not read (mode 0711) can still be recorded: try it.
    let Ok(mut file) = File::open(path) else { return Ok(Checked::Recordable) };
    let mut first = [0; FIRST_LINE];
    let length = file.read(&mut first).unwrap_or(0);
    if let Some(line) = first[..length].strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line).trim_ascii();
        let name = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or(line);
        let interpreter = PathBuf::from(OsString::from_vec(name.to_vec()));
        return match executable(&interpreter) {
            Ok(()) => Ok(Checked::Interpreted(interpreter)),
            Err(_) => Err(refuse(
                126,
                format!("{shown} asks for the interpreter {}, which can't be run", interpreter.display()),
                None,
            )),
        };
    }
    if !first.starts_with(b"\x7fELF") {
        // execvp gives it to /bin/sh.
        return Ok(Checked::Recordable);
    }
    if first[4] != elf::ELFCLASS64 || u16::from_le_bytes([first[18], first[19]]) != elf::EM_X86_64 {
        let what = if first[4] == elf::ELFCLASS32 { "a 32-bit program" } else { "of another architecture" };
        return Err(refuse(1, format!("{through} is {what}; iotrail records 64-bit x86 programs"), None));
    }
    if let Some(interpreter) = loader(&file) {
        if interpreter.as_os_str().as_bytes().windows(4).any(|part| part == b"musl") {
            return Ok(Checked::Bare {
                why: format!("{through} is linked with musl"),
                so: "and the recorder that is loaded into programs needs glibc",
                hint: "record its calls where they reach the kernel (as root: iotrail record --kernel), or build it \
                       against glibc",
            });
        }
    } else if !is_loader(path) {
        return Ok(Checked::Bare {
            why: format!("{through} is statically linked"),
            so: "so no recorder can be loaded into it",
            hint: "record its calls where they reach the kernel (as root: iotrail record --kernel), or link it \
                   dynamically (without -static)",
        });
    }
    Ok(match privileges(path, &file) {
        None => Checked::Recordable,
        Some(what) => Checked::Bare {
            why: format!("{through} {what}"),
            so: "so the system loads no recorder into it",
            hint: "run iotrail record as the user it would become, or record a copy without that mark",
        },
    })
}

/// The program's dynamic loader; none if it is static or damaged.
fn loader(file: &File) -> Option<PathBuf> {
    let data = ReadCache::new(file);
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?;
    let name = segments.iter().find_map(|segment| segment.interpreter(endian, &data).ok().flatten())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// `ld.so PROGRAM` is a static program that heeds LD_PRELOAD.
fn is_loader(path: &Path) -> bool {
    let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    resolved.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-linux") || name == "ld.so")
}

/// Which privilege exec would give (kernel: bprm_fill_uid and cap_bprm_creds_from_file).
fn privileges(path: &Path, file: &File) -> Option<&'static str> {
    // SAFETY: calls without pointers, and fstatvfs into a zeroed buffer of its type.
    let (user, group, no_new, nosuid) = unsafe {
        use std::os::fd::AsRawFd;
        let mut info: libc::statvfs = std::mem::zeroed();
        let nosuid = libc::fstatvfs(file.as_raw_fd(), &mut info) == 0 && info.f_flag & libc::ST_NOSUID != 0;
        let no_new = libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
        (libc::geteuid(), libc::getegid(), no_new, nosuid)
    };
    if no_new || nosuid {
        return None;
    }
    let meta = file.metadata().ok()?;
    if meta.mode() & libc::S_ISUID != 0 && meta.uid() != user {
        return Some("is setuid");
    }
    let runs_as_group = libc::S_ISGID | libc::S_IXGRP;
    if meta.mode() & runs_as_group == runs_as_group && meta.gid() != group {
        return Some("is setgid");
    }
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: NUL-terminated names; a null buffer of size 0 asks for the length only.
    let length =
        unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    (length > 0 && user != 0).then_some("carries file capabilities")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(dir: &Path, name: &str, text: &[u8], mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn status(path: &Path) -> u8 {
        find(path.as_os_str(), false).unwrap_err().status
    }

    #[test]
    fn programs_that_cannot_be_recorded_are_refused_with_the_shells_status() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(OsStr::new("no-such-program-anywhere"), false).unwrap_err().status, 127);
        assert_eq!(status(&dir.path().join("absent")), 127);
        assert_eq!(status(dir.path()), 126);
        assert_eq!(status(&script(dir.path(), "plain", b"text", 0o644)), 126);
        assert_eq!(status(&script(dir.path(), "lost", b"#!/no/such/interpreter\n", 0o755)), 126);

        let ls = fs::read("/bin/ls").unwrap();
        let mut foreign = ls.clone();
        foreign[18..20].copy_from_slice(&elf::EM_AARCH64.to_le_bytes());
        assert_eq!(status(&script(dir.path(), "arm", &foreign, 0o755)), 1);
        // Without its PT_INTERP entry a program is what a static one looks like.
        let mut fixed = ls;
        let table = u64::from_le_bytes(fixed[32..40].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes(fixed[56..58].try_into().unwrap()) as usize;
        for entry in 0..count {
            let at = table + entry * 56;
            if fixed[at..at + 4] == elf::PT_INTERP.to_le_bytes() {
                fixed[at..at + 4].copy_from_slice(&elf::PT_NULL.to_le_bytes());
            }
        }
        let fixed = script(dir.path(), "static", &fixed, 0o755);
        assert_eq!(status(&fixed), 1);
        let seen = find(fixed.as_os_str(), true).unwrap().bare.unwrap();
        assert_eq!(seen, format!("{} is statically linked", fixed.display()));
        assert!(find(dir.path().join("arm").as_os_str(), true).is_err(), "the kernel's calls are of x86-64");
        let wrapper = format!("#! {} -x\n", fixed.display());
        assert_eq!(status(&script(dir.path(), "wrapper", wrapper.as_bytes(), 0o755)), 1);
    }

    #[test]
    fn programs_and_scripts_are_found() {
        let dir = tempfile::tempdir().unwrap();
        assert!(find(OsStr::new("ls"), false).unwrap().path.is_absolute());
        for (name, text) in
            [("a", "#!/bin/sh\n"), ("b", "#! /usr/bin/env sh\n"), ("c", "echo no first line\n")]
        {
            assert!(find(script(dir.path(), name, text.as_bytes(), 0o755).as_os_str(), false).is_ok());
        }
    }
}
