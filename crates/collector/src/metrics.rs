//! What the collector counts of itself, as Prometheus reads it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Label of a table.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct OfTable {
    /// Its name.
    pub table: &'static str,
}

/// Label of a reason.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct For {
    /// The reason.
    pub reason: &'static str,
}

/// All counters. Cheap to share; each is one atomic.
pub struct Metrics {
    registry: Registry,
    pub(crate) streams: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) messages: Family<OfTable, Counter>,
    pub(crate) rows: Family<OfTable, Counter>,
    pub(crate) bytes: Counter,
    pub(crate) repeated_messages: Counter,
    pub(crate) duplicates: Family<OfTable, Counter>,
    pub(crate) refused: Family<For, Counter>,
    pub(crate) commits: Counter,
    pub(crate) commit_seconds: Histogram,
    pub(crate) log_bytes: Gauge,
    pub(crate) log_damaged: Counter,
    pub(crate) set_aside: Counter,
    pub(crate) held_bytes: Gauge,
    pub(crate) sealed_rows: Counter,
    pub(crate) seal_seconds: Histogram,
    pub(crate) seal_failures: Counter,
    pub(crate) waiting: Gauge,
    pub(crate) unjoined: Counter,
    pub(crate) forgotten: Counter,
    pub(crate) viewers: Gauge,
    pub(crate) frames: Counter,
    pub(crate) skipped_frames: Counter,
    pub(crate) closed_viewers: Counter,
    pub(crate) late: Counter,
    pub(crate) live_dropped: Counter,
    pub(crate) not_shown: Counter,
    pub(crate) clocks_off: Gauge,
    pub(crate) sample_seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let times = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let mut metrics = Self {
            registry: Registry::default(),
            streams: Gauge::default(),
            connections: Gauge::default(),
            messages: Family::default(),
            rows: Family::default(),
            bytes: Counter::default(),
            repeated_messages: Counter::default(),
            duplicates: Family::default(),
            refused: Family::default(),
            commits: Counter::default(),
            commit_seconds: times(),
            log_bytes: Gauge::default(),
            log_damaged: Counter::default(),
            set_aside: Counter::default(),
            held_bytes: Gauge::default(),
            sealed_rows: Counter::default(),
            seal_seconds: times(),
            seal_failures: Counter::default(),
            waiting: Gauge::default(),
            unjoined: Counter::default(),
            forgotten: Counter::default(),
            viewers: Gauge::default(),
            frames: Counter::default(),
            skipped_frames: Counter::default(),
            closed_viewers: Counter::default(),
            late: Counter::default(),
            live_dropped: Counter::default(),
            not_shown: Counter::default(),
            clocks_off: Gauge::default(),
            sample_seconds: times(),
        };
        let mut registry = Registry::with_prefix("iotrail_collector");
        macro_rules! say {
            ($($field:ident $help:literal;)*) => {
                $(say!(@one registry, metrics.$field, stringify!($field), $help);)*
            };
            (@one $registry:ident, $metric:expr, $name:expr, $help:literal) => {
                $registry.register($name, $help, $metric.clone())
            };
        }
        say! {
            streams "Open streams of agents, one a table";
            connections "Open connections";
            messages "Messages accepted, by table";
            rows "Rows accepted, by table";
            bytes "Bytes of accepted messages";
            repeated_messages "Messages that were taken before, and dropped";
            duplicates "Rows that were seen before, and dropped, by table";
            refused "Messages refused, by reason";
            commits "Times the log was made durable";
            log_bytes "Bytes in the log that are not sealed yet";
            log_damaged "Records of the log that could not be read after a crash";
            set_aside "Messages that were accepted, can't be sealed and were set aside";
            held_bytes "Bytes of rows in memory that are not sealed yet";
            sealed_rows "Rows written to the trail";
            seal_failures "Seals that failed and are tried again";
            waiting "Rows that wait until the machine they name is known";
            unjoined "Rows written with a machine that stayed unknown";
            forgotten "Keys of rows forgotten before their time for want of memory";
            viewers "Viewers of the live stream";
            frames "Frames sent to viewers";
            skipped_frames "Frames a viewer was too slow for";
            closed_viewers "Viewers closed because they stopped reading";
            late "Samples that came after their moment was shown";
            live_dropped "Batches of samples left out of the live stream for want of time";
            not_shown "Samples and states left out of the live stream: no number, or names too long or too many";
            clocks_off "Machines whose clock is more than a minute off";
        }
        registry.register_with_unit(
            "commit",
            "Time to make the log durable",
            Unit::Seconds,
            metrics.commit_seconds.clone(),
        );
        registry.register_with_unit(
            "seal",
            "Time to write rows to the trail",
            Unit::Seconds,
            metrics.seal_seconds.clone(),
        );
        registry.register_with_unit(
            "sample_to_sent",
            "Time from a sample to the frame that shows it",
            Unit::Seconds,
            metrics.sample_seconds.clone(),
        );
        metrics.registry = registry;
        metrics
    }
}

impl Metrics {
    /// The text Prometheus reads (OpenMetrics 1.0).
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a String doesn't fail");
        text
    }

    /// Counts a refusal.
    pub(crate) fn refuse(&self, reason: &'static str) {
        self.refused.get_or_create(&For { reason }).inc();
    }
}
