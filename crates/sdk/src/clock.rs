//! The counter that stamps records.

/// Counter ticks now. x86-64's time-stamp counter, which is synchronous over cores where the
/// recorder runs at all (`constant_tsc`, `nonstop_tsc`; the recorder checks). Unfenced: two reads
/// around a call cost 23 ns, with fences twice that, and the order against a system call holds.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(miri)]
    {
        static NOW: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(1);
        NOW.fetch_add(1, core::sync::atomic::Ordering::Relaxed)
    }
    // SAFETY: RDTSC exists on every x86-64 processor and has no side effect.
    #[cfg(not(miri))]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}
