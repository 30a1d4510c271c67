//! Breadcrumbs in the headers of messages between processes: W3C Trace Context.
//!
//! `traceparent` is `00-TRACE-PARENT-01`: 32 and 16 hexadecimal digits. The parent is the sender's breadcrumb;
//! the trace is the request's: an incoming one is handed on, so that other tracing systems on the way see one
//! trace. `tracestate` holds the sender's node and the breadcrumb once more, as `iotrail=NODE:PARENT`. Other tracing systems
//! hand it on as it is beside parents of their own: a parent that isn't that one is no breadcrumb. Then trace and parent
//! together are the parent's key, on a node of this name: [`FOREIGN_NODE`].

use iotrail_format::context::{LONGEST_NODE, breadcrumb, member};
use iotrail_format::ids::hash63;

use crate::api;
use crate::request::{Crumb, Symbol};

/// Node of parents that another tracing system made.
pub const FOREIGN_NODE: &str = "opentelemetry";

/// The trace a request belongs to, for other tracing systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(u128);

impl TraceId {
    /// That of a request that begins here.
    #[must_use]
    pub fn of(request: Crumb) -> Self {
        let node = hash63(api::node().as_bytes()) as u128;
        Self(((node << 64) | request.raw() as u64 as u128).max(1))
    }
}

/// What an incoming message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The trace.
    pub trace: TraceId,
    /// The node of the parent.
    pub node: Symbol,
    /// The parent.
    pub parent: Crumb,
    /// Whether another tracing system made the parent, so that it is no breadcrumb.
    pub foreign: bool,
}

impl Incoming {
    /// Reads the headers of a message.
    ///
    /// # Errors
    /// [`BadContext`]: such a message is a request that begins here.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<Self, BadContext> {
        let bad = |why| Err(BadContext(why));
        let mut parts = traceparent.trim().split('-');
        let (Some(version), Some(trace), Some(parent), Some(flags)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return bad("expected VERSION-TRACE-PARENT-FLAGS");
        };
        let digits = |text: &str, count| {
            text.len() == count && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        if !digits(version, 2) || version == "ff" {
            return bad("expected a version of two hexadecimal digits other than ff");
        }
        // A later version may have further parts; version 00 has none.
        if version == "00" && parts.next().is_some() {
            return bad("version 00 has four parts");
        }
        if !digits(trace, 32) || !digits(flags, 2) {
            return bad("expected a trace of 32 hexadecimal digits and flags of two");
        }
        if !digits(parent, 16) {
            return bad("expected a parent of 16 hexadecimal digits");
        }
        let (Ok(trace), Ok(parent)) = (u128::from_str_radix(trace, 16), u64::from_str_radix(parent, 16))
        else {
            return bad("expected hexadecimal digits");
        };
        if trace == 0 || parent == 0 {
            return bad("a trace or parent of zeros is none");
        }
        let mut room = [0; LONGEST_NODE];
        let ours = tracestate.and_then(|state| breadcrumb(state, parent, &mut room));
        let (node, parent, foreign) = match ours {
            Some((node, crumb)) => (Symbol::new(node), Crumb::from_raw(crumb), false),
            None => {
                let mut key = [0; 24];
                key[..16].copy_from_slice(&trace.to_be_bytes());
                key[16..].copy_from_slice(&parent.to_be_bytes());
                (Symbol::new(FOREIGN_NODE), Crumb::from_raw(hash63(&key)), true)
            }
        };
        Ok(Self { trace: TraceId(trace), node, parent, foreign })
    }

    /// A breadcrumb for serving it here.
    #[must_use]
    pub fn serve(&self) -> Crumb {
        Crumb::serving(self.node, self.parent)
    }
}

/// The value of `traceparent` for a message sent for `crumb`; none while nothing is recorded.
#[must_use]
pub fn traceparent(trace: TraceId, crumb: Crumb) -> Option<String> {
    (crumb != Crumb::NONE).then(|| format!("00-{:032x}-{:016x}-01", trace.0, crumb.raw()))
}

/// The value of `tracestate` that goes with it: ours before what came in.
#[must_use]
pub fn tracestate(incoming: Option<&str>, crumb: Crumb) -> String {
    let mut state = member(api::node(), crumb.raw());
    // At most 32 members (W3C Trace Context, 3.3.1.1).
    let others = incoming.unwrap_or("").split(',').map(str::trim);
    for other in others.filter(|m| !m.is_empty() && !m.starts_with("iotrail=")).take(31) {
        state.push(',');
        state.push_str(other);
    }
    state
}

/// Why a `traceparent` can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadContext(pub &'static str);

impl core::fmt::Display for BadContext {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "traceparent: {}", self.0)
    }
}

impl core::error::Error for BadContext {}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn headers_go_round() {
        let state = format!("other=1,{}", member("node,1=%:2", 77));
        let text = traceparent(TraceId(0x1234), Crumb::from_raw(77)).unwrap();
        let incoming = Incoming::parse(&text, Some(&state)).unwrap();
        assert_eq!((incoming.trace, incoming.parent), (TraceId(0x1234), Crumb::from_raw(77)));
        assert_eq!(incoming.node, Symbol::new("node,1=%:2"));
        assert!(!incoming.foreign);
    }

    /// A tracing system between two of ours hands the state on as it came, with a parent of its own.
    #[test]
    fn a_parent_that_the_state_does_not_name_is_no_breadcrumb() {
        let ours = traceparent(TraceId(0x1234), Crumb::from_raw(77)).unwrap();
        for state in ["iotrail=node", "iotrail=node:4e"] {
            let incoming = Incoming::parse(&ours, Some(state)).unwrap();
            assert!(incoming.foreign && incoming.node == Symbol::new(FOREIGN_NODE), "{state}");
        }
    }

    #[test]
    fn a_parent_of_another_system_is_the_same_each_time() {
        let text = format!("00-{TRACE}-b7ad6b7169203331-01");
        let (once, again) =
            (Incoming::parse(&text, None).unwrap(), Incoming::parse(&text, Some("x=y")).unwrap());
        assert_eq!(once, again);
        assert!(once.parent.raw() > 0);
        assert_eq!(once.node, Symbol::new(FOREIGN_NODE));
        let other = Incoming::parse(&format!("00-{TRACE}-b7ad6b7169203332-01"), None).unwrap();
        assert_ne!(once.parent, other.parent);
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        let zeros = "0".repeat(32);
        for bad in [
            String::new(),
            "garbage".into(),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-b7ad6b7169203331"),
            format!("00-{TRACE}-b7ad6b7169203331-01-more"),
            format!("00-{TRACE}-B7AD6B7169203331-01"),
            format!("00-{TRACE}-b7ad6b716920333-01"),
            format!("00-{zeros}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-0000000000000000-01"),
        ] {
            assert!(Incoming::parse(&bad, None).is_err(), "{bad}");
        }
        assert!(Incoming::parse(&format!("01-{TRACE}-b7ad6b7169203331-01-more"), None).is_ok());
    }
}
