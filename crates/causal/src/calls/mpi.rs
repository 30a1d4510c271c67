//! Calls of MPI: messages, collectives, and the requests that begin and complete them.

use iotrail_format::call::Call;

use super::{Reader, Row, act};
use crate::matching::{Channel, Meeting, Role, Room, What};

/// What a request of MPI that is under way does when it completes.
pub(super) enum Pending {
    Receive { communicator: i64, ready: i64 },
    Meet { meeting: Meeting, role: Role },
}

impl Reader<'_> {
    pub(super) fn add_mpi(&mut self, row: &Row) {
        let (process, rank) = (self.process(row), self.rank(row));
        if row.errno != 0 || row.call == Call::MpiTest {
            return;
        }
        if row.call == Call::MpiWait {
            return self.mpi_waits.push((*row, self.inside));
        }
        let (Some(rank), Some(communicator)) = (rank, row.object.or(row.seq.map(|_| 0))) else {
            return self.push(row, What::Wait { kind: "mpi" });
        };
        let request = row.result.filter(|request| *request != 0);
        match row.call {
            Call::MpiSend | Call::MpiIsend | Call::MpiSsend | Call::MpiIssend => {
                if let (Some(receiver), Some(tag)) = (row.peer, row.tag) {
                    let channel = Channel::Message { communicator, sender: rank, receiver, tag };
                    let bytes = row.length.unwrap_or(0).max(0) as u64;
                    // one that is only begun doesn't wait
                    let room = match row.call {
                        Call::MpiIsend | Call::MpiIssend => Room::Unlimited,
                        call => Room::Message { bytes, synchronous: call == Call::MpiSsend },
                    };
                    self.push(row, What::Give { channel, amount: 1, room });
                }
            }
            Call::MpiRecv | Call::MpiSendrecv | Call::MpiMprobe => {
                if let (Some(sender), Some(tag)) = (row.peer, row.tag) {
                    let channel = Channel::Message { communicator, sender, receiver: rank, tag };
                    self.push(row, What::Take { channel, amount: 1, order: row.start });
                }
            }
            Call::MpiIrecv => {
                if let Some(request) = request {
                    let receive = Pending::Receive { communicator, ready: row.start };
                    self.pending.insert((process, request), receive);
                }
            }
            Call::MpiStatus => self.complete(row, process, rank),
            // what MPI_Mprobe waited for is there
            Call::MpiMrecv | Call::MpiImrecv => {}
            // of whose neighbours is not known
            Call::MpiNeighbor | Call::MpiIneighbor => self.push(row, What::Wait { kind: "mpi" }),
            Call::MpiWinPost
            | Call::MpiWinStart
            | Call::MpiWinComplete
            | Call::MpiWinWait
            | Call::MpiGroup => self.epochs.add(process, rank, communicator, row),
            Call::MpiWinLock | Call::MpiWinUnlock | Call::MpiWinFlush => {
                self.windows.add(process, communicator, row);
            }
            Call::MpiProbe => self.push(row, What::Wait { kind: "poll" }),
            _ => self.add_collective(row, communicator, rank, request),
        }
    }

    /// Calls that wait for requests: what explains them is rows of what they completed.
    pub(super) fn wait_for_requests(&mut self) {
        for (row, inside) in std::mem::take(&mut self.mpi_waits) {
            if !self.completing.contains(&(row.thread, row.start)) {
                self.acts.extend(act(&row, What::Wait { kind: "mpi" }, inside));
            }
        }
    }

    /// A request is complete.
    fn complete(&mut self, row: &Row, process: i64, rank: i64) {
        let Some(pending) = row.seq.and_then(|request| self.pending.remove(&(process, request))) else {
            return;
        };
        self.completing.insert((row.thread, row.start));
        match pending {
            Pending::Receive { communicator, ready } => {
                if let (Some(sender), Some(tag)) = (row.peer, row.tag) {
                    let channel = Channel::Message { communicator, sender, receiver: rank, tag };
                    self.push(row, What::Take { channel, amount: 1, order: ready });
                }
            }
            Pending::Meet { meeting, role } => self.push(row, What::Meet { meeting, role }),
        }
    }

    fn add_collective(&mut self, row: &Row, communicator: i64, rank: i64, request: Option<i64>) {
        let Some(number) = row.seq else { return self.push(row, What::Wait { kind: "mpi" }) };
        let is_root = row.peer == Some(rank);
        let either = |root, other| if is_root { root } else { other };
        // calls that begin and end MPI are counted on their own
        let family = match row.call {
            Call::MpiInit => 1,
            Call::MpiFinalize => 2,
            _ => 0,
        };
        let role = match row.call {
            Call::MpiBcast | Call::MpiIbcast | Call::MpiScatter | Call::MpiIscatter => {
                either(Role::Source, Role::Listener)
            }
            Call::MpiReduce | Call::MpiIreduce | Call::MpiGather | Call::MpiIgather => {
                either(Role::Sink, Role::Contributor)
            }
            Call::MpiScan | Call::MpiIscan => Role::Prefix { rank },
            _ => Role::All,
        };
        let meeting = Meeting::Collective { communicator, family, number };
        let Some(request) = request.filter(|_| begins_request(row.call)) else {
            return self.push(row, What::Meet { meeting, role });
        };
        // It lets others go on where it begins, and waits where it completes.
        let process = self.process(row);
        match role {
            Role::Source | Role::Contributor => self.push(row, What::Meet { meeting, role }),
            Role::Listener | Role::Sink => {
                self.pending.insert((process, request), Pending::Meet { meeting, role });
            }
            Role::All | Role::Prefix { .. } => {
                self.push(row, What::Meet { meeting, role: Role::Contributor });
                let sink = Pending::Meet { meeting, role: Role::Sink };
                self.pending.insert((process, request), sink);
            }
        }
    }
}

/// Whether a call begins or completes a request or an epoch.
pub(super) fn is_of_requests(call: Call) -> bool {
    use Call::*;
    begins_request(call)
        || matches!(
            call,
            MpiIrecv | MpiStatus | MpiWinPost | MpiWinStart | MpiWinComplete | MpiWinWait | MpiGroup
        )
}

/// Whether a call only begins what another one waits for.
fn begins_request(call: Call) -> bool {
    use Call::*;
    matches!(
        call,
        MpiIbarrier
            | MpiIbcast
            | MpiIreduce
            | MpiIallreduce
            | MpiIgather
            | MpiIscatter
            | MpiIallgather
            | MpiIalltoall
            | MpiIscan
            | MpiIcomm
            | MpiIfile
    )
}
