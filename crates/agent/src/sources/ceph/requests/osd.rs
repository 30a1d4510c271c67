//! Requests at OSDs: `osd_op` at a primary, `osd_repop` at a replica, in the words of `MOSDOp::print` and
//! `MOSDRepOp::print` (ceph/src/messages). Left out: a replica's answer (`osd_repop_reply`), which its own record and
//! the primary's `sub_op_commit_rec` tell, and what placement groups say to each other.
//!
//! A primary says which replicas it waits for, and when an answer came, but not whose. All calls to replicas therefore
//! last until the last answer; the replicas' own records tell who was late.

use super::{Moment, Requests, Sums, earliest, kind_of_event, last};
use crate::outbox::{DiskOp, Outbox, ServiceOp, Stitch, Transmit};

/// A write is small if it has fewer bytes than this (module metric).
const SMALL: i64 = 1 << 10;
/// What a primary says when it has sent a change to replicas, in front of their numbers.
const CALLS: &str = "waiting for subops from ";
/// What tells a replica's part of a request from that request, which may come to the same OSD after a change of placement.
const REPLICA: &str = "replica";

/// What a description says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Described<'a> {
    reqid: &'a str,
    /// Pool, namespace and name.
    object: Option<(&'a str, &'a str, &'a str)>,
    op: &'a str,
    pos: Option<i64>,
    length: Option<i64>,
}

impl Requests {
    pub(super) fn osd(
        &mut self,
        description: &str,
        moments: &[Moment<'_>],
        sums: &mut Sums,
        out: &mut Outbox,
    ) -> bool {
        let (described, primary) = if let Some(text) = description.strip_prefix("osd_op(") {
            (osd_op(text), true)
        } else if let Some(text) = description.strip_prefix("osd_repop(") {
            (osd_repop(text), false)
        } else {
            return true;
        };
        let Some(described) = described else { return false };
        let Some((entity, tid)) = entity(described.reqid) else { return false };
        let member = self.teller.member.clone();
        let crumb = if primary {
            self.crumb(&[&member, described.reqid])
        } else {
            self.crumb(&[&member, described.reqid, REPLICA])
        };
        let file = described.object.map(|object| self.object(object, out));
        let ts = earliest(moments);
        let sent = last(moments, "commit_sent");
        let reply = sent.or_else(|| last(moments, "done"));
        let dur = reply.map(|reply| reply - ts);
        let called = calls(moments);
        // What was stopped by a change of placement is done without a reply; its client sends it again.
        let given_up = sent.is_none() && (!primary || !called.is_empty());
        out.service_op(ServiceOp {
            ts,
            dur,
            thread: self.teller.thread,
            crumb,
            component: "osd",
            kind: "server",
            op: described.op,
            client: primary.then_some(entity),
            status: dur.map(|_| if given_up { libc::ECANCELED.into() } else { 0 }),
            file,
            pos: described.pos,
            length: described.length,
            span: Some(tid),
        });
        for moment in moments {
            match moment.name {
                // They lie within microseconds of the arrival, or are the reply, or the end of the store's work.
                "initiated" | "throttled" | "header_read" | "all_read" | "op_commit" | "commit_sent"
                | "done" => {}
                name if name.starts_with(CALLS) => {}
                name => self.instant("osd", crumb, *moment, kind_of_event(name), out),
            }
        }
        for call in called {
            self.call(&described, crumb, &call, out);
            let bytes = described.length.unwrap_or(0).unsigned_abs();
            sums.replica_out = sums.replica_out.saturating_add(bytes);
        }
        self.store(primary, &described, crumb, moments, out);
        if let (true, "read" | "sparse-read" | "sync_read", Some(reply), Some(length)) =
            (primary, described.op, reply, described.length)
        {
            let (thread, sender) = (self.teller.thread, self.teller.member.as_str());
            out.transmit(Transmit { ts: reply, thread, crumb, sender, receiver: entity, length });
        }
        if let (true, Some(dur), Some(length)) = (primary && is_write(described.op), dur, described.length) {
            let sum = if length < SMALL { &mut sums.small } else { &mut sums.large };
            *sum = (sum.0 + 1, sum.1.saturating_add(dur));
        }
        true
    }

    /// What the store did: from the moment at which it got a change until that was durable. A primary says when it was,
    /// a replica answers then.
    fn store(
        &self,
        primary: bool,
        described: &Described<'_>,
        crumb: i64,
        moments: &[Moment<'_>],
        out: &mut Outbox,
    ) {
        let durable = last(moments, if primary { "op_commit" } else { "commit_sent" });
        let (Some(ts), Some(durable)) = (last(moments, "started"), durable) else { return };
        out.disk_op(DiskOp {
            ts,
            dur: durable - ts,
            thread: self.teller.thread,
            crumb,
            dev: &self.teller.member,
            op: "write",
            length: described.length.filter(|_| is_write(described.op)),
        });
    }

    /// The call of a primary to a replica, and whose request it becomes.
    fn call(
        &mut self,
        described: &Described<'_>,
        crumb: i64,
        &Call { peer, ts, answered }: &Call<'_>,
        out: &mut Outbox,
    ) {
        let (thread, member) = (self.teller.thread, self.teller.member.clone());
        let stitch = |out: &mut Outbox, node: Option<&str>, child, parent_crumb, kind| {
            let (parent_node, weight, how) = (None, 1, None);
            out.stitch(Stitch {
                ts,
                node,
                thread,
                crumb: child,
                parent_node,
                parent_crumb,
                kind,
                weight,
                how,
            });
        };
        let node = format!("@osd.{peer}");
        let call = self.crumb(&[&member, described.reqid, "repop", &node[1..]]);
        stitch(out, None, call, crumb, "split");
        out.service_op(ServiceOp {
            ts,
            dur: answered.map(|answered| answered - ts),
            thread,
            crumb: call,
            component: "osd",
            kind: "client",
            op: "repop",
            status: answered.map(|_| 0),
            length: described.length,
            ..ServiceOp::default()
        });
        if let Some(length) = described.length.filter(|_| is_write(described.op)) {
            let receiver = &node[1..];
            out.transmit(Transmit { ts, thread, crumb: call, sender: &member, receiver, length });
        }
        let child = self.crumb(&[&node[1..], described.reqid, REPLICA]);
        stitch(out, Some(&node), child, call, "rpc");
    }

    fn object(&mut self, (pool, space, name): (&str, &str, &str), out: &mut Outbox) -> i64 {
        let path = if space.is_empty() { format!("{pool}/{name}") } else { format!("{pool}/{space}/{name}") };
        self.names.tell(&path, out)
    }
}

/// Number of a replica that was called, when, and when the last of those called with it answered.
struct Call<'a> {
    peer: &'a str,
    ts: i64,
    answered: Option<i64>,
}

/// The calls to replicas: each once, as it was last, for what is begun anew after a change of placement calls again.
fn calls<'a>(moments: &[Moment<'a>]) -> Vec<Call<'a>> {
    let mut called: Vec<Call<'_>> = Vec::new();
    let mut answered = None;
    for Moment { name, ts } in moments.iter().rev().copied() {
        if name == "sub_op_commit_rec" {
            answered = answered.or(Some(ts));
        } else if let Some(peers) = name.strip_prefix(CALLS) {
            for peer in peers.split(',') {
                if called.iter().all(|call| call.peer != peer) {
                    called.push(Call { peer, ts, answered });
                }
            }
            answered = None;
        }
    }
    called
}

/// Entity and number of a request's id, `client.4226.0:17`: client.4226 and 17.
fn entity(reqid: &str) -> Option<(&str, i64)> {
    let (source, tid) = reqid.rsplit_once(':')?;
    let (entity, _incarnation) = source.rsplit_once('.')?;
    Some((entity, tid.parse().ok()?))
}

/// `client.4226.0:2 1.1f 1:fd93604e:::name:head [write 0~4096] snapc 0=[] ondisk+write e15)`
fn osd_op(text: &str) -> Option<Described<'_>> {
    let (reqid, rest) = text.split_once(' ')?;
    let (_pg, rest) = rest.split_once(' ')?;
    let Some((object, ops)) = rest.split_once(" [") else {
        // Not decoded before it ended: only its flags tell what it was.
        let op = if rest.contains("+write") { "write" } else { "read" };
        return Some(Described { reqid, op, ..Described::default() });
    };
    let (op, extent) = main_op(ops);
    let (pos, length) = extent.unzip();
    Some(Described { reqid, object: hobject(object), op, pos, length })
}

/// `client.4226.0:2 1.1f e15/12 1:fd93604e:::name:head v 15'295, mlcod=15'293)`
fn osd_repop(text: &str) -> Option<Described<'_>> {
    let mut parts = text.splitn(4, ' ');
    let (reqid, _pg, _epoch) = (parts.next()?, parts.next()?, parts.next()?);
    let object =
        parts.next().and_then(|rest| rest.rsplit_once(" v ")).and_then(|(object, _)| hobject(object));
    Some(Described { reqid, object, op: "repop", ..Described::default() })
}

/// Pool, namespace and name of `1:fd93604e:space:key:name:head`, in which names' own colons are escaped.
fn hobject(text: &str) -> Option<(&str, &str, &str)> {
    let mut parts = text.split(':');
    let (pool, _hash, space, _key, name) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some((pool, space, name))
}

/// Of a list of operations up to its closing bracket the one that matters, with its offset and length: what moves
/// data, else what does anything, else what only hints or guards.
fn main_op(ops: &str) -> (&str, Option<(i64, i64)>) {
    let mut best = (0, "none", None);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in ops.bytes().enumerate() {
        let ends = match c {
            b'[' | b'(' => {
                depth += 1;
                false
            }
            b']' if depth == 0 => true,
            b']' | b')' => {
                depth = depth.saturating_sub(1);
                false
            }
            b',' => depth == 0,
            _ => false,
        };
        if ends {
            let op = &ops[start..at];
            let (name, arguments) = op.split_once(' ').unwrap_or((op, ""));
            let rank = if moves_data(name) {
                3
            } else if matches!(
                name,
                "" | "set-alloc-hint" | "cmpxattr" | "omap-cmp" | "assert-version" | "stat"
            ) {
                1
            } else {
                2
            };
            if rank > best.0 {
                best = (rank, if name.is_empty() { "none" } else { name }, extent(arguments));
            }
            start = at + 1;
            if c == b']' {
                break;
            }
        }
    }
    (best.1, best.2)
}

fn is_write(op: &str) -> bool {
    matches!(op, "write" | "writefull" | "writesame" | "append")
}

fn moves_data(op: &str) -> bool {
    is_write(op) || matches!(op, "read" | "sparse-read" | "sync_read" | "zero" | "truncate" | "delete")
}

/// The first `pos~length` among arguments.
fn extent(arguments: &str) -> Option<(i64, i64)> {
    arguments.split(' ').find_map(|word| {
        let (pos, length) = word.split_once('~')?;
        Some((pos.parse().ok()?, length.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions() {
        let write = "client.4226.0:2 1.1f 1:fd93604e:::name_1:head [set-alloc-hint object_size 4096 write_size \
                     4096,write 0~4096] snapc 0=[] ondisk+write+known_if_redirected e15)";
        let described = osd_op(write).expect("a request");
        assert_eq!(described.reqid, "client.4226.0:2");
        assert_eq!(described.object, Some(("1", "", "name_1")));
        assert_eq!((described.op, described.pos, described.length), ("write", Some(0), Some(4096)));
        assert_eq!(entity("client.4226.0:2"), Some(("client.4226", 2)));
        assert_eq!(entity("mds.0.4:1716"), Some(("mds.0", 1716)));
        assert_eq!(entity("nonsense"), None);

        let undecoded = "client.4226.0:2 1.1f 1.fd93604e (undecoded) ondisk+write+known_if_redirected e15)";
        assert_eq!(osd_op(undecoded).expect("a request").op, "write");
        let replica = "mds.0.4:1715 2.b e15/12 2:ddb4e4d7:ns::200.2:head v 15'295, mlcod=15'293)";
        let described = osd_repop(replica).expect("a replica's");
        assert_eq!((described.op, described.object), ("repop", Some(("2", "ns", "200.2"))));
        assert_eq!(osd_op("x"), None);
    }

    #[test]
    fn the_operation_that_matters() {
        for (ops, op, extent) in [
            ("writefull 0~90 [fadvise_dontneed]] snapc", "writefull", Some((0, 90))),
            ("write 37328~175 [fadvise_dontneed]] snapc 0=[]", "write", Some((37328, 175))),
            ("stat] x", "stat", None),
            ("create,setxattr parent (394) in=400b,setxattr layout (30)] x", "create", None),
            ("call rbd.get_id,read 0~0] x", "read", Some((0, 0))),
            ("omap-get-header,omap-get-vals in=16b,getxattr parent] x", "omap-get-header", None),
            ("cmpxattr a op 1,delete] x", "delete", None),
            ("] x", "none", None),
            ("write 0~", "none", None),
        ] {
            assert_eq!(main_op(ops), (op, extent), "{ops}");
        }
    }

    #[test]
    fn events_are_told_by_kind() {
        assert_eq!(kind_of_event("waiting for pg 1.2f to exist"), "waiting for pg");
        assert_eq!(kind_of_event("failed to wrlock, waiting"), "failed to wrlock, waiting");
        assert_eq!(kind_of_event("journal_committed: "), "journal_committed");
        assert_eq!(kind_of_event(""), "");
    }
}
