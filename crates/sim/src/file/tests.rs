//! Files that are read, and what is said of those that are not.

use super::*;
use crate::{cached, fixed};

const FIXED: &str = r#"
    format = 1
    kind = "fixed"
    name = "a"
    [fixed]
    capacity = { value = 100, unit = "GB", source = "s" }
    servers = { value = 2, unit = "count", source = "s" }
    read = { value = 1.5, unit = "ms", source = "s" }
    write = { value = 20, unit = "us", source = "s" }
    flush = { value = 0, unit = "ns", source = "s" }
    trim = { value = 1, unit = "s", source = "s" }
    rate = { value = 1, unit = "MiB/s", source = "s" }
"#;

#[test]
fn values_come_in_base_units() {
    let file = DeviceFile::parse(FIXED).unwrap();
    let expected = fixed::Parameters {
        capacity_bytes: 100_000_000_000,
        servers: 2,
        read_ns: 1_500_000,
        write_ns: 20_000,
        flush_ns: 0,
        trim_ns: 1_000_000_000,
        rate_bytes_per_s: 1 << 20,
    };
    assert_eq!(file.device, Described { kind: Kind::Fixed(expected), cache: None });
    assert_eq!(file.entries.len(), 7);
    let read = file.entries.iter().find(|entry| entry.key == "fixed.read").unwrap();
    assert_eq!((read.unit.as_deref(), read.source.as_str()), (Some("ms"), "s"));
}

#[test]
fn shipped_files_are_read() {
    for (name, text) in SHIPPED {
        let file = DeviceFile::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(file.build().capacity() > 0);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let capacity = r#"capacity = { value = 100, unit = "GB", source = "s" }"#;
    for (from, to, expected) in [
        ("format = 1", "format = 2", "format: expected 1, found 2"),
        ("format = 1", "format = ", "line 2: expected TOML"),
        ("name = \"a\"", "", "name: expected a text, found nothing"),
        (
            "kind = \"fixed\"",
            "kind = \"tape\"",
            "kind: expected one of array, disk, fixed, ssd, found \"tape\"",
        ),
        ("kind = \"fixed\"", "kind = \"disk\"", "fixed: expected no keys but format, name, measured"),
        ("kind = \"fixed\"", "kind = \"fixed\"\nnotes = 1", "notes: expected a text, found 1"),
        (capacity, "", "[fixed]: expected missing field `capacity_bytes`"),
        (capacity, "capacity = 100", "fixed.capacity: expected a table { value, unit, source }, found 100"),
        (capacity, r#"capacity = { value = 100, source = "s" }"#, "fixed.capacity.unit: expected a unit"),
        (capacity, r#"capacity = { value = 100, unit = "GB" }"#, "fixed.capacity.source: expected where"),
        (
            capacity,
            r#"capacity = { value = 0, unit = "GB", source = "s" }"#,
            "fixed.capacity_bytes: expected 1 to",
        ),
        (
            capacity,
            r#"capacity = { value = -1, unit = "GB", source = "s" }"#,
            "fixed.capacity_bytes: expected 1 to 9223372036854775807, found -1000000000",
        ),
        (capacity, r#"capacity = { value = nan, unit = "GB", source = "s" }"#, "expected a number below"),
        (capacity, r#"capacity = { value = 1e300, unit = "GB", source = "s" }"#, "expected a number below"),
        (capacity, r#"capacity = { value = 1, unit = "ms", source = "s" }"#, "unknown field `capacity_ns`"),
        (capacity, r#"capacity = { value = 1, unit = "parsec", source = "s" }"#, "expected one of ns, us"),
        ("value = 2,", "value = 2.5,", "fixed.servers.value: expected a whole number, found 2.5"),
        ("value = 2,", "error = -1, value = 2,", "fixed.servers.error: expected 0 or more"),
        ("[fixed]", "[measured.a]\nb = [1]\nc = [1, 2]\n[fixed]", "measured.a.c: expected 1 numbers"),
        ("[fixed]", "[measured]\na = 1\n[fixed]", "measured.a: expected a table of lists, found 1"),
    ] {
        let error = DeviceFile::parse(&FIXED.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

const CACHE: &str = r#"
    [cache]
    policy = { value = "2q", source = "s" }
    size = { value = 1, unit = "GB", source = "s" }
    block = { value = 64, unit = "KiB", source = "s" }
    write = { value = "through", source = "s" }
    admission = { value = 2, unit = "count", source = "s" }
"#;
const MEMORY: &str = r#"
    latency = { value = 2, unit = "us", source = "s" }
    rate = { value = 8, unit = "GB/s", source = "s" }
"#;

#[test]
fn a_cache_is_memory_or_a_device() {
    let file = DeviceFile::parse(&format!("{FIXED}{CACHE}{MEMORY}")).unwrap();
    let Before { parameters, medium } = file.device.cache.as_ref().unwrap();
    assert_eq!((parameters.policy, parameters.write), (crate::cache::Policy::TwoQ, cached::Write::Through));
    assert_eq!((parameters.latency_ns, parameters.admission, medium.is_some()), (Some(2000), 2, false));
    assert_eq!(file.build().capacity(), 100_000_000_000);
    let by_name = r#"device.device = { value = "network-volume", source = "s" }"#;
    let file = DeviceFile::parse(&format!("{FIXED}{CACHE}{by_name}")).unwrap();
    let medium = file.device.cache.as_ref().unwrap().medium.as_ref().unwrap();
    assert_eq!(medium.capacity(), 1_000_000_000_000);
    assert!(file.entries.iter().any(|entry| entry.key == "cache.device.device"));
    let table = FIXED.replace("format = 1", "").replace("[fixed]", "[cache.device.fixed]");
    let file = DeviceFile::parse(&format!("{FIXED}{CACHE}[cache.device]{table}")).unwrap();
    assert_eq!(file.device.cache.unwrap().medium.unwrap().capacity(), 100_000_000_000);
}

#[test]
fn an_array_has_members() {
    let array = r#"
        format = 1
        kind = "array"
        name = "a"
        [array]
        layout = { value = "stripe", source = "s" }
        chunk = { value = 64, unit = "KiB", source = "s" }
        [[array.member]]
        device = { value = "hdd-7200", source = "s" }
        count = { value = 3, unit = "count", source = "s" }
    "#;
    let file = DeviceFile::parse(array).unwrap();
    assert!(file.is_rotational());
    let Kind::Array(_, members) = &file.device.kind else { panic!("an array") };
    assert_eq!(members.len(), 3);
    let member = members[0].capacity() / 65_536 * 65_536;
    assert_eq!((file.device.capacity(), file.build().capacity()), (member * 3, member * 3));
    let cached = DeviceFile::parse(&format!("{array}{CACHE}{MEMORY}")).unwrap();
    assert_eq!(cached.build().capacity(), member * 3);
    for (from, to, expected) in [
        (r#"value = "hdd-7200""#, r#"value = "tape""#, r#"array.member[0].device: expected one of hdd-10k"#),
        ("value = 3,", "value = 0,", "array.member[0].count: expected 1 to 256"),
        ("value = 3,", "value = 257,", "array.member[0].count: expected 1 to 256"),
        (
            r#"value = "stripe""#,
            r#"value = "raid5""#,
            "array.layout: expected one of stripe, mirror, found \"raid5\"",
        ),
        ("value = 64,", "value = 63.7,", "array.chunk_bytes: expected a multiple of 512"),
        (
            "[[array.member]]",
            "[array.member]",
            "array.member: expected tables [[array.member]], found a table",
        ),
        ("device = {", "kind = \"fixed\"\ndevice = {", "array.member[0].kind: expected a table"),
    ] {
        let error = DeviceFile::parse(&array.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_cache_is_said() {
    let whole = format!("{FIXED}{CACHE}{MEMORY}");
    for (from, to, expected) in [
        (
            r#"value = "2q""#,
            r#"value = "mru""#,
            "cache.policy: expected one of lru, fifo, clock, lfu, 2q, arc, s3-fifo, sieve, found \"mru\"",
        ),
        (
            r#"value = "through""#,
            r#"value = "away""#,
            "cache.write: expected one of through, back, around, found \"away\"",
        ),
        ("value = 64, unit = \"KiB\"", "value = 2, unit = \"GB\"", "cache.block_bytes: expected 512 to"),
        (
            "value = 64, unit = \"KiB\"",
            "value = 1000, unit = \"B\"",
            "cache.block_bytes: expected a multiple of 512",
        ),
        (
            r#"size = { value = 1, unit = "GB""#,
            r#"size = { value = 1, unit = "kB""#,
            "cache.size_bytes: expected 65536 to",
        ),
        (
            r#"latency = { value = 2, unit = "us", source = "s" }"#,
            "",
            "cache.latency_ns: expected a value, or a device",
        ),
        ("[cache]", "[cache]\ndevice.kind = \"tape\"", "cache.device.kind: expected one of array, disk"),
        ("[cache]", "[cache]\nghost = 1", "cache.ghost: expected a table"),
        (
            "[cache]",
            "[cache]\ndevice.device = { value = \"network-volume\", source = \"s\" }",
            "cache.latency_ns: expected nothing, as a device is the medium, found 2000",
        ),
    ] {
        let error = DeviceFile::parse(&whole.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
    let nested = "[cache.device]\nkind = \"fixed\"\n[cache.device.cache]\ndevice.device.device.device.device.kind = \"fixed\"";
    assert!(DeviceFile::parse(&format!("{FIXED}{nested}")).is_err());
}

#[test]
fn the_intercept_of_long_seeks_may_be_negative() {
    let (_, text) = SHIPPED[1];
    let curve = |c: &str, d: &str| text.replace("value = 4.9296", c).replace("value = 12.5704", d);
    // Continuous at e = 0.3, where the first part has 8.701 ms.
    let Kind::Disk(disk) = DeviceFile::parse(&curve("value = -2", "value = 35.6687")).unwrap().device.kind
    else {
        panic!("a disk")
    };
    assert!(matches!(disk.seek, crate::disk::Seek::Curve(curve) if curve.c_ns == -2e6));
    let error = DeviceFile::parse(&curve("value = -9", "value = 12.5704")).unwrap_err().to_string();
    assert!(error.starts_with("disk.seek.curve: c_ns + d_ns·e: expected 0 to 1 s"), "{error}");
}

#[test]
fn keys_of_tables_have_units_of_their_own() {
    let (_, text) = SHIPPED[1];
    let Kind::Disk(disk) = DeviceFile::parse(text).unwrap().device.kind else { panic!("a disk") };
    assert_eq!(disk.zones.len(), 16);
    assert_eq!((disk.zones[0].sectors_per_track, disk.revolution_ns), (1440, 8_333_333));
}

#[test]
fn flash_that_no_machine_can_hold_or_fill_is_refused() {
    let (_, text) = SHIPPED[3];
    let value = |key: &str, value: u32| format!("{key} = {{ value = {value}, unit = \"count\"");
    let change = |changes: &[(&str, u32, u32)]| {
        changes.iter().fold(text.to_owned(), |text, (key, from, to)| {
            assert!(text.contains(&value(key, *from)), "{key}");
            text.replace(&value(key, *from), &value(key, *to))
        })
    };
    let parse = |text: &str| {
        DeviceFile::parse(text).map(|file| file.device.cost()).map_err(|error| error.to_string())
    };
    let shipped = parse(text).unwrap();
    // 64 planes of 1,024 blocks of 576 pages: 4 bytes a page, 8 a logical page, and 20 a block
    assert!((400 << 20..420 << 20).contains(&shipped.table_bytes), "{shipped:?}");
    assert!((40_000_000..400_000_000).contains(&shipped.filling_steps), "{shipped:?}");
    let large = change(&[("blocks_per_plane", 1024, 32_768), ("pages_per_block", 576, 2000)]);
    assert_eq!(
        parse(&large).unwrap_err(),
        "blocks_per_plane: expected flash whose tables take at most 16 GiB of memory, 12 bytes a page, found 44 GiB"
    );
    let many = format!(
        "format = 1\nkind = \"array\"\nname = \"a\"\n[array]\nlayout = {{ value = \"mirror\", source = \"s\" }}\n\
         [[array.member]]\ndevice = {{ value = \"nvme-ssd\", source = \"s\" }}\n{} , source = \"s\" }}",
        value("count", 100)
    );
    assert!(parse(&many).unwrap_err().starts_with("blocks_per_plane: expected flash whose tables"));
    let greedy = change(&[("blocks_per_plane", 1024, 1 << 18), ("pages_per_block", 576, 4)]);
    let victim = greedy.find("[ssd.victim]").unwrap()..greedy.find("[ssd.power]").unwrap();
    let greedy = greedy.replace(&greedy[victim], "");
    let greedy = greedy.replace("[ssd]\n", "[ssd]\nvictim = { value = \"greedy\", source = \"s\" }\n");
    let message = parse(&greedy).unwrap_err();
    assert!(
        message.starts_with("written.share: expected flash that is filled in at most 4.3 billion steps"),
        "{message}"
    );
}
