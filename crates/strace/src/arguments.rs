//! Arguments as strace prints them: descriptors with their labels, strings, numbers.
//!
//! ```text
//! 3                          a descriptor
//! 3</etc/passwd>             with -y its path; `<`, `>` and the like in it are octal, as in strings
//! 0</dev/pts/0<char 136:0>>  with -yy also what device it is
//! 5<TCP:[10.0.0.1:5->10.0.0.2:80]>
//! AT_FDCWD</srv>             the working directory
//! "ab\n\303\244"...          a string, cut where three dots follow it
//! ```

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};

use crate::lines::digits;

/// What stands between two arguments.
const COMMA: &[u8] = b", ";
/// What device it is takes no more (`<block 259:0>`); so nothing makes reading a line take its length squared.
const DEVICE: usize = 64;

/// An argument isn't what the call takes, or is missing: the line is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad;

/// A descriptor as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fd<'a> {
    /// Its number.
    pub(crate) number: i64,
    /// With -y, what it stands for, still escaped.
    pub(crate) label: Option<&'a [u8]>,
}

/// The directory a path is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory<'a> {
    /// The working directory, with -y its path.
    Working(Option<&'a [u8]>),
    /// That of a descriptor.
    Of(Fd<'a>),
}

/// A directory, a path in it, and the arguments behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At<'a> {
    /// What the path is relative to.
    pub(crate) directory: Directory<'a>,
    /// The path, still escaped.
    pub(crate) path: &'a [u8],
    /// What follows.
    pub(crate) rest: &'a [u8],
}

/// The descriptor that a text begins with, and what follows it.
pub(crate) fn descriptor(text: &[u8]) -> Result<(Fd<'_>, &[u8]), Bad> {
    let positive = text.strip_prefix(b"-");
    let (number, rest) = digits(positive.unwrap_or(text)).ok_or(Bad)?;
    let number = if positive.is_some() { -i64::from(number) } else { i64::from(number) };
    let (label, rest) = label(rest);
    Ok((Fd { number, label }, rest))
}

/// A label at the beginning of a text, and what follows it.
///
/// A `>` ends it unless it is the head of an arrow (`a->b`); where no other ends it, the arrow's does.
pub(crate) fn label(text: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(inner) = text.strip_prefix(b"<") else { return (None, text) };
    let mut arrow = None;
    let mut from = 0;
    while let Some(found) = memchr2(b'<', b'>', &inner[from..]) {
        let at = from + found;
        if inner[at] == b'<' {
            // What device it is, in brackets of its own.
            match memchr(b'>', &inner[at..inner.len().min(at + DEVICE)]).map(|end| at + end + 1) {
                Some(end) if inner.get(end) == Some(&b'>') => {
                    return labelled(&inner[..at], &inner[end + 1..]);
                }
                _ => break,
            }
        }
        if at == 0 || inner[at - 1] != b'-' {
            return labelled(&inner[..at], &inner[at + 1..]);
        }
        arrow = Some(at);
        from = at + 1;
    }
    arrow.map_or((None, text), |at| labelled(&inner[..at], &inner[at + 1..]))
}

/// A label that was found. Files without a name say so behind it, before strace 5.
fn labelled<'a>(label: &'a [u8], rest: &'a [u8]) -> (Option<&'a [u8]>, &'a [u8]) {
    (Some(label).filter(|label| !label.is_empty()), rest.strip_prefix(b"(deleted)").unwrap_or(rest))
}

/// The label right behind a result.
pub(crate) fn label_after(rest: &[u8]) -> Option<&[u8]> {
    label(rest).0
}

/// The string that a text begins with, and what follows it and its dots.
pub(crate) fn string(text: &[u8]) -> Result<(&[u8], &[u8]), Bad> {
    let inner = text.strip_prefix(b"\"").ok_or(Bad)?;
    let mut from = 0;
    loop {
        let at = from + inner.get(from..).and_then(|rest| memchr2(b'"', b'\\', rest)).ok_or(Bad)?;
        if inner[at] == b'"' {
            let rest = &inner[at + 1..];
            return Ok((&inner[..at], rest.strip_prefix(b"...").unwrap_or(rest)));
        }
        from = at + 2;
    }
}

/// The first string in a text, and where what follows it and a comma begins.
pub(crate) fn first_string(text: &[u8]) -> Option<(&[u8], usize)> {
    let (found, rest) = string(&text[memchr(b'"', text)?..]).ok()?;
    Some((found, text.len() - rest.strip_prefix(COMMA)?.len()))
}

/// All strings in a text.
pub(crate) fn strings(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (found, after) = string(&rest[memchr(b'"', rest)?..]).ok()?;
        rest = after;
        Some(found)
    })
}

/// A directory and a path at the beginning of a text.
pub(crate) fn at(text: &[u8]) -> Result<At<'_>, Bad> {
    let (directory, rest) = match text.strip_prefix(b"AT_FDCWD") {
        Some(rest) => {
            let (label, rest) = label(rest);
            (Directory::Working(label), rest)
        }
        None => {
            let (fd, rest) = descriptor(text)?;
            (Directory::Of(fd), rest)
        }
    };
    let (path, rest) = string(rest.strip_prefix(COMMA).ok_or(Bad)?)?;
    Ok(At { directory, path, rest: after_comma(rest)? })
}

/// What follows the comma that a text begins with; nothing follows its end.
pub(crate) fn after_comma(text: &[u8]) -> Result<&[u8], Bad> {
    if text.is_empty() { Ok(text) } else { text.strip_prefix(COMMA).ok_or(Bad) }
}

/// The arguments in a text. Commas in strings and labels are none, those in brackets are.
pub(crate) fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let mut from = 0;
        loop {
            let Some(found) = all.get(from..).and_then(|tail| memchr::memchr3(b'"', b',', b'<', tail)) else {
                return Some(all);
            };
            let at = from + found;
            from = match all[at] {
                b'"' => match string(&all[at..]) {
                    Ok((_, after)) => all.len() - after.len(),
                    // What is cut in a string has no more arguments.
                    Err(Bad) => return Some(all),
                },
                b'<' => (all.len() - label(&all[at..]).1.len()).max(at + 1),
                _ if all[at..].starts_with(COMMA) => {
                    rest = Some(&all[at + COMMA.len()..]);
                    return Some(&all[..at]);
                }
                _ => at + 1,
            };
        }
    })
}

/// The last two arguments where there are more, else the last or none. Numbers, most of the time: what
/// precedes them may be long, so they are looked for from the end.
pub(crate) fn last_two(text: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    let Some(at) = memmem::rfind(text, COMMA) else { return (None, None) };
    let last = &text[at + COMMA.len()..];
    let before = memmem::rfind(&text[..at], COMMA).map(|begin| &text[begin + COMMA.len()..at]);
    (before, Some(last))
}

/// A decimal number; no value if it is too large for a column.
pub(crate) fn number(text: &[u8]) -> Result<Option<i64>, Bad> {
    let positive = text.strip_prefix(b"-").unwrap_or(text);
    if positive.is_empty() || !positive.iter().all(u8::is_ascii_digit) {
        return Err(Bad);
    }
    Ok(std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()))
}

/// A number, decimal or `0x…`; no value if it is too large for a column.
pub(crate) fn any_number(text: &[u8]) -> Result<Option<i64>, Bad> {
    match text.strip_prefix(b"0x") {
        Some(hex) if !hex.is_empty() && hex.iter().all(u8::is_ascii_hexdigit) => {
            Ok(std::str::from_utf8(hex).ok().and_then(|hex| i64::from_str_radix(hex, 16).ok()))
        }
        _ => number(text),
    }
}

/// The decimal numbers that follow each `key` in a text.
pub(crate) fn numbers_after<'a>(text: &'a [u8], key: &'a [u8]) -> impl Iterator<Item = Option<i64>> + 'a {
    memmem::find_iter(text, key).filter_map(move |at| {
        let tail = &text[at + key.len()..];
        let length = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        number(&tail[..length]).ok()
    })
}

/// Whether a text has a word in it.
pub(crate) fn has(text: &[u8], word: &str) -> bool {
    memmem::find(text, word.as_bytes()).is_some()
}

/// A string or label without C's escapes.
pub(crate) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr(b'\\', text) else { return Cow::Borrowed(text) };
    let mut plain = Vec::with_capacity(text.len());
    plain.extend_from_slice(&text[..first]);
    let mut rest = &text[first..];
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let Some((&code, tail)) = rest.split_first().filter(|_| byte == b'\\') else {
            plain.push(byte);
            continue;
        };
        rest = tail;
        match (code, tail) {
            (b'0'..=b'7', _) => {
                let mut value = code - b'0';
                for _ in 0..2 {
                    let Some((&digit @ b'0'..=b'7', tail)) = rest.split_first() else { break };
                    // \777 is more than a byte; C keeps its low bits.
                    value = value.wrapping_mul(8).wrapping_add(digit - b'0');
                    rest = tail;
                }
                plain.push(value);
            }
            (b'x', [high, low, tail @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let hex = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
                plain.push(hex(*high) << 4 | hex(*low));
                rest = tail;
            }
            (b'n', _) => plain.push(b'\n'),
            (b't', _) => plain.push(b'\t'),
            (b'r', _) => plain.push(b'\r'),
            (b'v', _) => plain.push(0x0b),
            (b'f', _) => plain.push(0x0c),
            _ => plain.push(code),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fd(text: &str) -> (i64, Option<&str>, &str) {
        let (fd, rest) = descriptor(text.as_bytes()).expect("a descriptor");
        let utf8 = |bytes| std::str::from_utf8(bytes).expect("UTF-8");
        (fd.number, fd.label.map(utf8), utf8(rest))
    }

    #[test]
    fn descriptors_and_labels() {
        for (text, expected) in [
            ("3", (3, None, "")),
            ("3, 0", (3, None, ", 0")),
            ("-1, 0", (-1, None, ", 0")),
            ("3</a b, c>, 0", (3, Some("/a b, c"), ", 0")),
            (r"3</a\74b\76>, 0", (3, Some(r"/a\74b\76"), ", 0")),
            ("0</dev/pts/0<char 136:0>>, 0", (0, Some("/dev/pts/0"), ", 0")),
            ("5<TCP:[10.0.0.1:5->10.0.0.2:80]>, 0", (5, Some("TCP:[10.0.0.1:5->10.0.0.2:80]"), ", 0")),
            (
                "5<UNIX-STREAM:[1->2]>, 6<UNIX-STREAM:[2->1]>",
                (5, Some("UNIX-STREAM:[1->2]"), ", 6<UNIX-STREAM:[2->1]>"),
            ),
            // Before strace 5 a path's own brackets weren't escaped; the first `>` ends it then.
            ("3</a->, 0", (3, Some("/a-"), ", 0")),
            ("3</a-->, 0", (3, Some("/a--"), ", 0")),
            ("3</a>(deleted), 0", (3, Some("/a"), ", 0")),
            ("3<>, 0", (3, None, ", 0")),
            ("3</a", (3, None, "</a")),
            ("3</a<b", (3, None, "</a<b")),
        ] {
            assert_eq!(fd(text), expected, "{text}");
        }
        for text in ["", "x", "-", "AT_FDCWD", "1234567890"] {
            assert_eq!(descriptor(text.as_bytes()), Err(Bad), "{text}");
        }
    }

    #[test]
    fn strings_end_at_their_own_quote() {
        assert_eq!(string(br#""a\"b\\", 5"#), Ok((&br#"a\"b\\"#[..], &b", 5"[..])));
        assert_eq!(string(br#""cut"..., 5"#), Ok((&b"cut"[..], &b", 5"[..])));
        for text in [r#"""#, r#""a\"#, r#""a\""#, "a", ""] {
            assert_eq!(string(text.as_bytes()), Err(Bad), "{text}");
        }
        let found: Vec<_> = strings(br#""/bin/a", ["a", "-\"x"], 0x7f /* 3 vars */, "open"#).collect();
        assert_eq!(found, [&b"/bin/a"[..], b"a", br#"-\"x"#]);
    }

    #[test]
    fn escapes() {
        for (text, expected) in [
            (r"plain", &b"plain"[..]),
            (r"\303\244\0a\08\12", b"\xc3\xa4\0a\08\n"),
            (r"\777\400", b"\xff\0"),
            (r"\x41\xfg\x4", b"Axfgx4"),
            (r#"\n\t\r\v\f\\\"\e"#, b"\n\t\r\x0b\x0c\\\"e"),
            (r"tail\", b"tail\\"),
        ] {
            assert_eq!(unescape(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn directories_and_paths() {
        let got = at(br#"AT_FDCWD</srv>, "a\"b", O_RDONLY"#).expect("a path");
        assert_eq!(
            got,
            At { directory: Directory::Working(Some(b"/srv")), path: br#"a\"b"#, rest: b"O_RDONLY" }
        );
        let got = at(br#"5, ""..."#).expect("a path");
        assert_eq!(got.directory, Directory::Of(Fd { number: 5, label: None }));
        assert_eq!((got.path, got.rest), (&b""[..], &b""[..]));
        for text in [r#"AT_FDCWD, NULL, 0"#, r#"AT_FDCWD"#, r#"5 "a""#, r#"AT_FDCWD, "a"b"#] {
            assert_eq!(at(text.as_bytes()), Err(Bad), "{text}");
        }
    }

    #[test]
    fn arguments_are_split_where_they_end() {
        let got: Vec<_> = split(br#"3</a, b>, "x, y"..., [{1, 2}], 4<T:[1->2]>, 5 < 6"#).collect();
        assert_eq!(got, [&b"3</a, b>"[..], br#""x, y"..."#, b"[{1", b"2}]", b"4<T:[1->2]>", b"5 < 6"]);
        assert_eq!(split(b"").collect::<Vec<_>>(), [b""]);
        assert_eq!(split(br#"0, "open, 1"#).collect::<Vec<_>>(), [&b"0"[..], br#""open, 1"#]);
        assert_eq!(last_two(br#"3, "a, b", 4096, 77"#), (Some(&b"4096"[..]), Some(&b"77"[..])));
        assert_eq!(last_two(b"3, 4"), (None, Some(&b"4"[..])));
        assert_eq!(last_two(b"3"), (None, None));
    }

    #[test]
    fn numbers_too_large_for_a_column_have_no_value() {
        assert_eq!(number(b"9223372036854775807"), Ok(Some(i64::MAX)));
        assert_eq!(number(b"18446744073709551615"), Ok(None));
        assert_eq!(number(b"-5"), Ok(Some(-5)));
        assert_eq!(any_number(b"0x1000"), Ok(Some(4096)));
        assert_eq!(any_number(b"0xffffffffffffffff"), Ok(None));
        for text in ["", "-", "0x", "0xg", "+5", "5 ", "NULL"] {
            assert_eq!(any_number(text.as_bytes()), Err(Bad), "{text}");
        }
        let sizes: Vec<_> = numbers_after(b"[{iov_len=5}, {iov_len=}, {iov_len=66}]", b"iov_len=").collect();
        assert_eq!(sizes, [Some(5), Some(66)]);
    }
}
