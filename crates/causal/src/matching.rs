//! Which calls belong together.
