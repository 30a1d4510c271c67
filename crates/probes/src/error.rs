//! Why recording could not start.

use std::error::Error;
use std::{fmt, io, iter};

/// No backend could be used. For each one tried: why.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    pub bpf: Option<String>,
    pub tracefs: Option<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel's events can't be recorded")?;
        for (name, reason) in [("eBPF", &self.bpf), ("tracefs", &self.tracefs)] {
            if let Some(reason) = reason {
                write!(f, "; {name}: {reason}")?;
            }
        }
        write!(f, "\n  hint: run as root, or give the recorder CAP_BPF and CAP_PERFMON")?;
        write!(f, " (sudo setcap cap_bpf,cap_perfmon+ep iotrail-native)")
    }
}

/// An error and what caused it, on one line: what a verifier has to say takes thousands. What the kernel doesn't
/// permit is said without the detour.
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    let causes = || iter::successors(Some(error), |&error| error.source());
    let denied = |cause: &io::Error| cause.kind() == io::ErrorKind::PermissionDenied;
    if let Some(cause) = causes().filter_map(|cause| cause.downcast_ref()).find(|cause| denied(cause)) {
        return cause.to_string();
    }
    let mut lines: Vec<String> = causes()
        .map(|cause| cause.to_string().lines().next().unwrap_or_default().trim().to_owned())
        .collect();
    // Most messages of aya repeat their cause.
    lines.dedup_by(|cause, error| error.contains(cause.as_str()));
    lines.join(": ")
}
