//! Text in which nothing acts on who shows it: names of files, programs and nodes are data, not orders.
//!
//! As `iotrail.visible` in Python: what a terminal would obey is shown as `\x1b`.

use std::borrow::Cow;
use std::io;

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

/// C0 and C1 without the line end (ISO/IEC 6429), line and paragraph separators, directions (Unicode annex 9).
fn is_obeyed(letter: char) -> bool {
    letter != '\n' && letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
}
