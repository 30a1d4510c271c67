//! Times as Ceph prints them: `2026-11-20T22:55:00.426797+0000` (`utime_t::localtime`, ceph/src/include/utime.h).
//!
//! Years of rows share their day, which is why it is computed once.

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// Reads times, and puts them on the trail's clock.
#[derive(Debug, Default)]
pub struct Stamps {
    day: [u8; 10],
    day_ns: i64,
    zone: [u8; 5],
    zone_ns: i64,
    from_wall: i64,
}

impl Stamps {
    /// Puts later times on the trail's clock by adding this to the wall clock's. In whole hundredths of a second, so
    /// that a request that is told twice has the same time: only a stepped clock makes more of a difference.
    pub fn from_wall(&mut self, from_wall: i64) {
        const STEP: i64 = 10_000_000;
        self.from_wall = (from_wall + STEP / 2).div_euclid(STEP) * STEP;
    }

    /// A time on the trail's clock as the wall clock had it.
    #[must_use]
    pub fn to_wall(&self, ts: i64) -> i64 {
        ts - self.from_wall
    }

    /// Nanoseconds since the epoch; none if it is no time.
    pub fn parse(&mut self, text: &str) -> Option<i64> {
        let text = text.as_bytes();
        let (day, rest) = text.split_first_chunk::<10>()?;
        let (clock, rest) = rest.split_first_chunk::<16>()?;
        let zone: [u8; 5] = rest.try_into().ok()?;
        if !matches!(clock[0], b'T' | b' ') || clock[3] != b':' || clock[6] != b':' || clock[9] != b'.' {
            return None;
        }
        if *day != self.day {
            self.day_ns = 86_400 * SECOND * days(day)?;
            self.day = *day;
        }
        if zone != self.zone {
            self.zone_ns = offset(&zone)?;
            self.zone = zone;
        }
        let seconds = (digits(&clock[1..3])? * 60 + digits(&clock[4..6])?) * 60 + digits(&clock[7..9])?;
        Some(self.day_ns + seconds * SECOND + digits(&clock[10..])? * 1_000 - self.zone_ns + self.from_wall)
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |number, c| c.is_ascii_digit().then(|| number * 10 + i64::from(c - b'0')))
}

fn offset(zone: &[u8; 5]) -> Option<i64> {
    let ns = (digits(&zone[1..3])? * 60 + digits(&zone[3..5])?) * 60 * SECOND;
    match zone[0] {
        b'+' => Some(ns),
        b'-' => Some(-ns),
        _ => None,
    }
}

/// Days since the epoch (Howard Hinnant, "chrono-compatible low-level date algorithms", days_from_civil).
fn days(day: &[u8; 10]) -> Option<i64> {
    if day[4] != b'-' || day[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&day[..4])?, digits(&day[5..7])?, digits(&day[8..])?);
    // What fits ns since the epoch, whatever is added to it.
    if !(1970..2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let mut stamps = Stamps::default();
        assert_eq!(stamps.parse("1970-01-01T00:00:00.000000+0000"), Some(0));
        // date -u -d '2026-11-20T22:55:00Z' +%s
        assert_eq!(stamps.parse("2026-11-20T22:55:00.426797+0000"), Some(1_795_215_300_426_797_000));
        assert_eq!(stamps.parse("2026-11-21T00:55:00.426797+0200"), Some(1_795_215_300_426_797_000));
        assert_eq!(stamps.parse("2026-11-20T17:25:00.426797-0530"), Some(1_795_215_300_426_797_000));
        assert_eq!(stamps.parse("2024-02-29T00:00:00.000001+0000"), Some(1_709_164_800_000_001_000));
        stamps.from_wall(2 * SECOND + 7);
        assert_eq!(stamps.parse("1970-01-01T00:00:00.000000+0000"), Some(2 * SECOND));
        for bad in [
            "",
            "2026-11-20T22:55:00.426797",
            "2026-13-20T22:55:00.426797+0000",
            "never",
            "1926-11-20T22:55:00.426797+0000",
            "9026-11-20T22:55:00.426797+0000",
            "2026-11-20T22:55:00.42679x+0000",
        ] {
            assert_eq!(stamps.parse(bad), None, "{bad}");
        }
    }
}
