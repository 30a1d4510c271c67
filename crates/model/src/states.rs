//! States: ranges of addresses, four in each coarser one.

/// The states of one device at a number of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States {
    /// End of the addresses, in bytes.
    pub reach: u64,
    /// How often ranges were divided in four.
    pub levels: u32,
}

impl States {
    /// How many there are.
    #[must_use]
    pub fn count(self) -> u64 {
        1 << (2 * self.levels)
    }

    /// The state of an address.
    #[must_use]
    pub fn of(self, pos: u64) -> u64 {
        let (count, reach) = (self.count(), self.reach.max(1));
        // Division of 64 bits is much faster.
        let state = match pos.checked_mul(count) {
            Some(product) => product / reach,
            None => (u128::from(pos) * u128::from(count) / u128::from(reach)) as u64,
        };
        state.min(count - 1)
    }

    /// First address of a state, and the first one after it.
    #[must_use]
    pub fn range(self, state: u64) -> (u64, u64) {
        // The least address whose product with the count reaches the state's: the inverse of `of`.
        let first = |state: u64| {
            ((u128::from(state) * u128::from(self.reach) + u128::from(self.count() - 1)) >> (2 * self.levels))
                as u64
        };
        (first(state), first(state + 1))
    }
}
