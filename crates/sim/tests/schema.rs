//! Device files are judged alike by the reader and by their JSON Schema: the schema refuses nothing that the reader takes,
//! and the reader refuses what the schema takes only for what depends on several values.

use iotrail_sim::file::{DeviceFile, SHIPPED, schema};
use jsonschema::Validator;
use toml::{Table, Value};

/// Parts of the reader's messages about what no schema says.
const BETWEEN_VALUES: &[&str] = &[
    "capacity_bytes: expected",
    "a multiple of",
    "zones: sum of cylinders",
    "revolution_ns: expected",
    "skew_ns: expected",
    "segment_bytes: expected",
    "read_ahead_bytes: expected",
    "write_cache.size_bytes: expected",
    "seek.curve",
    "seek.table[",
    "1 to 32 sectors",
    "planes in all",
    "blocks and less than 2^32 pages",
    "over_provisioning: expected",
    "gc_threshold_blocks: expected more than",
    "mapping_entry_bytes: expected 1 to page_bytes",
    "cache.size_bytes: expected",
    "a device as the medium",
    "as a device is the medium",
    "the size of a chunk",
    "a mirror has no chunks",
    "devices altogether",
    "chunk_bytes: expected a multiple",
    "in its other columns",
    "flash whose tables take at most",
    "flash that is filled in at most",
    // JSON has one kind of number.
    "format: expected 1, found 1.0",
];

struct Judges(Validator);

impl Judges {
    fn new() -> Self {
        Self(jsonschema::draft7::new(&schema()).expect("a schema"))
    }

    fn schema_takes(&self, table: &Table) -> bool {
        self.0.is_valid(&serde_json::to_value(table).expect("TOML is JSON but for dates"))
    }

    /// Whether both take a file, and what the reader says otherwise.
    fn judge(&self, text: &str) -> Result<(), String> {
        let read = DeviceFile::parse(text).map(|_| ()).map_err(|error| error.to_string());
        let Ok(table) = text.parse::<Table>() else { return read };
        let valid = self.schema_takes(&table);
        match &read {
            Ok(()) => assert!(valid, "only the schema refuses\n{text}\n{:?}", self.why(&table)),
            Err(message) => assert!(
                !valid || BETWEEN_VALUES.iter().any(|known| message.contains(known)),
                "only the reader refuses: {message}"
            ),
        }
        read
    }

    fn why(&self, table: &Table) -> Vec<String> {
        let value = serde_json::to_value(table).expect("as before");
        self.0.iter_errors(&value).map(|error| format!("{} {error}", error.instance_path)).collect()
    }
}

const ARRAY: &str = r#"
    format = 1
    kind = "array"
    name = "two disks with a cache before them"
    [array]
    layout = { value = "stripe", source = "s" }
    chunk = { value = 64, unit = "KiB", source = "s" }
    [[array.member]]
    device = { value = "hdd-7200", source = "s" }
    count = { value = 2, unit = "count", source = "s" }
    [[array.member]]
    kind = "fixed"
    [array.member.fixed]
    capacity = { value = 100, unit = "GB", source = "s" }
    servers = { value = 2, unit = "count", source = "s" }
    read = { value = 1.5, unit = "ms", source = "s", error = 0.1 }
    write = { value = 20, unit = "us", source = "s" }
    flush = { value = 0, unit = "ns", source = "s" }
    trim = { value = 1, unit = "s", source = "s" }
    rate = { value = 1, unit = "MiB/s", source = "s" }
    [cache]
    policy = { value = "2q", source = "s" }
    size = { value = 1, unit = "GB", source = "s" }
    block = { value = 64, unit = "KiB", source = "s" }
    write = { value = "through", source = "s" }
    admission = { value = 2, unit = "count", source = "s" }
    device = { device = { value = "sata-ssd", source = "s" } }
    [measured.depth]
    queue_depth = [1, 2]
    reads_per_s = [100.5, 200]
"#;

/// Files that both take: those that come with the program, what `device fit` and `device measure` wrote, and one with all
/// that these don't have.
fn valid_files() -> Vec<(&'static str, String)> {
    let written = [
        ("fitted", include_str!("files/fitted.toml")),
        ("measured-disk", include_str!("files/measured-disk.toml")),
        ("measured-volume", include_str!("files/measured-volume.toml")),
        ("array", ARRAY),
    ];
    SHIPPED.into_iter().chain(written).map(|(name, text)| (name, text.to_owned())).collect()
}

/// Each place of a table, as keys and indices.
fn places(value: &Value, at: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut into = |key: String, inner: &Value| {
        at.push(key);
        found.push(at.clone());
        places(inner, at, found);
        at.pop();
    };
    match value {
        Value::Table(table) => table.iter().for_each(|(key, inner)| into(key.clone(), inner)),
        // items are alike
        Value::Array(list) => {
            list.iter().take(2).enumerate().for_each(|(key, inner)| into(key.to_string(), inner))
        }
        _ => {}
    }
}

/// What is at a place.
fn at<'a>(file: &'a mut Value, place: &[String]) -> &'a mut Value {
    place.iter().fold(file, |value, key| match value {
        Value::Array(list) => &mut list[key.parse::<usize>().expect("an index")],
        table => &mut table[key.as_str()],
    })
}

/// What may stand in the place of a value.
fn replacements() -> Vec<Value> {
    let numbers =
        [0.0, -1.0, 0.3, 0.5, 1.0, 1.5, 7.0, 64.0, 512.0, 1000.0, 1e6, 1e10, 1e300, f64::NAN, f64::INFINITY];
    let whole = [0, -1, 1, 2, 16, 100, 4096, 1 << 20, 1 << 32, 1 << 62];
    let units = [
        "", "ns", "us", "ms", "s", "rpm", "B", "kB", "GiB", "MB/s", "KiB/s", "W", "mW", "ratio", "%",
        "count", "parsec",
    ];
    let names = [
        "fcfs", "CWDP", "CCCC", "lru", "mru", "stripe", "mirror", "hdd-7200", "greedy", "fixed", "array",
        "back",
    ];
    let mut all: Vec<Value> = numbers.map(Value::Float).to_vec();
    all.extend(whole.map(Value::Integer));
    all.extend(units.into_iter().chain(names).map(Value::from));
    all.extend([true.into(), Value::Array(vec![]), Value::Array(vec![Value::Integer(1), Value::Integer(2)])]);
    all.extend([Value::Table(Table::new()), Value::Array(vec![Value::Table(Table::new())])]);
    all
}

#[test]
fn files_that_are_taken_are_valid() {
    let judges = Judges::new();
    for (name, text) in valid_files() {
        assert_eq!(judges.judge(&text), Ok(()), "{name}");
    }
}

/// Judges a file with each of its places replaced, removed or added to. How many were refused, and how many taken.
fn judge_changes(judges: &Judges, text: &str) -> (u32, u32) {
    let file = Value::Table(text.parse().expect("TOML"));
    let (mut found, mut refused, mut taken) = (Vec::new(), 0, 0);
    places(&file, &mut Vec::new(), &mut found);
    let mut judge = |place: &[String], value: Value| {
        let mut changed = file.clone();
        *at(&mut changed, place) = value;
        let Value::Table(table) = changed else { return };
        match judges.judge(&table.to_string()) {
            Ok(()) => taken += 1,
            Err(_) => refused += 1,
        }
    };
    for place in found {
        replacements().into_iter().for_each(|value| judge(&place, value));
        let (key, above) = place.split_last().expect("a place has a key");
        if let Value::Table(mut table) = at(&mut file.clone(), above).clone() {
            table.remove(key);
            judge(above, Value::Table(table));
        }
        if let Value::Table(table) = at(&mut file.clone(), &place).clone() {
            for (key, inner) in [("unknown", Value::Integer(1)), ("unit", "s".into())] {
                let mut table = table.clone();
                table.insert(key.into(), inner);
                judge(&place, Value::Table(table));
            }
        }
    }
    (refused, taken)
}

#[test]
fn files_with_any_one_change_are_judged_alike() {
    let judges = Judges::new();
    let files = valid_files();
    let counts: Vec<(u32, u32)> = std::thread::scope(|scope| {
        let judging = files.iter().map(|(_, text)| scope.spawn(|| judge_changes(&judges, text)));
        judging.collect::<Vec<_>>().into_iter().map(|thread| thread.join().expect("alike")).collect()
    });
    let (refused, taken) = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    assert!(refused > 10_000 && taken > 1000, "{refused} refused, {taken} taken");
}

#[test]
fn a_unit_in_a_key_is_refused_by_both() {
    let judges = Judges::new();
    let text =
        SHIPPED[2].1.replace("read = { value = 1, unit = \"ms\"", "read_ns = { value = 1, unit = \"count\"");
    assert!(text.contains("read_ns"));
    let message = judges.judge(&text).expect_err("a count of nanoseconds");
    assert!(message.contains("fixed.read_ns: expected a key without a unit in its name"), "{message}");
}

#[test]
fn bounds_stand_in_each_unit() {
    let schema = schema();
    let judges = Judges::new();
    let revolution = |value: &str, unit: &str| {
        let text = SHIPPED[1].1.replace(
            "revolution = { value = 7200, unit = \"rpm\"",
            &format!("revolution = {{ value = {value}, unit = \"{unit}\""),
        );
        judges.judge(&text).is_ok()
    };
    // skews are 1 ms
    assert!(
        revolution("2", "ms")
            && revolution("15000", "rpm")
            && revolution("1", "s")
            && revolution("60", "rpm")
    );
    assert!(
        !revolution("0", "ms")
            && !revolution("0", "rpm")
            && !revolution("1001", "ms")
            && !revolution("59", "rpm")
    );
    let sector = &schema["definitions"]["disk"]["properties"]["sector"];
    assert_eq!(sector["description"].as_str().map(|text| &text[..17]), Some("Bytes of a sector"));
}
