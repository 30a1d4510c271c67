//! Requests at MDSs: `client_request`, `peer_request` and an MDS's own work, in the words of `MClientRequest::print`
//! (ceph/src/messages) and `MDRequestImpl::_dump` (ceph/src/mds/Mutation.cc).
//!
//! An MDS that forwards says to which rank, not to whom; the one to which a request comes knows how often it was
//! forwarded. So forwards have breadcrumbs that are numbered (see the module above), and the stitch is told by the
//! one to which it comes; the collector knows where the other's is. The client sends a forwarded request again
//! (`MDSRank::forward_message_mds`), so an MDS is through with one when it has forwarded it.
//!
//! A request that changes something is replied to early, before it is in the journal; what it did after that is
//! behind its reply. The row `journal` is the time until its event was durable.

use super::{Moment, Requests, earliest, kind_of_event, last};
use crate::outbox::{Outbox, ServiceOp, Stitch};
use iotrail_format::wire::UNKNOWN_NODE;

/// What a client's request says.
#[derive(Debug, PartialEq, Eq)]
struct Described<'a> {
    reqid: &'a str,
    op: &'a str,
    path: Option<&'a str>,
    /// How often it was forwarded before.
    forwards: u32,
}

impl Requests {
    pub(super) fn mds(&mut self, description: &str, moments: &[Moment<'_>], out: &mut Outbox) -> bool {
        if let Some(text) = description.strip_prefix("client_request(") {
            let Some(described) = client_request(text) else { return false };
            self.of_client(&described, moments, out);
            return true;
        }
        // Until Octopus peers were slaves.
        let peer =
            description.strip_prefix("peer_request:").or_else(|| description.strip_prefix("slave_request:"));
        if let Some(reqid) = peer.map(|text| text.split(' ').next().unwrap_or(text)) {
            let (fs, member) = (self.teller.fs.clone(), self.teller.member.clone());
            let crumb = self.crumb(&[&fs, reqid, "peer", &member]);
            let parent = self.crumb(&[&fs, reqid]);
            self.serving(crumb, "server", "peer_request", reqid, moments, out);
            self.works_for(crumb, parent, earliest(moments), out);
            return true;
        }
        if let Some(rest) = description.strip_prefix("internal op ") {
            let (op, reqid) = rest.split_once(':').unwrap_or((rest, ""));
            let fs = self.teller.fs.clone();
            let crumb = self.crumb(&[&fs, reqid]);
            self.serving(crumb, "internal", op, reqid, moments, out);
            return true;
        }
        // Locks, caps and the like, which newer releases track too, are no requests.
        true
    }

    fn of_client(&mut self, described: &Described<'_>, moments: &[Moment<'_>], out: &mut Outbox) {
        let fs = self.teller.fs.clone();
        let forwarded = moments.iter().any(|moment| moment.name.starts_with("forwarding request to "));
        let crumb = if forwarded {
            self.crumb(&[&fs, described.reqid, "forward", &described.forwards.to_string()])
        } else {
            self.crumb(&[&fs, described.reqid])
        };
        let file = described.path.map(|path| self.names.tell(&format!("{fs}/{path}"), out));
        let (client, tid) = described.reqid.split_once(':').unwrap_or((described.reqid, ""));
        let ts = earliest(moments);
        let reply = last(moments, "early_replied")
            .or_else(|| last(moments, "replying"))
            .or_else(|| last(moments, "done"));
        out.service_op(ServiceOp {
            ts,
            dur: reply.map(|reply| reply - ts),
            thread: self.teller.thread,
            crumb,
            component: "mds",
            kind: "server",
            op: described.op,
            client: Some(client),
            status: reply.map(|_| 0),
            file,
            span: tid.parse().ok(),
            ..ServiceOp::default()
        });
        if let Some(before) = described.forwards.checked_sub(1) {
            let parent = self.crumb(&[&fs, described.reqid, "forward", &before.to_string()]);
            self.works_for(crumb, parent, ts, out);
        }
        self.events(crumb, moments, out);
    }

    /// Something an MDS does that is no client's request.
    fn serving(
        &mut self,
        crumb: i64,
        kind: &str,
        op: &str,
        reqid: &str,
        moments: &[Moment<'_>],
        out: &mut Outbox,
    ) {
        let ts = earliest(moments);
        let done = last(moments, "done");
        out.service_op(ServiceOp {
            ts,
            dur: done.map(|done| done - ts),
            thread: self.teller.thread,
            crumb,
            component: "mds",
            kind,
            op,
            status: done.map(|_| 0),
            span: reqid.rsplit_once(':').and_then(|(_, tid)| tid.parse().ok()),
            ..ServiceOp::default()
        });
        self.events(crumb, moments, out);
    }

    /// Another MDS's breadcrumb, of which only the number is known, is worked for.
    fn works_for(&self, crumb: i64, parent_crumb: i64, ts: i64, out: &mut Outbox) {
        out.stitch(Stitch {
            ts,
            node: None,
            thread: self.teller.thread,
            crumb,
            parent_node: Some(UNKNOWN_NODE),
            parent_crumb,
            kind: "rpc",
            weight: 1,
            how: None,
        });
    }

    fn events(&self, crumb: i64, moments: &[Moment<'_>], out: &mut Outbox) {
        let mut submitted = None;
        for moment in moments {
            match moment.name {
                "initiated" | "throttled" | "header_read" | "all_read" | "early_replied" | "replying"
                | "finishing request" | "cleaned up request" | "done" => {}
                name if name.starts_with("submit entry") => submitted = Some(moment.ts),
                name if name.starts_with("journal_committed") => {
                    if let Some(ts) = submitted.take() {
                        out.service_op(ServiceOp {
                            ts,
                            dur: Some(moment.ts - ts),
                            thread: self.teller.thread,
                            crumb,
                            component: "mds",
                            kind: "internal",
                            op: "journal",
                            status: Some(0),
                            ..ServiceOp::default()
                        });
                    }
                }
                name if name.starts_with("forwarding request") => {
                    self.instant("mds", crumb, *moment, "forward", out);
                }
                name => self.instant("mds", crumb, *moment, kind_of_event(name), out),
            }
        }
    }
}

/// `client.4145:2 create #0x1/x 2026-11-20T22:40:30.578791+0000 FWD=2 caller_uid=0, caller_gid=0{})`
fn client_request(text: &str) -> Option<Described<'_>> {
    let (reqid, rest) = text.split_once(' ')?;
    let op = rest.split([' ', ')']).next().filter(|op| !op.is_empty())?;
    // Names may hold anything, spaces too; the time behind them is the last word of its form.
    let stamp = rest.rmatch_indices(" 20").map(|(at, _)| at).find(|at| is_stamp(&rest.as_bytes()[at + 1..]));
    let (named, flags) = match stamp {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, rest),
    };
    let path = named.find(" #").map(|at| &named[at + 1..]).map(|path| {
        // A second path, of a rename or a link.
        path.find(" #0x").map_or(path, |second| &path[..second])
    });
    let forwards = flags
        .split(' ')
        .find_map(|word| word.strip_prefix("FWD="))
        .and_then(|number| number.parse().ok())
        .unwrap_or(0);
    Some(Described { reqid, op, path: path.filter(|_| stamp.is_some()), forwards })
}

/// Whether text begins with `2026-11-20T22:40:30.`
fn is_stamp(text: &[u8]) -> bool {
    text.len() > 20
        && text[4] == b'-'
        && text[7] == b'-'
        && text[10] == b'T'
        && text[13] == b':'
        && text[19] == b'.'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions() {
        let at = "2026-11-20T22:40:30.578791+0000";
        for (text, op, path, forwards) in [
            (
                format!("client.4145:2 create #0x1/x {at} FWD=2 caller_uid=0, caller_gid=0{{}})"),
                "create",
                Some("#0x1/x"),
                2,
            ),
            (
                format!("client.4145:2 getattr pAsLsXsFs #0x1 {at} caller_uid=0, caller_gid=0{{}})"),
                "getattr",
                Some("#0x1"),
                0,
            ),
            (
                format!("client.4145:2 rename #0x1/g 0 #0x1/f0 {at} RETRY=1 caller_uid=0, caller_gid=0{{}})"),
                "rename",
                Some("#0x1/g 0"),
                0,
            ),
            (
                format!("client.4145:2 lookup #0x1/a FWD=7 20 {at} caller_uid=0)"),
                "lookup",
                Some("#0x1/a FWD=7 20"),
                0,
            ),
            ("client.4145:2 open)".to_owned(), "open", None, 0),
        ] {
            let described = client_request(&text).expect(&text);
            assert_eq!((described.reqid, described.op), ("client.4145:2", op), "{text}");
            assert_eq!((described.path, described.forwards), (path, forwards), "{text}");
        }
        assert_eq!(client_request("nothing"), None);
        assert_eq!(client_request("client.4145:2 "), None);
    }
}
