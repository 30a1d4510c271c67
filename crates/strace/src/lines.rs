//! A line of strace's output: who, when, and what it says (strace(1), 6.x).
//!
//! ```text
//! [pid  7] 1700000000.000001 read(3</etc/passwd>, "root:x:0"..., 4096) = 512 <0.000020>
//!      pid stamp             name args                                   result rest
//! 7     read(3,  <unfinished ...>
//! 7     <... read resumed>"root:x:0"..., 4096) = 512
//! 7     --- SIGCHLD {si_signo=SIGCHLD, …} ---
//! 7     +++ exited with 0 +++
//! ```
//!
//! Before the name may stand the number of the call (-n, `[ 257] `) or the instruction's address (-i, `[00007f…] `);
//! behind a pid the name of its command (-Y, `7<cat> `). With -k lines of the stack follow: ` > libc.so.6(read+0x14) […]`.
//!
//! Where strace and a program write to one file (`strace -f … 2>file`), what the program writes to it breaks the line of
//! its own call: `write(2, "err\n", 4err`, and on the next line `) = 4`.
//!
//! Nothing is copied and nothing is taken for granted: any bytes are some [`Event`], at worst
//! [`Event::Unknown`].

use memchr::memrchr;

use crate::arguments::first_string;

/// What a call in two lines ends its first one with.
const UNFINISHED: &[u8] = b"<unfinished ...>";
/// More digits are no pid, and no exit status.
const LONGEST_PID: usize = 9;
/// Digits of an address.
const LONGEST_ADDRESS: usize = 16;
/// Bytes of a command's name, each perhaps as four (`\303`).
const LONGEST_COMMAND: usize = 64;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Thread, with -f.
    pub(crate) pid: Option<u32>,
    /// Time as printed; empty without -t and -r.
    pub(crate) stamp: &'a [u8],
    /// What happened.
    pub(crate) event: Event<'a>,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A whole call.
    Call(Returned<'a>),
    /// The beginning of a call that another thread's line interrupted.
    Unfinished {
        /// Its name.
        name: &'a [u8],
        /// Its arguments so far, without the comma behind them.
        args: &'a [u8],
    },
    /// The end of such a call.
    Resumed(Returned<'a>),
    /// The beginning of a call that ends in what the program wrote to the same file.
    Broken {
        /// Its name.
        name: &'a [u8],
        /// Its arguments, and what the program wrote.
        args: &'a [u8],
    },
    /// What follows the arguments of such a call.
    Mended(Returned<'a>),
    /// Such a call was interrupted.
    MendedUnfinished,
    /// strace traces another thread.
    Attached(u32),
    /// The thread ended by itself.
    Exited(i64),
    /// The thread was killed.
    Killed,
    /// A signal came.
    Signal,
    /// strace about itself, or a stop: nothing to do.
    Said,
    /// An empty line.
    Empty,
    /// None of these.
    Unknown,
}

/// A call that returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Returned<'a> {
    /// Its name.
    pub(crate) name: &'a [u8],
    /// What stands between its parentheses; of a resumed call what its first line didn't print.
    pub(crate) args: &'a [u8],
    /// A number, decimal or `0x…`, or `?`.
    pub(crate) result: &'a [u8],
    /// What follows the result: a descriptor's label, an error, how long it took.
    pub(crate) rest: &'a [u8],
}

impl<'a> Line<'a> {
    /// Takes a line apart, without its line feed.
    pub(crate) fn parse(line: &'a [u8]) -> Self {
        let text = skip_spaces(line);
        let (pid, text) = pid(text).map_or((None, text), |(pid, rest)| (Some(pid), rest));
        let (stamp, text) = stamp(text).unwrap_or((b"", text));
        Self { pid, stamp, event: event(number_or_address(number_or_address(text))) }
    }
}

fn event(text: &[u8]) -> Event<'_> {
    match text.first() {
        None => Event::Empty,
        Some(b'<') => resumed(text),
        Some(b'+') => ended(text),
        Some(b'-') => stopped(text),
        // With -k: the stack.
        Some(b'>') if text.starts_with(b"> ") => Event::Said,
        Some(b')') => {
            returned(b"", text).filter(|call| call.args.is_empty()).map_or(Event::Unknown, Event::Mended)
        }
        Some(_) => match text.strip_prefix(b"strace: ") {
            Some(said) => attached(said).map_or(Event::Said, Event::Attached),
            None => call(text),
        },
    }
}

/// A line that strace's own words interrupt, `clone(flags=SIGCHLDstrace: Process 8 attached`: what stands before them, and
/// the thread.
pub(crate) fn said_within(text: &[u8]) -> Option<(&[u8], u32)> {
    const SAID: &[u8] = b"strace: ";
    if !text.ends_with(b" attached") {
        return None;
    }
    let at = memchr::memmem::rfind(text, SAID).filter(|at| *at > 0)?;
    let begun = &text[..at];
    // Not within a string, and not a whole line that says so.
    (!begun.ends_with(b"\"")).then_some(())?;
    Some((begun, attached(&text[at + SAID.len()..])?))
}

/// The thread in `Process 8 attached`.
fn attached(text: &[u8]) -> Option<u32> {
    match digits(text.strip_prefix(b"Process ")?)? {
        (pid, rest) if rest.starts_with(b" attached") => Some(pid),
        _ => None,
    }
}

/// What follows `[ 257] ` or `[00007f5a2e0b31e4] `; the text itself if it doesn't begin so.
fn number_or_address(text: &[u8]) -> &[u8] {
    let Some(inner) = text.strip_prefix(b"[") else { return text };
    let digits = skip_spaces(inner);
    let length = digits.iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'?').count();
    if length == 0 || length > LONGEST_ADDRESS || inner.len() - digits.len() > LONGEST_ADDRESS {
        return text;
    }
    digits[length..].strip_prefix(b"] ").unwrap_or(text)
}

fn call(text: &[u8]) -> Event<'_> {
    let Some((name, args)) = name(text).and_then(|(name, rest)| Some((name, rest.strip_prefix(b"(")?)))
    else {
        return Event::Unknown;
    };
    // First, because a string among the arguments may look like a result.
    if let Some(args) = args.strip_suffix(UNFINISHED) {
        return Event::Unfinished { name, args: trim_end(args) };
    }
    match returned(name, args) {
        Some(call) => Event::Call(call),
        // Its last argument begins with a digit: how much is written.
        None if first_string(args).is_some_and(|(_, at)| args.get(at).is_some_and(u8::is_ascii_digit)) => {
            Event::Broken { name, args }
        }
        None => Event::Unknown,
    }
}

fn resumed(text: &[u8]) -> Event<'_> {
    if text == UNFINISHED {
        return Event::MendedUnfinished;
    }
    let found = text
        .strip_prefix(b"<... ")
        .and_then(name)
        .and_then(|(name, rest)| Some((name, rest.strip_prefix(b" resumed>")?)));
    let Some((name, rest)) = found else { return Event::Unknown };
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    match returned(name, rest) {
        Some(call) => Event::Resumed(call),
        // Its thread is gone before it could return.
        None if rest.starts_with(b"<unfinished ...>)") => Event::Said,
        None => Event::Unknown,
    }
}

fn ended(text: &[u8]) -> Event<'_> {
    let Some(inner) = text.strip_prefix(b"+++ ").and_then(|text| text.strip_suffix(b" +++")) else {
        return Event::Unknown;
    };
    if let Some(status) = inner.strip_prefix(b"exited with ") {
        return match digits(status) {
            Some((status, b"")) => Event::Exited(i64::from(status)),
            _ => Event::Unknown,
        };
    }
    let signal = inner.strip_prefix(b"killed by ").map(|s| s.strip_suffix(b" (core dumped)").unwrap_or(s));
    match signal.and_then(name) {
        Some((_, b"")) => Event::Killed,
        _ => Event::Unknown,
    }
}

fn stopped(text: &[u8]) -> Event<'_> {
    match text.strip_prefix(b"--- ").and_then(|text| text.strip_suffix(b" ---")) {
        Some(inner) if inner.starts_with(b"SIG") => Event::Signal,
        Some(inner) if inner.starts_with(b"stopped by ") => Event::Said,
        _ => Event::Unknown,
    }
}

/// Cuts what follows `name(` at the last `) = result`: earlier ones are inside of strings.
fn returned<'a>(name: &'a [u8], text: &'a [u8]) -> Option<Returned<'a>> {
    let mut end = text.len();
    loop {
        let at = memrchr(b')', &text[..end])?;
        let after = &text[at + 1..];
        let spaced = skip_spaces(after);
        if spaced.len() < after.len()
            && let Some(value) = spaced.strip_prefix(b"= ")
            && let Some(length) = result_length(value)
        {
            let (result, rest) = value.split_at(length);
            return Some(Returned { name, args: &text[..at], result, rest });
        }
        end = at;
    }
}

/// How many bytes of a text are a result.
fn result_length(text: &[u8]) -> Option<usize> {
    if let Some(hex) = text.strip_prefix(b"0x") {
        let length = hex.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
        if length > 0 {
            return Some(2 + length);
        }
    }
    if text.first() == Some(&b'?') {
        return Some(1);
    }
    let sign = usize::from(text.first() == Some(&b'-'));
    let length = text[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (length > 0).then_some(sign + length)
}

/// `7 `, `7<cat> `, `[pid 7] `, `[pid 7<cat>] `: the thread, and what follows.
fn pid(text: &[u8]) -> Option<(u32, &[u8])> {
    let number = text.strip_prefix(b"[pid ").map_or(text, skip_spaces);
    let (pid, rest) = digits(number)?;
    let rest = match rest.strip_prefix(b"<") {
        Some(command) => {
            &command[memchr::memchr(b'>', &command[..command.len().min(LONGEST_COMMAND)])? + 1..]
        }
        None => rest,
    };
    let rest = rest.strip_prefix(b"]").unwrap_or(rest);
    let after = skip_spaces(rest);
    (after.len() < rest.len()).then_some((pid, after))
}

/// `23:59:59 `, `23:59:59.000001 ` or `1700000000.000001 `: the time, and what follows.
fn stamp(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let end = memchr::memchr(b' ', text)?;
    let (stamp, rest) = (&text[..end], &text[end + 1..]);
    let seconds = if is_clock(stamp) { &stamp[6..] } else { stamp };
    let whole = seconds.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fits = match seconds[whole..].strip_prefix(b".") {
        Some(fraction) => whole > 0 && !fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit),
        None => seconds.len() == whole && is_clock(stamp),
    };
    (fits && (!is_clock(stamp) || whole == 2)).then_some((stamp, rest))
}

/// Whether a stamp is the time of day, not seconds.
pub(crate) fn is_clock(stamp: &[u8]) -> bool {
    matches!(stamp, [a, b, b':', c, d, b':', ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()))
}

/// A word, and what follows.
fn name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    (length > 0).then(|| text.split_at(length))
}

/// A number of at most [`LONGEST_PID`] digits, and what follows.
pub(crate) fn digits(text: &[u8]) -> Option<(u32, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 || length > LONGEST_PID {
        return None;
    }
    let value = text[..length].iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    Some((value, &text[length..]))
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| **byte == b' ').count()..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    let tail = text.iter().rev().take_while(|byte| matches!(byte, b' ' | b',')).count();
    &text[..text.len() - tail]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call<'a>(name: &'a str, args: &'a str, result: &'a str, rest: &'a str) -> Returned<'a> {
        let bytes = str::as_bytes;
        Returned { name: bytes(name), args: bytes(args), result: bytes(result), rest: bytes(rest) }
    }

    fn event(text: &str) -> Event<'_> {
        Line::parse(text.as_bytes()).event
    }

    #[test]
    fn who_and_when_in_all_forms() {
        for (text, pid, stamp) in [
            ("close(3) = 0", None, ""),
            ("7 close(3) = 0", Some(7), ""),
            ("7     close(3) = 0", Some(7), ""),
            ("[pid    7] close(3) = 0", Some(7), ""),
            ("[pid 7] 12:34:56 close(3) = 0", Some(7), "12:34:56"),
            ("7<a b> close(3) = 0", Some(7), ""),
            ("[pid    7<cat>] [   3] close(3) = 0", Some(7), ""),
            ("7 12:34:56 [   3] close(3) = 0", Some(7), "12:34:56"),
            ("7 12:34:56 [00007fd2cca66b1d] [   3] close(3) = 0", Some(7), "12:34:56"),
            ("7 12:34:56 [????????????????] close(3) = 0", Some(7), "12:34:56"),
            ("12:34:56.000001 close(3) = 0", None, "12:34:56.000001"),
            ("     0.000012 close(3) = 0", None, "0.000012"),
            ("7 1700000000.000001 close(3) = 0", Some(7), "1700000000.000001"),
            ("1700000000.123456789 close(3) = 0", None, "1700000000.123456789"),
        ] {
            let line = Line::parse(text.as_bytes());
            assert_eq!((line.pid, line.stamp), (pid, stamp.as_bytes()), "{text}");
            assert_eq!(line.event, Event::Call(call("close", "3", "0", "")), "{text}");
        }
    }

    #[test]
    fn what_is_no_stamp_is_no_call_either() {
        for text in [
            "1234567890 close(3) = 0",
            "12:34:5 close(3) = 0",
            "12:34:567 close(3) = 0",
            "12:34:56. close(3) = 0",
            "1700000000. close(3) = 0",
            "7] [pid 8] close(3) = 0",
        ] {
            assert_eq!(event(text), Event::Unknown, "{text}");
        }
    }

    #[test]
    fn the_last_result_is_the_calls() {
        assert_eq!(
            event(r#"read(3, "ab) = 7\n"..., 4096) = 100 <0.000020>"#),
            Event::Call(call("read", r#"3, "ab) = 7\n"..., 4096"#, "100", " <0.000020>"))
        );
        assert_eq!(
            event("brk(NULL)             = 0x55c495d31000"),
            Event::Call(call("brk", "NULL", "0x55c495d31000", ""))
        );
        assert_eq!(
            event(r#"open("/a", 0) = -1 ENOENT (No such file or directory)"#),
            Event::Call(call("open", r#""/a", 0"#, "-1", " ENOENT (No such file or directory)"))
        );
        assert_eq!(
            event("dup(3</a>) = 4</a>"),
            Event::Call(call("dup", "3</a>", "4", "</a>")),
            "a label follows its number at once"
        );
        assert_eq!(event("exit_group(0) = ?"), Event::Call(call("exit_group", "0", "?", "")));
        for text in ["read(3)", "read(3)= 0", "read(3) = ", "read(3) = x", "read 3 = 0", "(3) = 0"] {
            assert_eq!(event(text), Event::Unknown, "{text}");
        }
    }

    #[test]
    fn calls_in_two_lines() {
        assert_eq!(event("read(3,  <unfinished ...>"), Event::Unfinished { name: b"read", args: b"3" });
        assert_eq!(
            event(r#"write(3, ") = 5", 5 <unfinished ...>"#),
            Event::Unfinished { name: b"write", args: br#"3, ") = 5", 5"# }
        );
        assert_eq!(
            event(r#"<... read resumed>"abc"..., 4096) = 4096"#),
            Event::Resumed(call("read", r#""abc"..., 4096"#, "4096", ""))
        );
        assert_eq!(
            event("<... close resumed>)             = 0 <0.000030>"),
            Event::Resumed(call("close", "", "0", " <0.000030>"))
        );
        assert_eq!(
            event("<... clone resumed>, child_tidptr=0x7f) = 2"),
            Event::Resumed(call("clone", ", child_tidptr=0x7f", "2", ""))
        );
        assert_eq!(event("<... futex resumed> <unfinished ...>)"), Event::Said);
        for text in ["<... read resumed", "<... resumed>) = 0", "<...", "<>"] {
            assert_eq!(event(text), Event::Unknown, "{text}");
        }
    }

    #[test]
    fn signals_ends_and_what_strace_says() {
        for (text, expected) in [
            ("+++ exited with 3 +++", Event::Exited(3)),
            ("+++ killed by SIGKILL +++", Event::Killed),
            ("+++ killed by SIGSEGV (core dumped) +++", Event::Killed),
            ("--- SIGCHLD {si_signo=SIGCHLD} ---", Event::Signal),
            ("--- stopped by SIGSTOP ---", Event::Said),
            ("strace: Process 8 attached", Event::Attached(8)),
            ("strace: Process 8 attached with 3 threads", Event::Attached(8)),
            ("strace: Exit of unknown pid 8 ignored", Event::Said),
            (" > /usr/lib/libc.so.6(__open64+0x51) [0xf8011]", Event::Said),
            (" > unexpected_backtracing_error [0x0]", Event::Said),
            (" <unfinished ...>", Event::MendedUnfinished),
            ("", Event::Empty),
            ("+++ exited with much +++", Event::Unknown),
            ("+++ killed by  +++", Event::Unknown),
            ("--- what ---", Event::Unknown),
            ("what is this", Event::Unknown),
        ] {
            assert_eq!(event(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_that_a_program_broke() {
        assert_eq!(
            event("write(2, \"err\\n\", 4err"),
            Event::Broken { name: b"write", args: b"2, \"err\\n\", 4err" }
        );
        assert_eq!(event(")                       = 4"), Event::Mended(call("", "", "4", "")));
        for text in [")", ") = ", "write(1, \"cut o", "write(1, x, 4"] {
            assert_eq!(event(text), Event::Unknown, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_put_together_again(
            pid in 0_u32..1_000_000_000, seconds in 0_u64..10_000_000_000, name in "[a-z_0-9]{1,20}",
            args in "[ -~]{0,60}", result in "(0x[0-9a-f]{1,16}|-?[0-9]{1,19}|\\?)", took in 0_u32..1_000_000,
        ) {
            let stamp = format!("{seconds}.{took:06}");
            let rest = format!(" <0.{took:06}>");
            let text = format!("{pid} {stamp} {name}({args}) = {result}{rest}");
            let line = Line::parse(text.as_bytes());
            prop_assert_eq!(line.pid, Some(pid));
            prop_assert_eq!(line.stamp, stamp.as_bytes());
            prop_assert_eq!(line.event, Event::Call(call(&name, &args, &result, &rest)));
        }
    }
}
