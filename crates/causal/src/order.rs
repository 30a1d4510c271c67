//! Which operations come after which others, besides what edges say.

/// An operation: its thread, and its index among those of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpRef {
    /// Number of the thread.
    pub thread: u32,
    /// Index in its operations.
    pub index: u32,
}

/// Operations that can't begin before others have ended, such as a read of what another thread writes.
///
/// An operation has ended once its thread has got past it: one that no script holds ends with the next of its thread that a
/// script does hold, or with its thread.
pub trait Order {
    /// The operations that have to end before this one begins.
    fn after(&self, op: OpRef) -> impl Iterator<Item = OpRef>;
}

/// Nothing comes after anything.
impl Order for () {
    fn after(&self, _: OpRef) -> impl Iterator<Item = OpRef> {
        std::iter::empty()
    }
}
