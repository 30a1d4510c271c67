//! A breadcrumb in `tracestate` (W3C Trace Context, section 3.3): the member `iotrail=NODE:CRUMB`.
//!
//! `traceparent` beside it has the breadcrumb as its parent, 16 hexadecimal digits. Other tracing systems hand the state
//! on as it came, beside parents of their own: only a parent that it names is a breadcrumb.

/// Our key.
pub const KEY: &str = "iotrail";
/// Bytes of a node's name.
pub const LONGEST_NODE: usize = 256;

/// The member that says that the parent is this breadcrumb of this node.
#[must_use]
pub fn member(node: &str, crumb: i64) -> String {
    format!("{KEY}={}:{crumb:016x}", escape(node))
}

/// The breadcrumb that a parent is and its node, if a `tracestate` says so. Without a heap: the recorder in a program reads
/// it where there may be none yet.
#[must_use]
pub fn breadcrumb<'a>(
    tracestate: &str,
    parent: u64,
    room: &'a mut [u8; LONGEST_NODE],
) -> Option<(&'a str, i64)> {
    let mut members = tracestate.split(',').filter_map(|member| member.trim().split_once('='));
    let (_, value) = members.find(|(key, _)| *key == KEY)?;
    let (node, crumb) = value.rsplit_once(':')?;
    let is_it = u64::from_str_radix(crumb, 16) == Ok(parent) && !node.is_empty();
    let crumb = i64::try_from(parent).ok().filter(|_| is_it)?;
    Some((unescape(node, room)?, crumb))
}

/// A value has no comma, equals sign or control character (section 3.3.1.3.2).
fn escape(node: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, ',' | '=' | '%');
    node.bytes()
        .map(|b| if plain(b.into()) { char::from(b).to_string() } else { format!("%{b:02x}") })
        .collect()
}

fn unescape<'a>(text: &str, room: &'a mut [u8; LONGEST_NODE]) -> Option<&'a str> {
    let (mut rest, mut length) = (text.as_bytes(), 0);
    while let [first, tail @ ..] = rest {
        let hex = (*first == b'%').then(|| tail.get(..2)).flatten();
        let escaped = hex.and_then(|hex| u8::from_str_radix(core::str::from_utf8(hex).ok()?, 16).ok());
        *room.get_mut(length)? = escaped.unwrap_or(*first);
        length += 1;
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    core::str::from_utf8(&room[..length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breadcrumb_goes_round() {
        for node in ["node", "node,1=%:2", "a b\u{e9}", "x:0000000000000001"] {
            let state = format!("other=1, {},more=2", member(node, 77));
            assert_eq!(breadcrumb(&state, 77, &mut [0; LONGEST_NODE]), Some((node, 77)));
            assert_eq!(breadcrumb(&state, 78, &mut [0; LONGEST_NODE]), None);
        }
    }

    #[test]
    fn what_names_no_breadcrumb_is_none() {
        let long = format!("iotrail={}:4d", "n".repeat(LONGEST_NODE + 1));
        for state in [
            "",
            "iotrail",
            "iotrail=node",
            "iotrail=node:",
            "iotrail=:4d",
            "iotrail=node:x",
            "other=node:4d",
            &long,
        ] {
            assert_eq!(breadcrumb(state, 77, &mut [0; LONGEST_NODE]), None, "{state}");
        }
        let negative = member("node", -1);
        assert_eq!(breadcrumb(&negative, u64::MAX, &mut [0; LONGEST_NODE]), None);
    }
}
