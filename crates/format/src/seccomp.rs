//! What /proc/PID/status says of seccomp filters.

/// Filters of a process, from the text of its /proc/PID/status (proc(5)); `None` if it names none of the fields.
/// Kernels before 5.9 don't count them: any number is 1 then.
#[must_use]
pub fn parse_filters(status: &[u8]) -> Option<u32> {
    let mode = number_after(status, b"\nSeccomp:")?;
    Some(number_after(status, b"\nSeccomp_filters:").unwrap_or(mode.min(1)))
}

/// The number that follows `label` and blanks.
fn number_after(text: &[u8], label: &[u8]) -> Option<u32> {
    let at = text.windows(label.len()).position(|window| window == label)? + label.len();
    let digits = text[at..].iter().skip_while(|byte| matches!(byte, b' ' | b'\t'));
    let mut number = None;
    for digit in digits.take_while(|byte| byte.is_ascii_digit()) {
        number = Some(number.unwrap_or(0u32).wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_a_status_are_counted() {
        let status = b"Name:\tcat\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t13\nSpeculation:\tx\n";
        assert_eq!(parse_filters(status), Some(13));
        assert_eq!(parse_filters(b"Name:\tcat\nSeccomp:\t2\n"), Some(1), "Linux before 5.9");
        assert_eq!(parse_filters(b"Name:\tcat\nSeccomp:\t0\nSeccomp_filters:\t0\n"), Some(0));
        assert_eq!(parse_filters(b"Name:\tcat\n"), None);
        assert_eq!(parse_filters(b"Name:\tcat\nSeccomp:\tnone\n"), None);
    }
}
