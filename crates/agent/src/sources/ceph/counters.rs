//! `perf dump` and `perf histogram dump` as samples, in the words of sql/cluster/metric.sql.
//!
//! Counters of a daemon only grow; what is sampled is their growth since its dump before. The names are those of
//! ceph/src/osd/osd_perf_counters.cc, ceph/src/mds/{MDSRank,Server,MDLog,SessionMap}.cc, ceph/src/client/Client.cc,
//! ceph/src/osdc/{Objecter,ObjectCacher}.cc and ceph/src/msg/async/Stack.h. A number that isn't there is not sampled.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::outbox::Outbox;
use crate::sources::machine::Growth;

/// A count with the seconds it took.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Latency {
    #[serde(rename = "avgcount")]
    count: u64,
    /// Seconds.
    sum: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Osd {
    op_wip: Option<f64>,
    op_in_bytes: u64,
    op_out_bytes: u64,
    op_r_latency: Latency,
    op_w_latency: Latency,
    op_rw_latency: Latency,
    op: u64,
    subop: u64,
    subop_in_bytes: u64,
    subop_latency: Latency,
    /// Replicas' parts of writes; `subop` counts what recovery moves besides.
    subop_w_latency: Latency,
    stat_bytes: Option<f64>,
    stat_bytes_used: Option<f64>,
}

/// BlueStore's transactions: until each was committed, and the commits of its database, of which one is of many.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BlueStore {
    commit_lat: Latency,
    kv_commit_lat: Latency,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Mds {
    forward: u64,
    inodes: Option<f64>,
    exported: u64,
    imported: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MdsLog {
    jlat: Latency,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MdsSessions {
    session_count: Option<f64>,
}

/// `rdops` stands there twice (for writes too), so that reads and writes are the counts of their latencies.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Client {
    lat: Latency,
    rdlat: Latency,
    wrlat: Latency,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Objecter {
    op_active: Option<f64>,
    op_send_bytes: u64,
    op_r: u64,
    op_w: u64,
    op_rmw: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Messenger {
    msgr_recv_bytes: u64,
    msgr_send_bytes: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cache {
    cache_ops_hit: u64,
    cache_ops_miss: u64,
    data_written: u64,
    data_flushed: u64,
    data_overwritten_while_flushing: u64,
}

/// What is used of a dump.
#[derive(Debug, Default)]
struct Dump<'a> {
    osd: Option<Osd>,
    bluestore: Option<BlueStore>,
    mds: Option<Mds>,
    mds_server: Vec<(Cow<'a, str>, Latency)>,
    mds_log: MdsLog,
    mds_sessions: MdsSessions,
    client: Option<Client>,
    objecter: Option<Objecter>,
    messenger: Messenger,
    cache: Option<Cache>,
}

/// Latencies of `mds_server`: of `req_create_latency` that of `create`.
struct Operations<'a>(Vec<(Cow<'a, str>, Latency)>);

impl<'de: 'a, 'a> Deserialize<'de> for Operations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Operations<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("counters by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(name) = map.next_key::<&'de str>()? {
                    match name.strip_prefix("req_").and_then(|name| name.strip_suffix("_latency")) {
                        Some(op) => all.push((Cow::Borrowed(op), map.next_value()?)),
                        None => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(Operations(all))
            }
        }
        deserializer.deserialize_map(Of)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Dump<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Dump<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("groups of counters")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut dump = Dump::default();
                while let Some(name) = map.next_key::<&'de str>()? {
                    match name {
                        "osd" => dump.osd = Some(map.next_value()?),
                        "bluestore" => dump.bluestore = Some(map.next_value()?),
                        "mds" => dump.mds = Some(map.next_value()?),
                        "mds_server" => dump.mds_server = map.next_value::<Operations<'_>>()?.0,
                        "mds_log" => dump.mds_log = map.next_value()?,
                        "mds_sessions" => dump.mds_sessions = map.next_value()?,
                        "client" => dump.client = Some(map.next_value()?),
                        "objecter" => dump.objecter = Some(map.next_value()?),
                        name if name.starts_with("AsyncMessenger::Worker") => {
                            let worker: Messenger = map.next_value()?;
                            dump.messenger.msgr_recv_bytes += worker.msgr_recv_bytes;
                            dump.messenger.msgr_send_bytes += worker.msgr_send_bytes;
                        }
                        // One for a mounted file system, or one an RBD image.
                        name if name.starts_with("objectcacher") => {
                            let one: Cache = map.next_value()?;
                            let all = dump.cache.get_or_insert_default();
                            all.cache_ops_hit += one.cache_ops_hit;
                            all.cache_ops_miss += one.cache_ops_miss;
                            all.data_written += one.data_written;
                            all.data_flushed += one.data_flushed;
                            all.data_overwritten_while_flushing += one.data_overwritten_while_flushing;
                        }
                        _ => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(dump)
            }
        }
        deserializer.deserialize_map(Of)
    }
}

#[derive(Deserialize)]
struct Histograms {
    #[serde(default)]
    osd: BTreeMap<String, Histogram>,
}

#[derive(Deserialize)]
struct Histogram {
    axes: Vec<Axis>,
    values: Vec<Vec<u64>>,
}

#[derive(Deserialize)]
struct Axis {
    ranges: Vec<Range>,
}

#[derive(Deserialize)]
struct Range {
    min: Option<i64>,
}

/// Counters of one daemon.
#[derive(Default)]
pub struct Counters {
    grown: Growth,
    /// What the daemon has completed since it began: see [`Self::completed`].
    completed: u64,
    /// What of that came with the last dump, and the ns it took.
    last: (u64, u64),
}

/// Samples of one member.
struct Samples<'a> {
    member: &'a str,
    grown: &'a mut Growth,
    out: &'a mut Outbox,
}

impl Samples<'_> {
    fn sum(&mut self, metric: &str, name: Option<&str>, counter: u64) -> u64 {
        let Some(grown) = self.grown.by(metric, name.unwrap_or_default(), counter) else { return 0 };
        self.out.sum(self.member, metric, name, grown as f64);
        grown
    }

    fn op(&mut self, name: &str, latency: Latency) -> u64 {
        let count = self.sum("op", Some(name), latency.count);
        self.sum("op_time", Some(name), ns(latency.sum));
        count
    }

    fn level(&mut self, metric: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.out.level(self.member, metric, None, value);
        }
    }
}

/// Nanoseconds of seconds.
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl Counters {
    /// Samples of a dump.
    pub fn dump(
        &mut self,
        member: &str,
        role: &str,
        text: &[u8],
        out: &mut Outbox,
    ) -> Result<(), serde_json::Error> {
        let dump: Dump<'_> = serde_json::from_slice(text)?;
        let mut to = Samples { member, grown: &mut self.grown, out };
        to.sum("message_in", None, dump.messenger.msgr_recv_bytes);
        to.sum("message_out", None, dump.messenger.msgr_send_bytes);
        match role {
            "osd" => {
                let Some(osd) = dump.osd else { return Ok(()) };
                to.op("read", osd.op_r_latency);
                to.op("write", osd.op_w_latency);
                to.op("read and write", osd.op_rw_latency);
                to.sum("op_bytes", Some("read"), osd.op_out_bytes);
                to.sum("op_bytes", Some("write"), osd.op_in_bytes);
                to.sum("replica_op", None, osd.subop);
                to.sum("replica_time", None, ns(osd.subop_latency.sum));
                to.sum("replica_in", None, osd.subop_in_bytes);
                to.level("op_active", osd.op_wip);
                to.level("space_size", osd.stat_bytes);
                to.level("space_used", osd.stat_bytes_used);
                if let Some(store) = dump.bluestore {
                    for (name, commits) in
                        [("transaction", store.commit_lat), ("database", store.kv_commit_lat)]
                    {
                        to.sum("store_commit", Some(name), commits.count);
                        to.sum("store_commit_time", Some(name), ns(commits.sum));
                    }
                }
                let latencies = [osd.op_r_latency, osd.op_w_latency, osd.op_rw_latency, osd.subop_w_latency];
                let took = latencies.iter().map(|latency| ns(latency.sum)).sum();
                self.complete(osd.op + osd.subop_w_latency.count, took);
            }
            "mds" => {
                let Some(mds) = dump.mds else { return Ok(()) };
                for (op, latency) in &dump.mds_server {
                    // Most of the thirty operations never happen.
                    if latency.count > 0 {
                        to.op(op, *latency);
                    }
                }
                let all = || dump.mds_server.iter().map(|(_, latency)| latency);
                let (completed, took) =
                    (all().map(|latency| latency.count).sum(), all().map(|latency| ns(latency.sum)).sum());
                to.sum("journal_flush", None, dump.mds_log.jlat.count);
                to.sum("journal_time", None, ns(dump.mds_log.jlat.sum));
                to.sum("export", Some("out"), mds.exported);
                to.sum("export", Some("in"), mds.imported);
                to.sum("forward", None, mds.forward);
                to.level("inodes", mds.inodes);
                to.level("sessions", dump.mds_sessions.session_count);
                self.complete(completed, took);
            }
            "client" => {
                if let Some(client) = dump.client {
                    to.op("metadata", client.lat);
                    to.op("read", client.rdlat);
                    to.op("write", client.wrlat);
                } else if let Some(objecter) = &dump.objecter {
                    to.sum("op", Some("read"), objecter.op_r);
                    to.sum("op", Some("write"), objecter.op_w);
                    to.sum("op", Some("read and write"), objecter.op_rmw);
                }
                if let Some(objecter) = dump.objecter {
                    to.sum("op_bytes", Some("write"), objecter.op_send_bytes);
                    to.level("op_active", objecter.op_active);
                }
                if let Some(cache) = dump.cache {
                    to.sum("cache_hit", None, cache.cache_ops_hit);
                    to.sum("cache_miss", None, cache.cache_ops_miss);
                    let clean = cache.data_flushed + cache.data_overwritten_while_flushing;
                    to.level("cache_dirty", Some(cache.data_written.saturating_sub(clean) as f64));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Requests by their bytes: an OSD's histograms of latency and size, of which the latency is summed up.
    pub fn histogram(
        &mut self,
        member: &str,
        text: &[u8],
        out: &mut Outbox,
    ) -> Result<(), serde_json::Error> {
        let all: Histograms = serde_json::from_slice(text)?;
        let kinds =
            [("op_r_latency_out_bytes_histogram", "read"), ("op_w_latency_in_bytes_histogram", "write")];
        for (histogram, name) in kinds {
            let Some(Histogram { axes, values }) = all.osd.get(histogram) else { continue };
            let [_, sizes] = axes.as_slice() else { continue };
            for (i, range) in sizes.ranges.iter().enumerate() {
                // The first bucket is of less than nothing.
                let Some(least) = range.min else { continue };
                let count: u64 = values.iter().filter_map(|row| row.get(i)).sum();
                let key = format!("{name} {least}");
                if let Some(grown) = self.grown.by("io_size", &key, count).filter(|grown| *grown > 0) {
                    out.bucket(member, "io_size", Some(name), least, grown as f64);
                }
            }
        }
        Ok(())
    }

    /// What the process uses, of which /proc tells: CPU time, memory, and the disk `busy` ms since boot.
    pub fn process(&mut self, member: &str, used: Used, out: &mut Outbox) {
        let mut to = Samples { member, grown: &mut self.grown, out };
        if let Some((cpu_ns, memory)) = used.cpu_memory {
            to.sum("daemon_cpu", None, cpu_ns);
            to.level("daemon_memory", Some(memory as f64));
        } else {
            to.grown.forget("daemon_cpu", "");
        }
        if let Some((disk, busy_ns)) = used.disk {
            to.sum("disk_busy", Some(&disk), busy_ns);
        }
    }

    fn complete(&mut self, completed: u64, took_ns: u64) {
        let grown = (self.grown.by("completed", "", completed), self.grown.by("took", "", took_ns));
        self.last = (grown.0.unwrap_or(0), grown.1.unwrap_or(0));
        self.completed = completed;
    }

    /// Requests and replicas' parts of them that the daemon has completed since it began.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// What of that the last dump added, and the ns those took until their replies.
    #[must_use]
    pub fn last(&self) -> (u64, u64) {
        self.last
    }
}

/// What a daemon's process used since it began.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// CPU time in ns, resident memory in bytes.
    pub cpu_memory: Option<(u64, u64)>,
    /// Its disk, and the ns that was busy.
    pub disk: Option<(String, u64)>,
}
