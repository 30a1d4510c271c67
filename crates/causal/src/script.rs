//! What threads do.

/// What a thread does while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// It sleeps until it is woken.
    Sleep,
    /// It looks again and again, and gives its CPU away in between (sched_yield(2)), as ranks of Open MPI do.
    Yield,
    /// It looks again and again.
    Spin,
}

impl Style {
    /// The name in a trail.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Yield => "yield",
            Self::Spin => "spin",
        }
    }

    /// The style of a name in a trail.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Sleep, Self::Yield, Self::Spin].into_iter().find(|style| style.name() == name)
    }
}

/// One thing that a thread does. Times are ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Is on a CPU for so long.
    Compute(i64),
    /// Does nothing for so long: it sleeps, or waits for a timer.
    Rest(i64),
    /// Does the operation of this index, of those of its thread.
    Io(u32),
    /// Gives one of the signals of an edge.
    Signal(u32),
    /// Goes on when all signals of an edge have been given.
    Wait(u32, Style),
    /// Goes on when it has a lock, which no other has meanwhile.
    Lock(u32),
    /// Gives the lock back.
    Unlock(u32),
}

/// What one thread does, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its steps.
    pub steps: Vec<Step>,
}

/// What all threads do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripts {
    /// By number of the thread.
    pub threads: Vec<Script>,
    /// How many signals each edge has: as many as there are steps [`Step::Signal`] of it.
    pub signals: Vec<u32>,
    /// How many locks there are.
    pub locks: u32,
}
