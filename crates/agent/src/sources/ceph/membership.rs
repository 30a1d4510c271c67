//! Who belongs to a cluster: what daemons say of themselves, and what a monitor sees from afar.
//!
//! A monitor's `sessions` (`MonSession::dump`, ceph/src/mon/Session.h) are the daemons and clients connected to it: of
//! several monitors each has a part. A client that looks in for less than two rounds, as the command `ceph` does, is
//! no member. What an agent sees on its own machine it doesn't tell from afar.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::outbox::{Member, Outbox};

/// How sessions begin in a monitor's list of them.
pub const SESSION: &str = "{\"name\":\"";

/// What a daemon says of itself: states of `OSD::get_state_name`, `MDSMap` and `Monitor::get_state_name`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Id of the cluster.
    pub cluster_fsid: Option<String>,
    /// State.
    pub state: Option<String>,
    /// Rank of an MDS.
    pub whoami: Option<i64>,
    /// File system of an MDS.
    pub fs_name: Option<String>,
    /// Global id of a client.
    pub id: Option<i64>,
    /// Whether a client was shut out.
    pub blocklisted: bool,
    /// What a client says of itself.
    pub metadata: Metadata,
}

/// What a client says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Where a file system is mounted.
    pub mount_point: Option<String>,
}

impl Status {
    /// State of a member, and a sentence about it.
    #[must_use]
    pub fn member(&self, role: &str) -> (&'static str, Option<String>) {
        let state = self.state.as_deref().unwrap_or_default();
        match role {
            // Before it knows commands of its own.
            "osd" | "mds" if state.is_empty() => ("down", Some("it starts".to_owned())),
            "osd" if state != "active" => ("down", Some(format!("{state}: the cluster doesn't use it now"))),
            "mds" => match state {
                "up:active" => {
                    let fs = self.fs_name.as_deref().unwrap_or("its file system");
                    ("up", Some(format!("rank {} of {fs}", self.whoami.unwrap_or(-1))))
                }
                "up:standby" | "up:standby-replay" => ("standby", None),
                "down:damaged" | "down:dne" | "down:failed" => ("failed", Some(state.to_owned())),
                state if state.starts_with("up:") => ("up", Some(state.to_owned())),
                state => ("down", Some(state.to_owned())),
            },
            "mon" if !matches!(state, "leader" | "peon") => {
                ("down", Some(format!("{state}: not in the quorum")))
            }
            "mon" => ("up", Some(state.to_owned())),
            "client" if self.blocklisted => ("failed", Some("blocklisted by the cluster".to_owned())),
            "client" => ("up", self.metadata.mount_point.as_ref().map(|at| format!("mounted at {at}"))),
            _ => ("up", None),
        }
    }

    /// Whether a daemon that says this of itself is past its start and not yet at its end, so that it may be asked more:
    /// an OSD that is `active`, an MDS that has a part to play, whatever else (a client) says no state at all.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match self.state.as_deref() {
            None | Some("active") => true,
            Some(state) => state.starts_with("up:") && state != "up:boot",
        }
    }

    /// Whether an MDS serves requests.
    #[must_use]
    pub fn serves(&self) -> bool {
        matches!(self.state.as_deref(), Some("up:active" | "up:stopping"))
    }
}

#[derive(Debug, Deserialize)]
struct Session<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    entity_name: Cow<'a, str>,
    #[serde(borrow, default)]
    con_type: Cow<'a, str>,
    #[serde(borrow, default)]
    remote_host: Cow<'a, str>,
}

#[derive(Debug, Default)]
struct Seen {
    host: String,
    rounds: u32,
    told: bool,
}

/// What a monitor sees.
#[derive(Default)]
pub struct Afar {
    members: BTreeMap<String, Seen>,
    now: BTreeSet<String>,
}

impl Afar {
    /// A session, as the monitor prints it; whether it was understood.
    pub fn session(&mut self, text: &[u8]) -> bool {
        let Ok(session) = Session::deserialize(&mut serde_json::Deserializer::from_slice(text)) else {
            return false;
        };
        let member = match session.con_type.as_ref() {
            // A manager's modules are clients too.
            "client" if session.entity_name.starts_with("mgr.") => return true,
            "client" => session.name,
            "osd" | "mds" | "mgr" => session.entity_name,
            _ => return true,
        };
        // Before it is let in its name is `client.?`.
        if member.contains('.') && !member.ends_with('?') {
            let seen = self.members.entry(member.clone().into_owned()).or_default();
            if seen.host != session.remote_host {
                seen.host = session.remote_host.into_owned();
            }
            self.now.insert(member.into_owned());
        }
        true
    }

    /// All sessions were seen: tells who came and who left, but those `near`.
    pub fn end(&mut self, monitor: &str, near: &BTreeSet<String>, out: &mut Outbox) {
        let Self { members, now } = self;
        members.retain(|member, seen| {
            let role = member.split('.').next().unwrap_or_default();
            let there = now.contains(member);
            seen.rounds += u32::from(there);
            let client = role == "client";
            if near.contains(member) {
                seen.told = false;
            } else if there && !seen.told && seen.rounds >= if client { 2 } else { 1 } {
                seen.told = true;
                let place = Some(seen.host.as_str()).filter(|host| !host.is_empty());
                out.member(Member { member, role, place, state: "up", ..Member::default() });
            } else if !there && seen.told {
                let state = if client { "left" } else { "down" };
                let detail = format!("its session with {monitor} ended");
                out.member(Member { member, role, state, detail: Some(&detail), ..Member::default() });
            }
            there
        });
        now.clear();
    }

    /// The answer was cut: it says nothing of who left.
    pub fn cut(&mut self) {
        self.now.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Tick;

    fn states(out: &mut Outbox) -> Vec<(String, String)> {
        use arrow_array::cast::AsArray as _;
        out.take()
            .iter()
            .flat_map(|(_, batch)| {
                let texts = |name: &str| -> Vec<String> {
                    let column = batch.column_by_name(name).expect(name);
                    let words = column.as_dictionary::<arrow_array::types::Int32Type>();
                    words
                        .downcast_dict::<arrow_array::StringArray>()
                        .expect("text")
                        .into_iter()
                        .map(|word| word.unwrap_or_default().to_owned())
                        .collect()
                };
                texts("member").into_iter().zip(texts("state")).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn members_from_afar_come_and_leave_once() {
        let osd =
            br#"{"name":"osd.0","entity_name":"osd.0","con_type":"osd","remote_host":"n1","open":true}"#;
        let near = br#"{"name":"mds.?","entity_name":"mds.m0","con_type":"mds","remote_host":"n1"},"#;
        let client =
            br#"{"name":"client.7","entity_name":"client.admin","con_type":"client","remote_host":"n2"}]"#;
        let early =
            br#"{"name":"client.?","entity_name":"client.admin","con_type":"client","remote_host":"n2"}"#;
        let module = br#"{"name":"client.8","entity_name":"mgr.x","con_type":"client","remote_host":"n2"}"#;
        let mut out = Outbox::new("here");
        out.begin(Tick { now: 1, before: None, from_wall: 0, settled: 0 });
        let mut afar = Afar::default();
        let mut round = |sessions: &[&[u8]]| {
            sessions.iter().for_each(|session| assert!(afar.session(session)));
            afar.end("mon.a", &BTreeSet::from(["mds.m0".to_owned()]), &mut out);
            states(&mut out)
        };
        let said = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(m, s)| ((*m).to_owned(), (*s).to_owned())).collect()
        };
        assert_eq!(round(&[osd, near, client, module, early]), said(&[("osd.0", "up")]));
        assert_eq!(round(&[osd, near, client, module, early]), said(&[("client.7", "up")]));
        assert_eq!(round(&[osd, client]), []);
        assert_eq!(round(&[]), said(&[("client.7", "left"), ("osd.0", "down")]));
        assert_eq!(round(&[osd, client]), said(&[("osd.0", "up")]));
        assert!(!Afar::default().session(b"{\"name\":"));
    }
}
