//! When a line was printed: all forms of -t and -r as nanoseconds since the epoch.
//!
//! Times that are relative to nothing known begin at [`RELATIVE_START`], a fixed moment, so that the same
//! trace is the same trail every time.

use serde::Serialize;

use crate::lines::{Line, digits, is_clock};

/// 2000-01-01T00:00:00Z.
const RELATIVE_START: i64 = 946_684_800 * SECOND;
/// Between lines that have no times of their own.
const STEP: i64 = 1_000;
/// Later, which is beyond 2116, is garbage.
const LAST: i64 = 1 << 62;
const SECOND: i64 = 1_000_000_000;
const HALF_DAY: i64 = 12 * 3600 * SECOND;
/// Lines that are looked at for a time.
const LOOKED_AT: usize = 200;

/// Which of -t, -tt, -ttt and -r were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Neither: each line is 1 µs after the last.
    None,
    /// -r: the time since the line before.
    Delta,
    /// -t: the time of day in seconds; lines of a second are 1 µs apart.
    Seconds,
    /// -tt: the time of day.
    Clock,
    /// -ttt: since the epoch.
    Epoch,
}

/// What the first lines of a file say about its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Times {
    /// Form of the stamps.
    pub form: Form,
    /// Whether calls have the time they took (-T).
    pub took: bool,
}

impl Times {
    /// Looks at the first bytes of a file.
    pub(crate) fn of(head: &[u8]) -> Self {
        let stamp = head
            .split(|byte| *byte == b'\n')
            .take(LOOKED_AT)
            .map(|line| Line::parse(line).stamp)
            .find(|stamp| !stamp.is_empty());
        let form = match stamp {
            None => Form::None,
            Some(stamp) if is_clock(stamp) => {
                if stamp.len() > 8 {
                    Form::Clock
                } else {
                    Form::Seconds
                }
            }
            // Until 1973, seconds since the epoch had eight digits.
            Some(stamp) if stamp.iter().position(|byte| *byte == b'.') < Some(9) => Form::Delta,
            Some(_) => Form::Epoch,
        };
        let took = head.split(|byte| *byte == b'\n').any(|line| duration(line).is_some());
        Self { form, took }
    }
}

/// Turns stamps into times, line after line.
#[derive(Debug)]
pub(crate) struct Clock {
    form: Form,
    /// Midnights passed, in ns.
    days: i64,
    /// Time of the line before; 0 if there is none.
    last: i64,
    /// Lines earlier than the one before.
    pub(crate) backwards: u64,
}

impl Clock {
    /// Starts before the first line of a file.
    pub(crate) fn new(form: Form) -> Self {
        Self { form, days: 0, last: 0, backwards: 0 }
    }

    /// The next line's time; none if its stamp is garbage.
    pub(crate) fn next(&mut self, stamp: &[u8]) -> Option<i64> {
        let before = if self.last == 0 { RELATIVE_START } else { self.last };
        let ts = match self.form {
            Form::None => before + STEP,
            Form::Epoch | Form::Clock | Form::Seconds if stamp.is_empty() => return Some(self.last),
            Form::Epoch => seconds(stamp)?,
            Form::Delta if stamp.is_empty() => before,
            Form::Delta => before.checked_add(seconds(stamp)?)?,
            Form::Clock | Form::Seconds => self.time_of_day(stamp)?,
        };
        if ts >= LAST {
            return None;
        }
        if ts < self.last {
            self.backwards += 1;
        }
        self.last = ts;
        Some(ts)
    }

    fn time_of_day(&mut self, stamp: &[u8]) -> Option<i64> {
        if !is_clock(stamp) {
            return None;
        }
        let two = |at: usize| i64::from(stamp[at] - b'0') * 10 + i64::from(stamp[at + 1] - b'0');
        let within = (two(0) * 3600 + two(3) * 60) * SECOND + seconds(&stamp[6..])?;
        let mut ts = RELATIVE_START + self.days + within;
        if self.last != 0 && ts < self.last - HALF_DAY {
            self.days += 2 * HALF_DAY;
            ts += 2 * HALF_DAY;
        }
        if self.form == Form::Seconds && self.last >= ts && ts > self.last - SECOND {
            ts = self.last + STEP;
        }
        Some(ts)
    }
}

/// How long a call took by the end of its line, `<0.000011>`, in ns; none if that isn't there.
pub(crate) fn duration(line: &[u8]) -> Option<i64> {
    let inner = line.strip_suffix(b">")?;
    let (whole, rest) = digits(&inner[memchr::memrchr(b'<', inner)? + 1..])?;
    let fraction = rest.strip_prefix(b".")?;
    let (_, b"") = digits(fraction)? else { return None };
    Some(i64::from(whole) * SECOND + nanoseconds(fraction))
}

/// Seconds with or without a fraction, in ns; none if they are no number or too many.
fn seconds(text: &[u8]) -> Option<i64> {
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let whole: i64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
    whole.checked_mul(SECOND)?.checked_add(nanoseconds(fraction))
}

/// Digits behind the point, in ns; what is less than one is cut off.
fn nanoseconds(fraction: &[u8]) -> i64 {
    let digit = |at: usize| fraction.get(at).map_or(0, |digit| i64::from(digit - b'0'));
    (0..9).fold(0, |value, at| value * 10 + digit(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, stamps: &[&str]) -> Vec<Option<i64>> {
        let mut clock = Clock::new(form);
        stamps.iter().map(|stamp| clock.next(stamp.as_bytes()).map(|ts| ts - RELATIVE_START)).collect()
    }

    #[test]
    fn forms_are_told_by_the_first_stamp() {
        for (head, form, took) in [
            ("close(3) = 0\n", Form::None, false),
            ("\n\n7 12:00:00 close(3) = 0 <0.000001>\n", Form::Seconds, true),
            ("12:00:00.5 close(3) = 0\n", Form::Clock, false),
            ("  0.000012 close(3) = 0\n", Form::Delta, false),
            ("1700000000.000001 close(3</a>) = 4</a>\n", Form::Epoch, false),
            ("1700000000.000001 close(3) = 0 <0.1>", Form::Epoch, true),
        ] {
            assert_eq!(Times::of(head.as_bytes()), Times { form, took }, "{head}");
        }
    }

    #[test]
    fn whole_seconds_over_midnight_stay_in_order() {
        let day = 2 * HALF_DAY;
        assert_eq!(
            read(Form::Seconds, &["23:59:59", "23:59:59", "00:00:00", "00:00:00", "00:00:01"]),
            [day - SECOND, day - SECOND + STEP, day, day + STEP, day + SECOND].map(Some)
        );
        assert_eq!(
            read(Form::Clock, &["23:59:59.9", "00:00:00.1", "23:59:59.9", "00:00:00.000000001"]),
            [day - SECOND / 10, day + SECOND / 10, 2 * day - SECOND / 10, 2 * day + 1].map(Some)
        );
    }

    #[test]
    fn relative_times_add_up_and_none_step() {
        assert_eq!(
            read(Form::Delta, &["0.000000", "0.000012", "", "1.5"]),
            [0, 12_000, 12_000, 1_500_012_000].map(Some)
        );
        assert_eq!(read(Form::None, &["", "", ""]), [STEP, 2 * STEP, 3 * STEP].map(Some));
    }

    #[test]
    fn backwards_is_counted_and_garbage_refused() {
        let mut clock = Clock::new(Form::Epoch);
        assert_eq!(clock.next(b"1700000001.000001"), Some(1_700_000_001_000_001_000));
        assert_eq!(clock.next(b"1700000000.000000000999"), Some(1_700_000_000 * SECOND));
        assert_eq!(clock.backwards, 1);
        for stamp in ["99999999999999.000000", "99999999999999999999999.0", "4611686019.0", "12:00:00"] {
            assert_eq!(clock.next(stamp.as_bytes()), None, "{stamp}");
        }
        assert_eq!(clock.next(b""), Some(1_700_000_000 * SECOND), "a line without time is of the last one's");
        assert_eq!(read(Form::Clock, &["1700000000.0"]), [None]);
    }

    #[test]
    fn durations() {
        for (line, expected) in [
            (" = 0 <0.000011>", Some(11_000)),
            (" = 3</a> <12.5>", Some(12_500_000_000)),
            (" = 0 <999999999.999999999>", Some(999_999_999_999_999_999)),
            (" = 3</a>", None),
            (" = 0 <0.1234567890>", None),
            (" = 0 <.1>", None),
            (" = 0 <1>", None),
            ("", None),
        ] {
            assert_eq!(duration(line.as_bytes()), expected, "{line}");
        }
    }
}
