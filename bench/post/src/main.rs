//! `post LIBRARY KIND COUNT`: posts COUNT records through a library and prints what one cost, in nanoseconds, as JSON.
//!
//! LIBRARY is iotrail, tracing (to a subscriber that counts, and to one that formats into a sink) or opentelemetry
//! (batch processor, exporter that drops); KIND is instant or scope. Each post lies between two readings of the
//! counter, whose own cost (the median of an empty pair) is taken off the percentiles; the mean is that of a loop
//! without readings. Posts come in bursts of 16,384 with pauses, as no system posts 40 million records a second: the
//! first touches of memory count, what a reader beside can't keep up with doesn't.

use std::hint::black_box;
use std::time::Instant;

use iotrail_sdk::clock::ticks;
use iotrail_sdk::request::{Buffer, Crumb, Name, Service, buffer};

static COMPONENT: Name = Name::new("storage");
static CACHE: Name = Name::new("blocks");
static OP: Name = Name::new("write");

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, library, kind, count] = arguments.as_slice() else { panic!("post LIBRARY KIND COUNT") };
    let count: u64 = count.parse().expect("a count");
    match (library.as_str(), kind.as_str()) {
        ("iotrail", "instant") => {
            iotrail_sdk::api::init();
            let crumb = Crumb::fresh();
            measure(count, |n| buffer(&COMPONENT, &CACHE, Buffer::ReadHit, crumb, 7, n, 4096));
        }
        ("iotrail", "scope") => {
            iotrail_sdk::api::init();
            let crumb = Crumb::fresh();
            measure(count, |n| drop(Service::server(&COMPONENT, &OP, crumb).file(7).at(n, 4096)));
        }
        ("tracing", kind) => {
            let _kept = tracing::subscriber::set_default(counting::Counting::default());
            posts_of_tracing(kind, count);
        }
        ("tracing-fmt", kind) => {
            let formatter = tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::sink).finish();
            let _kept = tracing::subscriber::set_default(formatter);
            posts_of_tracing(kind, count);
        }
        ("opentelemetry", "scope") => {
            use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
            let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder()
                .with_batch_exporter(dropping::Dropping)
                .build();
            let tracer = provider.tracer("storage");
            measure(count, |n| {
                let mut span = tracer.start("write");
                span.set_attribute(opentelemetry::KeyValue::new("pos", n as i64));
                span.end();
            });
        }
        _ => panic!("no library {library} with kind {kind}"),
    }
}

fn posts_of_tracing(kind: &str, count: u64) {
    if kind == "instant" {
        measure(count, |n| tracing::info!(cache = "blocks", file = 7, pos = n, length = 4096, "read_hit"));
    } else {
        measure(count, |n| drop(tracing::info_span!("write", file = 7, pos = n, length = 4096).entered()));
    }
}

/// A subscriber that does as little as one can: it numbers spans and visits each field.
mod counting {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tracing::field::{Field, Visit};
    use tracing::{Event, Metadata, Subscriber, span};

    #[derive(Default)]
    pub struct Counting {
        next: AtomicU64,
        fields: AtomicU64,
    }

    struct Count<'a>(&'a AtomicU64);

    impl Visit for Count<'_> {
        fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
            std::hint::black_box(value);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn record_u64(&mut self, _: &Field, value: u64) {
            self.0.fetch_add(value, Ordering::Relaxed);
        }
    }

    impl Subscriber for Counting {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
            span.record(&mut Count(&self.fields));
            span::Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut Count(&self.fields));
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }
}

mod dropping {
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SpanData, SpanExporter};

    #[derive(Debug)]
    pub struct Dropping;

    impl SpanExporter for Dropping {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            std::hint::black_box(batch);
            Ok(())
        }
    }
}

/// Buckets of one tick; what took longer is in the last.
const BUCKETS: usize = 1 << 20;

fn measure(count: u64, mut post: impl FnMut(u64)) {
    let rate = ticks_per_ns();
    let (mut empty, mut taken) = (vec![0_u64; BUCKETS], vec![0_u64; BUCKETS]);
    for n in 0..count / 16 {
        let before = ticks();
        black_box(n);
        empty[(ticks() - before).min(BUCKETS as u64 - 1) as usize] += 1;
    }
    // As many with readings as without, in turns, so that both see the same machine.
    let each = 16_384;
    let turns = count / each / 2;
    let mut whole = 0.0;
    for turn in 0..turns {
        for n in 0..each {
            let before = ticks();
            post(black_box(turn * each + n));
            taken[(ticks() - before).min(BUCKETS as u64 - 1) as usize] += 1;
        }
        let began = Instant::now();
        for n in 0..each {
            post(black_box(turn * each + n));
        }
        whole += began.elapsed().as_nanos() as f64;
        std::thread::sleep(std::time::Duration::from_millis(15));
    }
    let own = quantile(&empty, 0.5);
    let of = |q| (quantile(&taken, q).saturating_sub(own)) as f64 / rate;
    println!(
        "{{\"p50\": {:.1}, \"p99\": {:.1}, \"p999\": {:.1}, \"mean\": {:.1}, \"posted\": {}}}",
        of(0.5),
        of(0.99),
        of(0.999),
        whole / (each * turns) as f64,
        each * turns * 2,
    );
}

fn quantile(buckets: &[u64], q: f64) -> u64 {
    let all: u64 = buckets.iter().sum();
    let mut left = (all as f64 * q) as u64;
    for (ticks, count) in buckets.iter().enumerate() {
        if left < *count {
            return ticks as u64;
        }
        left -= count;
    }
    buckets.len() as u64
}

fn ticks_per_ns() -> f64 {
    let (began, first) = (Instant::now(), ticks());
    while began.elapsed().as_millis() < 50 {}
    (ticks() - first) as f64 / began.elapsed().as_nanos() as f64
}
