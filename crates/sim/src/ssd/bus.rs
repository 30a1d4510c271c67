//! Something that serves one user after the other at a fixed rate: a link, or a memory.

use crate::Nanos;

#[derive(Clone, Debug)]
pub(super) struct Bus {
    bytes_per_second: u64,
    access: Nanos,
    free_at: Nanos,
}

impl Bus {
    /// `access` is the time of each use apart from its bytes.
    pub fn new(bytes_per_second: u64, access: Nanos) -> Self {
        Self { bytes_per_second, access, free_at: 0 }
    }

    /// When bytes that are ready at `from` have passed, after all that was asked for before.
    pub fn transfer(&mut self, from: Nanos, bytes: u64) -> Nanos {
        self.free_at = self.free_at.max(from) + self.access + transfer_time(bytes, self.bytes_per_second);
        self.free_at
    }
}

/// Time of a transfer, rounded down to nanoseconds.
pub(super) fn transfer_time(bytes: u64, bytes_per_second: u64) -> Nanos {
    match bytes.checked_mul(1_000_000_000) {
        Some(scaled) => scaled / bytes_per_second,
        None => (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second)) as Nanos,
    }
}
