//! Connections to the collector: how many there are, and how long one may take to ask for something.
//!
//! Whoever can reach the port can connect before any token is asked for. So a connection on which no request was admitted
//! within [`UNASKED`] is closed, one address may have half of all such connections, and where there is no room the one that
//! has been without a request for longest makes it: agents and viewers are let in, those who only connect are not.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::metrics::Metrics;

/// For the first request that is admitted, its TLS handshake and its head included.
const UNASKED: Duration = Duration::from_secs(10);
/// Above the agents of a large cluster.
const MOST: usize = 16_384;
/// Even where descriptors are few.
const LEAST: usize = 16;
/// Descriptors for all else: the log, the trail's files, sealing.
const RESERVE: usize = 256;

/// All connections, of all listeners.
pub struct Connections {
    most: usize,
    metrics: Arc<Metrics>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    count: usize,
    next: u64,
    /// Those on which nothing was admitted yet, by age.
    unasked: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
    /// The same by their network.
    near: HashMap<IpAddr, BTreeSet<u64>>,
}

impl Open {
    /// Has the oldest connection without a request closed, of a network or of all.
    fn close_oldest(&mut self, of: Option<IpAddr>) -> bool {
        let oldest = match of {
            Some(of) => self.near.get(&of).and_then(BTreeSet::first),
            None => self.unasked.keys().next(),
        };
        let leave = oldest.copied().and_then(|id| self.remove(id));
        leave.inspect(|leave| leave.notify_one()).is_some()
    }

    /// Takes one from those without a request, if it is.
    fn remove(&mut self, id: u64) -> Option<Arc<Notify>> {
        let (network, leave) = self.unasked.remove(&id)?;
        if let Entry::Occupied(mut near) = self.near.entry(network) {
            near.get_mut().remove(&id);
            if near.get().is_empty() {
                near.remove();
            }
        }
        Some(leave)
    }
}

impl Connections {
    /// As many as descriptors allow. Raises their limit as far as it goes.
    ///
    /// # Errors
    /// The system's.
    pub fn new(metrics: Arc<Metrics>) -> std::io::Result<Arc<Self>> {
        let descriptors = usize::try_from(raise_descriptors((MOST + RESERVE) as u64)?).unwrap_or(usize::MAX);
        Ok(Self::at_most(descriptors.saturating_sub(RESERVE).clamp(LEAST, MOST), metrics))
    }

    fn at_most(most: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { most, metrics, open: Mutex::default() })
    }

    /// Takes a connection; none if all there are have asked for something.
    pub fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Connection>> {
        let network = network(peer);
        let mut open = self.lock();
        let near = open.near.get(&network).map_or(0, BTreeSet::len);
        let closed = (near >= self.most / 2 && open.close_oldest(Some(network)))
            || (open.count >= self.most && open.close_oldest(None));
        if closed || open.count >= self.most {
            self.metrics.refuse("connections");
        }
        // The closed one ends in a moment.
        if open.count >= self.most && !closed {
            return None;
        }
        let (id, leave) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        open.count += 1;
        open.unasked.insert(id, (network, leave.clone()));
        open.near.entry(network).or_default().insert(id);
        self.metrics.connections.inc();
        Some(Arc::new(Connection { all: self.clone(), id, leave, asked: AtomicBool::new(false) }))
    }

    /// Makes room after the system had no descriptor left.
    pub fn make_room(&self) {
        self.lock().close_oldest(None);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection, as long as it is kept.
pub struct Connection {
    all: Arc<Connections>,
    id: u64,
    leave: Arc<Notify>,
    asked: AtomicBool,
}

impl Connection {
    /// Notes that a request on it was admitted: from now on it may stay.
    pub fn admit(&self) {
        if !self.asked.swap(true, Ordering::Relaxed) {
            self.all.lock().remove(self.id);
        }
    }

    /// Resolves when it has to end because nothing was asked for on it.
    pub async fn overdue(&self) {
        let _ = timeout(UNASKED, self.leave.notified()).await;
        if self.asked.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        open.remove(self.id);
        open.count -= 1;
        self.all.metrics.connections.dec();
    }
}

/// What counts as one address: of IPv6 the 64 bits that one machine usually has to itself (RFC 4291, section 2.5.4).
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() >> 64 << 64).into(),
        peer @ IpAddr::V4(_) => peer,
    }
}

/// Raises the limit of descriptors to `wanted`, or as far as it goes. Returns the limit.
fn raise_descriptors(wanted: u64) -> std::io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit of this process.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let raised = wanted.min(limit.rlim_max);
    if limit.rlim_cur < raised {
        limit.rlim_cur = raised;
        // SAFETY: a limit that was read before, and raised.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    fn is_closed(connection: &Connection) -> bool {
        !connection.asked.load(Ordering::Relaxed)
            && !connection.all.lock().unasked.contains_key(&connection.id)
    }

    #[test]
    fn those_without_a_request_make_room_oldest_first() {
        let all = Connections::at_most(4, Arc::default());
        let peers = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"].map(|peer| peer.parse().unwrap());
        let held: Vec<_> = peers.map(|peer| all.enter(peer).unwrap()).into();
        held[0].admit();
        let new = all.enter(HERE).unwrap();
        let closed: Vec<_> = held.iter().map(|of| is_closed(of)).collect();
        assert_eq!(closed, [false, true, false, false]);
        drop(held);
        assert!(!is_closed(&new));
        assert_eq!(all.lock().count, 1);
    }

    #[test]
    fn one_address_has_half_of_what_was_not_asked_on_and_all_of_what_was() {
        let all = Connections::at_most(4, Arc::default());
        let first = all.enter("2001:db8::1".parse().unwrap()).unwrap();
        let other = all.enter(HERE).unwrap();
        let held = ["2001:db8::2", "2001:db8::3"].map(|peer| all.enter(peer.parse().unwrap()).unwrap());
        assert!(is_closed(&first) && !is_closed(&other));
        drop(first);
        other.admit();
        held.iter().for_each(|of| of.admit());
        let last = all.enter(HERE).unwrap();
        last.admit();
        assert!(all.enter(HERE).is_none(), "all have asked for something");
    }
}
