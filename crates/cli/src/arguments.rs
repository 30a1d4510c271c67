//! Arguments that several verbs take alike.

use iotrail_format::segment::NODE_BYTES;

/// A size as people write it: bytes, or with K, M, G.
pub fn size(text: &str) -> Result<u64, String> {
    let upper = text.trim().to_ascii_uppercase();
    let digits = upper.trim_end_matches("IB").trim_end_matches('B');
    let (number, unit) = match digits.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => digits.split_at(at),
        None => (digits, ""),
    };
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("expected a number of bytes, or one with K, M or G, such as 256M".into()),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number, such as 256M".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// A name that goes into message headers and file names.
pub fn node_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > NODE_BYTES || text.chars().any(char::is_control) {
        return Err(format!("expected 1 to {NODE_BYTES} bytes without control characters"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(size("256M"), Ok(256 << 20));
        assert_eq!(size("1g"), Ok(1 << 30));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("33554432"), Ok(32 << 20));
        for wrong in ["", "x", "12Q", "99999999999999999999G", "-5M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
