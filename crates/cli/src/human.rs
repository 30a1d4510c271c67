//! Numbers as people read them.

use std::time::Duration;

/// A number with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, in the plural where that is due.
pub fn counted(number: u64, noun: &str) -> String {
    let grouped = count(number);
    let (head, tail) = noun.split_once(' ').map_or((noun, ""), |(head, _)| (head, &noun[head.len()..]));
    // Only "process still running" has its noun in front of the rest.
    match (number, head) {
        (1, _) => format!("{grouped} {noun}"),
        (_, "process") => format!("{grouped} processes{tail}"),
        (_, "Go") => format!("{grouped} {noun}s"),
        (_, "ring" | "submission" | "program" | "file") => format!("{grouped} {head}s{tail}"),
        _ => format!("{grouped} {noun}s"),
    }
}

/// A time, in whole milliseconds; shorter ones in microseconds.
pub fn duration(time: Duration) -> humantime::FormattedDuration {
    let micros = time.as_micros() as u64;
    let rounded = if micros < 1000 { micros } else { micros / 1000 * 1000 };
    humantime::format_duration(Duration::from_micros(rounded))
}

/// A size, in binary units.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1_234_567, "call"), "1,234,567 calls");
        assert_eq!(counted(1, "process"), "1 process");
        assert_eq!(counted(2, "process still running"), "2 processes still running");
        assert_eq!(counted(3, "ring of io_uring"), "3 rings of io_uring");
        assert_eq!(counted(2, "setuid program"), "2 setuid programs");
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(1 << 30), "1.0 GiB");
    }
}
