//! The binary as a person meets it: what it makes, and what it says when the input is bad.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use iotrail_format::schema::{ColumnType, FILE_OP, RECORDING, TABLES, Table, UNSEEN};
use iotrail_trail::{Info, Order, TrailReader, check};
use serde_json::Value;

const ROWS: i64 = 3;

fn native(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iotrail-native")).args(arguments).output().expect("the binary runs")
}

/// Runs a command that must succeed, and returns what it printed.
fn works(arguments: &[&str]) -> String {
    let output = native(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs a command that must fail as bad input should: exit code 1 and a message of a few lines that
/// contains each of `parts`.
fn fails(arguments: &[&str], parts: &[&str]) {
    refused(&native(arguments), parts);
}

fn refused(output: &Output, parts: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("iotrail: error: "), "{message}");
    assert!(message.lines().count() <= 4 && !message.contains("panicked"), "{message}");
    for part in parts {
        assert!(message.contains(part), "expected {part:?} in: {message}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Value of an integer column in a row of the sample, which is in every table's order.
fn number(column: usize, row: i64) -> i64 {
    row * 1000 + column as i64
}

/// Rows of a table: numbers and words made from their place, null in the last row where null may be.
fn sample(table: &Table) -> RecordBatch {
    let columns = table.columns.iter().enumerate().map(|(at, column)| {
        let null = |row: i64| column.nullable && row == ROWS - 1;
        let array: ArrayRef = match column.ty {
            ColumnType::Text => Arc::new(
                (0..ROWS)
                    .map(|row| {
                        (!null(row)).then(|| {
                            if column.name == "node" { "n1".into() } else { format!("{}-{row}", column.name) }
                        })
                    })
                    .collect::<StringArray>(),
            ),
            ColumnType::Double => Arc::new(
                (0..ROWS).map(|row| (!null(row)).then(|| number(at, row) as f64)).collect::<Float64Array>(),
            ),
            ColumnType::BigInt => {
                Arc::new((0..ROWS).map(|row| (!null(row)).then(|| number(at, row))).collect::<Int64Array>())
            }
        };
        (column.name, array)
    });
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref()).expect("a stream");
    writer.write(batch).expect("a batch");
    writer.into_inner().expect("its end")
}

/// Makes a trail with a few rows in every table, by `ingest`.
fn sample_trail(folder: &Path, name: &str) -> PathBuf {
    let trail = folder.join(name);
    let mut arguments = vec!["ingest".to_owned(), "-o".to_owned(), trail.display().to_string()];
    for table in TABLES {
        let path = folder.join(format!("{}.arrows", table.name));
        fs::write(&path, stream(&sample(table))).expect("a stream");
        arguments.push(format!("{}={}", table.name, path.display()));
    }
    works(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    trail
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The only data file of a table.
fn data_file(trail: &Path, table: &str) -> PathBuf {
    let snapshot = iotrail_trail::Snapshot::newest(trail).expect("a trail");
    trail.join(&snapshot.files(table)[0].path)
}

/// Asserts that a trail holds the sample in all tables.
fn holds_sample(trail: &Path) {
    holds_sample_but(trail, &[]);
}

/// Asserts that a trail holds the sample in all tables but these, which are empty.
fn holds_sample_but(trail: &Path, empty: &[&str]) {
    let info = Info::of(trail).expect("a trail");
    assert_eq!(info.node, ["n1"]);
    for table in TABLES {
        let found = info.tables.iter().find(|t| t.name == table.name).expect("all tables");
        let rows = if empty.contains(&table.name) { 0 } else { ROWS as u64 };
        assert_eq!(found.rows, rows, "{}", table.name);
    }
    assert_eq!(info.recording[1]["value"], "value-1");
    assert_eq!(info.recording[2]["value"], Value::Null);
    let reader = TrailReader::open(trail).expect("a trail");
    let mut rows = reader.file_ops(Order::Thread).expect("live files");
    for row in 0..ROWS {
        let op = rows.next().expect("sound").expect("a row");
        let last = row == ROWS - 1;
        assert_eq!(
            (op.ts, op.dur, op.call),
            (number(0, row), (!last).then(|| number(1, row)), &*format!("call-{row}"))
        );
        assert_eq!(
            (op.thread.0, op.pos, op.calls),
            (number(3, row), (!last).then(|| number(9, row)), number(14, row))
        );
    }
    assert!(rows.next().expect("sound").is_none());
    assert!(check(trail, false).expect("a check").is_sound());
}

#[test]
fn the_trail_of_format_version_1_is_read() {
    // Made once by `ingest` from `sample`; never made again, so that old trails stay readable.
    let later = [
        "service_op",
        "stitch",
        "buffer_op",
        "network_transmit",
        "disk_op",
        "cpu_slice",
        "wake",
        "thread_time",
        "compute",
        "signal",
        "wait",
        "critical_path",
        "member",
        "extent",
        "node_sample",
        "kernel_seen",
        "pruned",
        "setting",
        "measurement",
        "measured",
        "expected",
    ];
    let later = [&later[..], &iotrail_format::schema::ROLLUPS].concat();
    holds_sample_but(
        &Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../tests/fixtures/v1.trail"),
        &later,
    );
}

#[test]
fn the_committed_schema_is_this_one() {
    let committed =
        Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../python/iotrail/schema.json");
    let committed: Value = serde_json::from_slice(&fs::read(committed).expect("the copy")).expect("JSON");
    let printed: Value = serde_json::from_str(&works(&["schema"])).expect("JSON");
    assert!(committed == printed, "run: iotrail-native schema > python/iotrail/schema.json");
}

#[test]
fn ingest_info_compact_check_and_merge() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = sample_trail(folder.path(), "a.trail");
    holds_sample(&trail);
    let info = works(&["trail", "info", path(&trail)]);
    assert!(info.contains("file_op") && info.contains("name-0") && info.contains("not seen"), "{info}");
    let json: Value = serde_json::from_str(&works(&["trail", "info", "--json", path(&trail)])).expect("JSON");
    assert_eq!(json["tables"][0]["rows"], ROWS);
    works(&["trail", "compact", "--grace", "0s", path(&trail)]);
    holds_sample(&trail);
    assert!(
        works(&["trail", "check", path(&trail)])
            .contains(&format!("{} rows, all can be read", ROWS * TABLES.len() as i64))
    );
    let merged = folder.path().join("c.trail");
    works(&["trail", "merge", path(&trail), "-o", path(&merged)]);
    holds_sample(&merged);
    fails(
        &["trail", "merge", path(&trail), path(&merged), "-o", path(&folder.path().join("d"))],
        &["count twice"],
    );
    fails(&["trail", "merge", path(&trail), "-o", path(&merged)], &["exists already", "--force"]);
    works(&["trail", "merge", "--force", path(&trail), "-o", path(&merged)]);
}

/// Of tables that are shown whole, a trail may have any number of rows, and texts of any length.
#[test]
fn info_is_bounded() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = folder.path().join("a.trail");
    let mut arguments = vec!["ingest".to_owned(), "-o".to_owned(), trail.display().to_string()];
    let long = "x".repeat(100_000);
    // Too many rows of one, too long texts of the other.
    for (table, rows, value) in [(&RECORDING, 25_000, "v"), (&UNSEEN, 100, long.as_str())] {
        let columns = table.columns.iter().map(|column| {
            let array: ArrayRef = match column.ty {
                ColumnType::Text => Arc::new(StringArray::from_iter_values(
                    (0..rows).map(|row| if row % 10 == 0 { format!("{row}") } else { value.to_owned() }),
                )),
                _ => Arc::new(Int64Array::from_iter_values(0..rows)),
            };
            (column.name, array)
        });
        let file = folder.path().join(table.name);
        fs::write(&file, stream(&RecordBatch::try_from_iter(columns).expect("columns of one length")))
            .expect("a stream");
        arguments.push(format!("{}={}", table.name, file.display()));
    }
    works(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let json = works(&["trail", "info", "--json", path(&trail)]);
    assert!(json.len() < 8 << 20, "{} bytes", json.len());
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let shown = |table: &str| json[table].as_array().expect("rows").len() as i64;
    let left_out = |table: &str| json["left_out"][table].as_i64().unwrap_or(0);
    assert_eq!((shown("recording"), left_out("recording")), (10_000, 15_000));
    assert!(shown("unseen") > 10 && left_out("unseen") == 100 - shown("unseen"));
    assert_eq!((shown("pruned"), json["left_out"].get("pruned")), (0, None));
    let info = works(&["trail", "info", path(&trail)]);
    for table in ["recording", "unseen"] {
        let more = format!("more rows: iotrail sql {} 'FROM {table}'", path(&trail));
        assert!(info.contains(&more), "{more}");
    }
    assert!(!info.contains("FROM pruned"));
}

#[test]
fn ingest_reads_one_stream_from_stdin() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = folder.path().join("a.trail");
    let run = |input: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_iotrail-native"))
            .args(["ingest", "--force", "-o", path(&trail), "--table", "file_op"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // It may end before it has read all.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().expect("it ends")
    };
    let whole = stream(&sample(&FILE_OP));
    assert!(run(&whole).status.success());
    assert_eq!(Info::of(&trail).expect("a trail").tables[0].rows, ROWS as u64);
    refused(&run(&whole[..whole.len() / 2]), &["stdin: not a whole Arrow IPC stream"]);
    refused(&run(b""), &["stdin: not a whole Arrow IPC stream"]);
    assert!(!trail.exists(), "a failed ingestion leaves nothing that looks like a trail");
}

#[test]
fn ingest_refuses_what_does_not_fit() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = folder.path().join("a.trail");
    let input = folder.path().join("x.arrows");
    let given = format!("file_op={}", path(&input));
    let ingest = ["ingest", "-o", path(&trail), &given];
    fails(&ingest, &["cannot open", "x.arrows"]);
    let put = |batch: &RecordBatch| fs::write(&input, stream(batch)).expect("a stream");
    let mut less = sample(&FILE_OP);
    less.remove_column(0);
    put(&less);
    fails(&ingest, &["x.arrows, rows 0..3", "column \"ts\" is missing"]);
    let extra = RecordBatch::try_from_iter([("tz", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    put(&extra.expect("a column"));
    fails(&ingest, &["no column \"tz\""]);
    let unknown = native(&["ingest", "-o", path(&trail), "files=x"]);
    assert_eq!(unknown.status.code(), Some(2), "wrong usage");
    assert!(text(&unknown.stderr).contains("there is no table \"files\""));
    assert!(!trail.exists());
}

#[test]
fn strace_reads_files_in_pieces() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = folder.path().join("summary");
    let run = |pieces: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_iotrail-native"))
            .args(["strace", "--node=n1", "--summary", path(&summary), "7", "8"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        for piece in pieces {
            stdin.write_all(&(piece.len() as u32).to_le_bytes()).expect("it reads");
            stdin.write_all(piece.as_bytes()).expect("it reads");
        }
        drop(stdin);
        child.wait_with_output().expect("it ends")
    };
    let output = run(&["close(3) = 0\nfsyn", "c(3) = 0", "", "noise\nclose(4) = 0\n", ""]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut rest = &output.stdout[..];
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let mut stream = StreamReader::try_new(&mut rest, None).expect("a stream");
        let batch = stream.next().expect("a batch").expect("whole");
        rows.push((stream.schema().metadata()["table"].clone(), batch.num_rows()));
        assert!(stream.next().is_none(), "one batch a stream");
    }
    assert_eq!(rows, [("file_op", 3), ("thread", 2), ("process", 2)].map(|(t, n)| (t.to_owned(), n)));
    let summary: Value = serde_json::from_slice(&fs::read(&summary).expect("a summary")).expect("JSON");
    assert_eq!((&summary["lines"], &summary["skipped"]["first"][0]["source"]), (&4.into(), &1.into()));

    refused(&run(&["close(3) = 0\n", ""]), &["stdin ends before the trace does", "length 0"]);
}

#[test]
fn what_is_not_a_trail_is_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("a directory");
    let file = folder.path().join("file");
    fs::write(&file, "text").expect("a file");
    let verbs: [&[&str]; 3] = [&["trail", "info"], &["trail", "check"], &["trail", "compact"]];
    for verb in verbs {
        let fails = |given: &Path, parts: &[&str]| fails(&[verb, &[path(given)]].concat(), parts);
        fails(&folder.path().join("none"), &["no trail at", "no such file"]);
        fails(&empty, &["empty is not a trail", "the directory is empty", "hint"]);
        fails(&file, &["file is not a trail", "it is a file"]);
        fails(folder.path(), &["is not a trail", "no folder snapshots/"]);
    }
}

#[test]
fn a_damaged_trail_is_named_and_repaired() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = sample_trail(folder.path(), "a.trail");
    let data = data_file(&trail, "file_op");
    let bytes = fs::read(&data).expect("the data file");
    fs::write(&data, &bytes[..bytes.len() - 20]).expect("the data file");
    let other = folder.path().join("b.trail");
    fails(
        &["trail", "merge", path(&trail), "-o", path(&other)],
        &["not a whole Parquet file", "check --repair"],
    );
    assert!(!other.exists());
    let checked = native(&["trail", "check", path(&trail)]);
    let all = ROWS * TABLES.len() as i64;
    refused(&checked, &[&format!("is damaged: 3 of {all} rows can't be read"), "--repair"]);
    assert!(text(&checked.stdout).contains("damaged: data/file_op/"));
    assert!(
        works(&["trail", "check", "--repair", path(&trail)]).contains(&format!("holds {} rows", all - ROWS))
    );
    assert!(
        works(&["trail", "check", path(&trail)]).contains(&format!("{} rows, all can be read", all - ROWS))
    );
}

#[test]
fn snapshots_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = sample_trail(folder.path(), "a.trail");
    let snapshots = iotrail_trail::Snapshot::numbers(&trail).expect("a trail");
    let newest = iotrail_trail::Snapshot::path(&trail, *snapshots.last().expect("one"));
    let whole = fs::read_to_string(&newest).expect("a snapshot");
    let info = ["trail", "info", path(&trail)];
    fs::write(&newest, whole.replace("\"iotrail_trail\": 1", "\"iotrail_trail\": 2")).expect("a snapshot");
    fails(&info, &["is of trail format 2", "reads up to 1", "update iotrail"]);
    fs::write(&newest, &whole[..whole.len() / 2]).expect("a snapshot");
    assert!(
        works(&info).contains("snapshot 2 can't be read"),
        "the one before is the trail, and that is said"
    );
    let all = |text: &str| {
        for number in &snapshots {
            fs::write(iotrail_trail::Snapshot::path(&trail, *number), text).expect("a snapshot");
        }
    };
    all(&whole.replace("\"name\": \"errno\"", "\"name\": \"error\""));
    fails(&info, &["table file_op: column errno is missing"]);
    all(&whole.replace("BIGINT", "INTEGER"));
    fails(&info, &["column ts: expected BIGINT, found INTEGER"]);
    all(&whole.replace("data/file_op/", "data/file_op/../../../"));
    fails(&info, &["expected a path data/file_op/NAME.parquet"]);
    all(&whole[..whole.len() / 2]);
    fails(&info, &["the snapshot is cut off", "check --repair"]);
    fails(&["trail", "check", path(&trail)], &["none of its snapshots can be read"]);
    works(&["trail", "check", "--repair", path(&trail)]);
    holds_sample(&trail);
}

#[test]
fn no_permission() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = sample_trail(folder.path(), "a.trail");
    fs::set_permissions(trail.join("snapshots"), fs::Permissions::from_mode(0o000)).expect("chmod");
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrail-native"));
    command.args(["trail", "info", path(&trail)]);
    if root {
        // Root may read everything: be nobody, with a binary nobody can reach.
        let binary = folder.path().join("iotrail-native");
        fs::copy(env!("CARGO_BIN_EXE_iotrail-native"), &binary).expect("a copy");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        command = Command::new(binary);
        command.args(["trail", "info", path(&trail)]).uid(65534).gid(65534);
    }
    refused(&command.output().expect("the binary runs"), &["Permission denied", "hint"]);
    fs::set_permissions(trail.join("snapshots"), fs::Permissions::from_mode(0o755)).expect("chmod");
}

/// Numbers that don't compress.
fn crc(value: u32) -> u32 {
    (0..32)
        .fold(value ^ 0x9e37_79b9, |sum, _| (sum >> 1) ^ (0xedb8_8320 * (sum & 1)))
        .wrapping_mul(0x85eb_ca6b)
}

#[test]
fn no_space() {
    let folder = tempfile::tempdir().expect("a directory");
    let input = folder.path().join("x.arrows");
    let rows = 200_000;
    let random = |seed: u32| {
        let value = move |row: u32| i64::from(crc(row ^ seed)) << 30 | i64::from(crc(row.wrapping_add(seed)));
        Arc::new(Int64Array::from_iter_values((0..rows).map(value))) as ArrayRef
    };
    let word = Arc::new(StringArray::from_iter_values((0..rows).map(|_| "w"))) as ArrayRef;
    let columns = [
        ("ts", random(1)),
        ("node", word.clone()),
        ("thread", random(2)),
        ("crumb", random(3)),
        ("call", word),
        ("errno", random(4)),
        ("calls", random(5)),
    ];
    fs::write(&input, stream(&RecordBatch::try_from_iter(columns).expect("columns"))).expect("a stream");
    let small = folder.path().join("small");
    fs::create_dir(&small).expect("a directory");
    // A file system of its own, seen by this command only.
    let script = "mount -t tmpfs -o size=1m none \"$1\" && shift && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh", path(&small)])
        .args([env!("CARGO_BIN_EXE_iotrail-native"), "ingest", "-o", path(&small.join("a.trail"))])
        .arg(format!("file_op={}", path(&input)))
        .output()
        .expect("unshare runs");
    refused(&output, &["cannot write", "No space left on device", "free some space"]);
}

#[test]
fn rows_take_the_place_of_files_in_one_step() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = sample_trail(folder.path(), "a.trail");
    let list = folder.path().join("list");
    let stream = format!("file_op={}", path(&folder.path().join("file_op.arrows")));
    let gone = data_file(&trail, "file_op");
    let name = gone.strip_prefix(&trail).expect("in the trail");
    fs::write(&list, format!("{}\n", path(name))).expect("a list");
    let words = ["trail", "replace", path(&trail), "--remove", path(&list), "--grace", "0s"];
    // What another writer adds meanwhile stays.
    let meanwhile = folder.path().join("none");
    fs::write(&meanwhile, "").expect("a list");
    works(&["trail", "replace", path(&trail), "--remove", path(&meanwhile), &stream]);
    let snapshot = works(&[&words[..], &[&stream]].concat());
    assert_eq!(snapshot, "4\n");
    assert!(!gone.exists());
    let rows = |trail: &Path| iotrail_trail::Snapshot::newest(trail).expect("a trail").rows("file_op");
    assert_eq!(rows(&trail), 2 * ROWS as u64);
    // The file is gone by now: refused, and nothing is left behind.
    fails(&[&words[..], &[&stream]].concat(), &["another process changed the trail", "run it again"]);
    assert_eq!(rows(&trail), 2 * ROWS as u64);
    assert!(check(&trail, false).expect("a check").orphans.is_empty());
    fails(&["trail", "replace", path(&trail), "--remove", "none"], &["cannot read none"]);
    fails(&["trail", "prune", path(&trail), "--help"], &["iotrail's Python package"]);
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let folder = tempfile::tempdir().expect("a directory");
    let trail = sample_trail(folder.path(), "a.trail");
    let closed = File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = Command::new(env!("CARGO_BIN_EXE_iotrail-native"))
        .args(["trail", "info", path(&trail)])
        .stdout(closed)
        .output()
        .expect("the binary runs");
    refused(&output, &["cannot write to stdout"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let child = Command::new(env!("CARGO_BIN_EXE_iotrail-native")).arg("schema").stdout(writer).output();
    let output = child.expect("the binary runs");
    // As other programs do; a shell calls that status 141.
    assert_eq!((output.status.signal(), text(&output.stderr).as_str()), (Some(libc::SIGPIPE), ""));
}
