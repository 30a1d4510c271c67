//! Why recording could not start.

use std::fmt;

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
