//! What a daemon is asked, as commands of its admin socket.

use super::{Daemon, WITHIN};
use crate::sources::ceph::settings;
use crate::sources::ceph::socket::{Command, Conversation, SocketError};

/// A client that doesn't exist, of an address for documentation (RFC 5737). A filter that is no address matches all
/// (`OpRequest::filter_out`, ceph/src/osd/OpRequest.cc).
const NOBODY: &str = "192.0.2.1:0/0";

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Config,
    Status,
    Counters,
    Histogram,
    Diff,
    Set(&'static str, String),
    /// What a setting is overridden by is taken off.
    Unset(&'static str),
    /// Requests that ended, by the command that lists them.
    History(&'static str),
    /// A purge: for a moment requests are kept for a shorter time;
    Purge,
    /// clean up: the list of requests of a client that doesn't exist;
    Clean,
    /// and as long again.
    Keep,
    MonStatus,
    Sessions,
    /// No question: all dumps of a round were read.
    RoundEnds,
}

impl Ask {
    /// Whether it is a `config set` or `config unset`.
    pub(super) fn changes_settings(&self) -> bool {
        matches!(self, Self::Set(..) | Self::Unset(_) | Self::Purge | Self::Keep)
    }

    /// Whether its answer is read while it comes.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::History(_) | Self::Sessions | Self::Clean)
    }
}

impl Daemon {
    /// Puts a question.
    pub(super) fn put(&self, ask: &Ask) -> Result<Conversation, SocketError> {
        let purged;
        let command = match ask {
            Ask::Config => Command::new("config show"),
            Ask::Status => Command::new("status"),
            Ask::Counters => Command::new("perf dump"),
            Ask::Histogram => Command::new("perf histogram dump"),
            // Of any setting: Pacific answers with all that differ from their defaults.
            Ask::Diff => Command::new("config diff"),
            Ask::Set(setting, value) => set(setting, value),
            Ask::Unset(setting) => Command { setting: Some(setting), ..Command::new("config unset") },
            Ask::History(prefix) => Command::new(prefix),
            Ask::Purge => {
                purged = self.purges.1.to_string();
                set(settings::OSD_DURATION, &purged)
            }
            Ask::Keep => set(settings::OSD_DURATION, settings::DURATION),
            Ask::Clean => Command { filter: Some([NOBODY]), ..Command::new("dump_historic_ops") },
            Ask::MonStatus => Command::new("mon_status"),
            Ask::Sessions => Command::new("sessions"),
            Ask::RoundEnds => unreachable!("no question"),
        };
        Conversation::ask(&self.path, &command, ask.is_long(), WITHIN)
    }
}

fn set<'a>(setting: &'a str, value: &'a str) -> Command<'a> {
    Command { setting: Some(setting), value: Some([value]), ..Command::new("config set") }
}
