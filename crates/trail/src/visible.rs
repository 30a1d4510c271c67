//! Text in which nothing acts on who shows it: names of files, programs and nodes are data, not orders.
//!
//! As `iotrail.visible` in Python: what a terminal would obey is shown as `\x1b`.

use std::borrow::Cow;
use std::io;
use std::time::{Duration, Instant};

/// Writes a line to stderr. Whoever read it may be gone (`2>&1 | head`), or its disk full, which is no reason to stop.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!($crate::Visible(std::io::stderr()), $($text)*);
    }};
}

/// Lines that a peer or a disk that fails causes again and again: they must not fill a log.
#[derive(Default)]
pub struct Seldom {
    last: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// Between two lines at least.
    const PAUSE: Duration = Duration::from_secs(10);

    /// Says a line and how many before it were left out, unless one was said a moment ago.
    pub fn say(&mut self, line: &str) {
        if let Some(line) = self.line(line, Instant::now()) {
            say!("{line}");
        }
    }

    fn line(&mut self, line: &str, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.duration_since(last) < Self::PAUSE) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        match std::mem::take(&mut self.left_out) {
            0 => Some(line.to_owned()),
            more => Some(format!("{line} ({more} such lines before it were left out)")),
        }
    }
}

/// The text with what a terminal would obey shown; line ends stay.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            _ if !is_obeyed(letter) => shown.push(letter),
            _ if letter <= '\u{ff}' => shown.push_str(&format!("\\x{:02x}", u32::from(letter))),
            _ => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
        }
    }
    Cow::Owned(shown)
}

/// As [`visible`], line ends too: for a name within a line.
#[must_use]
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}

/// C0 and C1 without the line end (ISO/IEC 6429), line and paragraph separators, directions (Unicode annex 9), what has no
/// width.
fn is_obeyed(letter: char) -> bool {
    letter != '\n' && letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// A file of which a terminal obeys nothing but line ends. Each write must hold whole characters, as `write!`'s do.
pub struct Visible<W>(pub W);

impl<W: io::Write> io::Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(visible(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        assert_eq!(visible("data/ä 漢.db"), "data/ä 漢.db");
        assert_eq!(visible("a\x1b[2Kb\r\t\x7f\u{9b}31m\u{202e}c"), "a\\x1b[2Kb\\r\\t\\x7f\\x9b31m\\u202ec");
        assert_eq!((visible("a\nb").as_ref(), one_line("a\nb").as_str()), ("a\nb", "a\\nb"));
        let (mut out, name) = (Vec::new(), "é\x07");
        writeln!(Visible(&mut out), "{}: {}", name, 1).unwrap();
        assert_eq!(out, "é\\x07: 1\n".as_bytes());
    }

    #[test]
    fn lines_that_come_again_and_again_are_said_seldom() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        let mut line = |seconds| seldom.line("x", start + Duration::from_secs(seconds));
        assert_eq!(line(0).as_deref(), Some("x"));
        assert_eq!((line(1), line(9)), (None, None));
        assert_eq!(line(10).as_deref(), Some("x (2 such lines before it were left out)"));
        assert_eq!((line(19), line(21).as_deref()), (None, Some("x (1 such lines before it were left out)")));
    }

    #[test]
    fn python_and_the_pages_show_the_same() {
        let held: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/obeyed.json")).unwrap();
        let code = |at: &serde_json::Value| u32::from_str_radix(at.as_str().unwrap(), 16).unwrap();
        let ranges: Vec<_> = held["ranges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|range| code(&range[0])..=code(&range[1]))
            .collect();
        for letter in '\0'..=char::MAX {
            let obeyed = ranges.iter().any(|range| range.contains(&u32::from(letter)));
            assert_eq!(is_obeyed(letter), obeyed, "{letter:?}");
        }
        for pair in held["shown"].as_array().unwrap() {
            assert_eq!(visible(pair[0].as_str().unwrap()), pair[1].as_str().unwrap());
        }
    }
}
