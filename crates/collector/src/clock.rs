//! The time now.

use std::time::SystemTime;

/// ns since the epoch.
pub fn now_ns() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX))
}
