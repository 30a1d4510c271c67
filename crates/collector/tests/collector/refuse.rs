//! What isn't as it should be is refused with a reason, and harms nobody else.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use crate::support::{
    Client, Collector, Config, http_as, messages, requests, requests_of_long_name, rows_of,
};
use arrow_flight::FlightData;
use iotrail_format::schema::SERVICE_OP;
use tokio::io::AsyncWriteExt as _;
use tonic::Code;

#[tokio::test]
async fn bad_messages_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start(&Config::new(folder.path()));
    let mut good = collector.client("good").await;
    assert_eq!(good.put("service_op", 1, vec![requests(1, 3)]).await.0, [1]);

    let mut other = collector.client("other").await;
    other.version = "2".into();
    let status = other.put("service_op", 1, vec![requests(1, 1)]).await.1.expect_err("another version");
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("version 2"), "{status}");

    let mut nameless = collector.client("").await;
    let status = nameless.put("service_op", 1, vec![requests(1, 1)]).await.1.expect_err("no name");
    assert!(status.message().contains("iotrail-agent"), "{status}");

    let mut bad = collector.client("bad-agent").await;
    let status = bad.put("no_such", 1, vec![requests(1, 1)]).await.1.expect_err("no such table");
    assert!(status.message().contains("no_such") && status.message().contains("bad-agent"), "{status}");

    let without = requests(1, 1).project(&[0, 1, 2]).expect("columns");
    let status = bad.put("service_op", 1, vec![without]).await.1.expect_err("no thread");
    assert!(status.message().contains("\"thread\" is missing"), "{status}");

    let late = rows_of(&SERVICE_OP, &[&[("ts", i64::MAX.into())]]);
    let (answered, ended) = bad.put("service_op", 1, vec![requests(7, 1), late]).await;
    let status = ended.expect_err("no time");
    // What came before it was taken.
    assert_eq!(answered, [1]);
    assert!(status.message().contains("column \"ts\" of row 0"), "{status}");

    let long = rows_of(
        &SERVICE_OP,
        &[&[("ts", 1_700_000_000_000_000_000_i64.into()), ("dur", 7_000_000_000_000_000_000_i64.into())]],
    );
    let status = bad.put("service_op", 1, vec![long]).await.1.expect_err("no duration");
    assert!(status.message().contains("column \"dur\" of row 0"), "{status}");

    let mut unnumbered = messages("service_op", 2, vec![requests(1, 1)]).await;
    unnumbered.last_mut().expect("rows").app_metadata = vec![1, 2].into();
    let status = bad.send(unnumbered).await.1.expect_err("no number");
    assert!(status.message().contains("8 bytes of app_metadata"), "{status}");

    // Each byte of a message changed: refused or taken, never the end of it.
    let whole = messages("service_op", 3, vec![requests(1, 2)]).await;
    for at in (0..whole.len())
        .flat_map(|at| (0..whole[at].data_header.len()).step_by(3).map(move |byte| (at, byte)))
    {
        let mut broken: Vec<FlightData> = whole.clone();
        let mut header = broken[at.0].data_header.to_vec();
        header[at.1] ^= 0x55;
        broken[at.0].data_header = header.into();
        let mut client = collector.client(&format!("broken-{}-{}", at.0, at.1)).await;
        let (answered, ended) = client.send(broken).await;
        assert!(ended.is_ok() || answered.is_empty());
    }
    assert_eq!(good.put("service_op", 2, vec![requests(4, 2)]).await.0, [2]);
    assert!(collector.metric("iotrail_collector_refused_total").await >= 7.0);
    assert!(collector.end());
}

/// A message of some hundred kilobytes whose rows share a text stands for 400 MB: it is refused before it is
/// acknowledged, and costs no memory. Neighbours' rows are sealed.
#[tokio::test]
async fn rows_that_decode_to_much_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start(&Config::new(folder.path()));
    let mut good = collector.client("good").await;
    assert_eq!(good.put("service_op", 1, vec![requests(1, 3)]).await.0, [1]);
    let before = resident(collector.pid());
    let mut client = collector.client("dense").await;
    let (answered, ended) = client.put("service_op", 1, vec![requests_of_long_name(10, 4000, 100_000)]).await;
    let status = ended.expect_err("it decodes to 400 MB");
    assert!(answered.is_empty());
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("rows that decode to 40") && status.message().contains("agent dense"));
    // As much as is allowed is taken.
    assert_eq!(client.put("service_op", 2, vec![requests_of_long_name(20, 400, 100_000)]).await.0, [2]);
    assert_eq!(good.put("service_op", 2, vec![requests(5, 2)]).await.0, [2]);
    collector.seal().await;
    assert_eq!(collector.rows("service_op"), 3 + 400 + 2);
    assert!(resident(collector.pid()) < before + (256 << 20));
    assert!(collector.end());
}

/// Peers that announce 1 GiB, and peers that announce as much as is allowed and don't send it.
#[tokio::test]
async fn huge_messages_cost_no_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start(&Config::new(folder.path()));
    let mut client = collector.client("huge").await;
    let huge = requests(1, 400_000);
    let status = client.put("service_op", 1, vec![huge]).await.1.expect_err("too large");
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert!(status.message().contains("expected at most 16777216 bytes"), "{status}");

    let before = resident(collector.pid());
    let mut peers = Vec::new();
    for peer in 0..60 {
        let size: u32 = if peer % 2 == 0 { 1 << 30 } else { (16 << 20) - 1 };
        let mut stream = tokio::net::TcpStream::connect(collector.address).await.expect("it listens");
        let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc\r\nte: trailers\r\n\
             transfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut chunk = vec![0; 5 + 200_000];
        chunk[1..5].copy_from_slice(&size.to_be_bytes());
        let _ = stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await;
        let _ = tokio::time::timeout(std::time::Duration::from_millis(50), stream.write_all(&chunk)).await;
        peers.push(stream);
    }
    let grown = resident(collector.pid()).saturating_sub(before);
    // As much as the test's budget, and some for the connections.
    assert!(grown < 96 << 20, "{grown} bytes");
    assert_eq!(collector.client("good").await.put("service_op", 1, vec![requests(1, 3)]).await.0, [1]);
    let body = vec![b' '; 100];
    let headers = "content-type: application/json\r\n";
    assert_eq!(collector.http("POST", "/v1/traces", headers, &body).await.0, 400);
    drop(peers);
    assert!(collector.end());
}

fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("it runs");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

#[tokio::test]
async fn a_page_of_a_browser_gets_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start(&Config::new(folder.path()));
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let asked = [
        ("GET", "/live", format!("origin: http://elsewhere.example\r\n{upgrade}")),
        ("POST", "/seal", "origin: http://elsewhere.example\r\n".to_owned()),
        ("POST", "/v1/traces", "origin: null\r\ncontent-type: text/plain\r\n".to_owned()),
    ];
    for (method, path, headers) in &asked {
        assert_eq!(collector.http(method, path, headers, b"").await.0, 403, "{path}");
    }
    let port = collector.address.port();
    for (host, status) in [
        ("rebound.example", 403),
        ("127.0.0.1.rebound.example", 403),
        ("localhost", 200),
        ("127.0.0.1", 200),
        ("[::1]", 200),
    ] {
        for path in ["/metrics", "/info"] {
            let answer = http_as(collector.address, "GET", path, &format!("{host}:{port}"), "", b"").await;
            assert_eq!(answer.0, status, "{path} of {host}");
        }
    }
    assert_eq!(collector.metric("iotrail_collector_refused_total{reason=\"page\"}").await, 7.0);
    // A program may call it as it likes.
    let answer = http_as(collector.address, "POST", "/seal", "collector:4317", "", b"").await;
    assert_eq!(answer.0, 200);
    assert!(collector.end());
}

#[tokio::test]
async fn info_says_which_trail() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config::new(folder.path());
    let collector = Collector::start(&config);
    let (_, body) = collector.http("GET", "/info", "", b"").await;
    let found: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    let trail = config.trail.canonicalize().expect("it is there");
    let folder = trail.metadata().expect("it is there");
    assert_eq!(found["version"], env!("CARGO_PKG_VERSION"));
    let expected = serde_json::json!({
        "path": trail.to_str(), "device": folder.dev(), "inode": folder.ino()
    });
    assert_eq!(found["trail"], expected);
    assert!(collector.end());
}

#[tokio::test]
async fn a_token_and_tls_let_in_who_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &path("key"), "-out", &path("cert")])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: openssl is needed to make a certificate");
        return;
    }
    let token = "0123456789abcdef-secret";
    std::fs::write(path("token"), format!("{token}\n")).expect("written");
    std::fs::set_permissions(path("token"), std::fs::Permissions::from_mode(0o600)).expect("ours");
    let mut config = Config::new(folder.path());
    config.token = path("token");

    let plain = Collector::start(&config);
    let mut client = plain.client("a").await;
    for wrong in [None, Some("0123456789abcdef-secreT"), Some("")] {
        client.token = wrong.map(str::to_owned);
        let status = client.put("service_op", 1, vec![requests(1, 1)]).await.1.expect_err("no token");
        assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    }
    for path in ["/metrics", "/info", "/live"] {
        assert_eq!(plain.http("GET", path, "", b"").await.0, 401);
    }
    assert_eq!(plain.http("POST", "/seal", "authorization: Bearer nonsense\r\n", b"").await.0, 401);
    assert_eq!(plain.http("GET", "/health", "", b"").await.0, 200);
    let authorized = format!("authorization: Bearer {token}\r\n");
    assert_eq!(plain.http("GET", "/metrics", &authorized, b"").await.0, 200);
    drop(plain);

    (config.cert, config.key) = (path("cert"), path("key"));
    let collector = Collector::start(&config);
    let cert = std::fs::read(path("cert")).expect("it was made");
    let tls = tonic::transport::ClientTlsConfig::new()
        .ca_certificate(tonic::transport::Certificate::from_pem(cert))
        .domain_name("localhost");
    let channel = tonic::transport::Channel::from_shared(format!("https://{}", collector.address));
    let channel =
        channel.expect("an address").tls_config(tls).expect("TLS").connect().await.expect("it listens");
    let mut client = Client::over(channel, "a");
    client.token = Some(token.to_owned());
    assert_eq!(client.put("service_op", 1, vec![requests(1, 1)]).await.0, [1]);
    assert!(collector.end());
}
