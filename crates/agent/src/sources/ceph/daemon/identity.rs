//! Who a daemon is, and its settings, which are changed once that is known.

use std::path::Path;

use iotrail_format::ids::hash63;
use serde::Deserialize;

use super::ask::Ask;
use super::{Daemon, Shared};
use crate::outbox::Outbox;
use crate::sources::ceph::process::{self, Daemon as Process};
use crate::sources::ceph::requests::{Requests, Teller};
use crate::sources::ceph::settings;
use crate::sources::ceph::socket::Conversation;

/// What a daemon says it is.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) member: String,
    pub(super) role: String,
    pub(super) place: String,
    pub(super) process: Option<Process>,
    /// Of the process, or of the member where that is in another namespace.
    pub(super) id: i64,
    pub(super) disk: Option<(u32, u32)>,
}

#[derive(Deserialize)]
pub(super) struct Config {
    name: String,
    #[serde(default)]
    fsid: String,
    #[serde(default)]
    crush_location: String,
    #[serde(default)]
    osd_data: String,
    #[serde(default)]
    osd_fast_shutdown: String,
}

impl Config {
    pub(super) fn is_client(&self) -> bool {
        self.name.starts_with("client.")
    }
}

impl Daemon {
    /// Learns who it is.
    pub(super) fn introduce(
        &mut self,
        config: Config,
        talk: &Conversation,
        shared: &mut Shared<'_>,
        out: &mut Outbox,
    ) {
        let Some(status) = self.status.take() else { return };
        self.nameless = status.id == Some(0) && config.is_client();
        if self.nameless {
            return;
        }
        let pid = talk.pid();
        let process = pid.and_then(Process::of);
        let role = config.name.split('.').next().unwrap_or("client").to_owned();
        if matches!(role.as_str(), "osd" | "mds") && status.state.is_none() {
            // Of another namespace, so that it was not known by its process for what it is.
            self.refusals.forget(&Ask::Status);
            self.starts(None, out);
            return;
        }
        let member = match (role.as_str(), status.id, pid) {
            ("client", Some(id), _) => format!("client.{id}"),
            // Of a library's user only the process tells it from others of its name.
            ("client", None, Some(pid)) => format!("{}.{pid}", config.name),
            ("client", None, None) => {
                self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            }
            _ => config.name.clone(),
        };
        let id = process.as_ref().map_or_else(|| hash63(member.as_bytes()), |process| process.process);
        if let Some(process) = &process {
            out.process(id, process.pid.into(), &process.name, &role, process.start_ts);
        }
        self.may_set = config.osd_fast_shutdown == "true";
        let fsid = status.cluster_fsid.clone().unwrap_or(config.fsid);
        let disk = (role == "osd").then(|| process::disk(Path::new(&config.osd_data))).flatten();
        let place = place(&config.crush_location).unwrap_or_else(|| shared.place.to_owned());
        let teller = Teller { member: member.clone(), fsid, fs: String::new(), thread: id };
        self.requests = Some(Requests::new(teller));
        self.serves = role == "osd";
        self.history.from_wall(shared.tick.from_wall);
        if let Some(settings) = shared.settings.as_ref().filter(|settings| !settings.wanted(&role).is_empty())
        {
            if settings.knows(&self.path, id) {
                self.goes_on = true;
                let wanted = settings.wanted(&role);
                self.set(wanted);
            } else {
                self.queue.push_front(Ask::Diff);
            }
        }
        self.identity = Some(Identity { member, role, place, process, id, disk });
        self.tell_state(&status, out);
    }

    /// What its settings were is known and kept: now they are changed.
    fn set(&mut self, wanted: &[(&'static str, &str)]) {
        for (setting, value) in wanted.iter().rev() {
            let value = if *setting == settings::OSD_DURATION && !self.may_set {
                settings::least(value, settings::UNPURGED)
            } else {
                value
            };
            self.queue.push_front(Ask::Set(setting, value.to_owned()));
        }
        self.ready = true;
    }

    /// Its settings were told: they are kept, and changed.
    pub(super) fn changes(&mut self, diff: &[u8], shared: &mut Shared<'_>, out: &mut Outbox) {
        let (Some(identity), Some(settings)) = (&self.identity, &mut shared.settings) else { return };
        let role = identity.role.clone();
        match settings.keep(&self.path, identity.id, &role, diff) {
            Ok(()) => {
                let wanted = settings.wanted(&role);
                self.set(wanted);
            }
            Err(error) => out.warn(format!(
                "{}: its history stays as it is, for its settings can't be kept to be put back: {error}",
                identity.member
            )),
        }
    }
}

/// Where a CRUSH location says a daemon stands, from the outside in: of `root=default rack=r1 host=n1`, r1/n1.
fn place(crush_location: &str) -> Option<String> {
    let names: Vec<&str> = ["datacenter", "room", "row", "rack", "host"]
        .iter()
        .filter_map(|level| {
            crush_location.split([' ', ',', ';']).find_map(|word| word.strip_prefix(level)?.strip_prefix('='))
        })
        .collect();
    (!names.is_empty()).then(|| names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!(place("root=default host=node1"), Some("node1".to_owned()));
        assert_eq!(place("host=n1 rack=r7 root=default"), Some("r7/n1".to_owned()));
        assert_eq!(place("root=default"), None);
        assert_eq!(place(""), None);
    }
}
