//! `headwater scan`, `get`, `count` and `delete`: base, SSTables and WAL together, whoever wrote them.

use std::io::{BufRead, BufReader, Cursor, Write};
use std::process::Stdio;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int8Array, StringArray};
use arrow_ipc::reader::StreamReader;
use serde_json::{Value, json};

use crate::support::{Ended, Home, command, ndjson, run, run_with};

/// 60 rows: 0 to 49 in an SSTable; 40 to 59, as "new 40" and so on, in the WAL only.
fn two_tiers() -> Home {
    let home = Home::with_table(&[]);
    let old = home.parquet("old.parquet", 0..50);
    run(&["ingest", &home.table(), &old]).ok();
    let new: String = (40..60).map(|id| format!("{{\"id\": {id}, \"name\": \"new {id}\"}}\n")).collect();
    let new = home.write("new.ndjson", &new);
    run(&["ingest", &home.table(), &new, "--no-flush"]).ok();
    home
}

/// With a table of the columns and rows of NDJSON text.
fn with_rows(text: &str, arguments: &[&str]) -> Home {
    let home = Home::new();
    let file = home.write("rows.ndjson", text);
    run(&[&["init", &home.table(), "--schema", &file], arguments].concat()).ok();
    run(&["ingest", &home.table(), &file]).ok();
    home
}

/// With an empty table whose key `id` is of the type of `ids`.
fn with_key(ids: ArrayRef) -> (Home, String) {
    let home = Home::new();
    let names: StringArray = (0..ids.len()).map(|row| Some(format!("row {row}"))).collect();
    let file = home.parquet_of("rows.parquet", ids, Arc::new(names));
    run(&["init", &home.table(), "--schema", &file, "--key", "id"]).ok();
    (home, file)
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A column of `--format json`, in the order it came.
#[track_caller]
fn column(ended: Ended, name: &str) -> Vec<Value> {
    json_lines(&ended.ok().stdout).iter().map(|row| row[name].clone()).collect()
}

/// The ids a scan prints, sorted.
#[track_caller]
fn ids(arguments: &[&str]) -> Vec<i64> {
    let found = column(run(&[&["scan"][..], arguments, &["--format", "json"]].concat()), "id");
    let mut ids: Vec<i64> = found.iter().map(|id| id.as_i64().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[track_caller]
fn count(home: &Home) -> u64 {
    run(&["count", &home.table()]).ok().stdout.trim().parse().unwrap()
}

#[test]
fn a_scan_prints_each_key_once_with_its_newest_row_wherever_it_is() {
    let home = two_tiers();
    let rows = json_lines(&run(&["scan", &home.table(), "--format", "json"]).ok().stdout);
    assert_eq!(rows.len(), 60);
    for id in 0..60 {
        let name = if id < 40 { format!("name of {id}") } else { format!("new {id}") };
        assert!(rows.contains(&json!({"id": id, "name": name})), "{id} in {rows:?}");
    }
}

#[test]
fn a_scan_for_people_is_a_table_with_the_number_of_rows_on_stderr() {
    let home = two_tiers();
    let ended = run(&["scan", &home.table()]).ok();
    for cells in [["id", "name"], ["3", "name of 3"], ["45", "new 45"]] {
        let has = |line: &str| {
            let found: Vec<&str> = line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
            found == cells
        };
        assert_eq!(ended.stdout.lines().filter(|line| has(line)).count(), 1, "{cells:?} in {ended:?}");
    }
    assert_eq!(ended.stderr.trim(), "60 rows");
    let ended = run(&["scan", &home.table(), "--filter", "id > 1000"]).ok();
    assert!(ended.stdout.contains("name") && ended.stderr.contains("0 rows"), "{ended:?}");
}

#[test]
fn a_scan_as_csv_has_one_header_whatever_the_number_of_rows() {
    let home = Home::with_table(&[]);
    assert_eq!(run(&["scan", &home.table(), "--format", "csv"]).ok().stdout, "id,name\n");
    let odd = home.write("odd.ndjson", "{\"id\": -1, \"name\": \"a, \\\"b\\\"\"}\n{\"id\": -2}\n");
    run(&["ingest", &home.table(), &home.parquet("rows.parquet", 0..2500), &odd]).ok();
    let text = run(&["scan", &home.table(), "--format", "csv"]).ok().stdout;
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines.remove(0)), (2503, "id,name"));
    assert_eq!(lines.iter().filter(|line| line.contains("id,name")).count(), 0);
    for line in ["7,name of 7", "2499,name of 2499", "-1,\"a, \"\"b\"\"\"", "-2,"] {
        assert!(lines.contains(&line), "{line}");
    }
}

#[test]
fn a_scan_as_arrow_is_an_ipc_stream_with_the_columns_of_the_table() {
    let home = two_tiers();
    for (filter, rows) in [("id >= 0", 60), ("id < 0", 0)] {
        let output = command(&["scan", &home.table(), "--format", "arrow", "--filter", filter]).output();
        let stream = StreamReader::try_new(Cursor::new(output.unwrap().stdout), None).unwrap();
        let schema = stream.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["id", "name"]);
        assert_eq!(stream.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), rows, "{filter}");
    }
}

#[test]
fn columns_filter_limit_and_offset_are_what_is_printed() {
    let home = two_tiers();
    let table = home.table();
    let names = run(&["scan", &table, "--columns", "name", "--filter", "id = 45", "--format", "json"]).ok();
    assert_eq!(json_lines(&names.stdout), [json!({"name": "new 45"})]);
    let swapped =
        run(&["scan", &table, "--columns", "name,id", "--filter", "id = 3", "--format", "csv"]).ok();
    assert_eq!(swapped.stdout, "name,id\nname of 3,3\n");
    assert_eq!(ids(&[&table, "--filter", "name = 'name of 45'"]), [0; 0], "its older row is not there");
    assert_eq!(ids(&[&table, "--limit", "7"]).len(), 7);
    assert_eq!(ids(&[&table, "--offset", "50"]).len(), 10);
    assert_eq!(ids(&[&table, "--offset", "58", "--limit", "7"]).len(), 2);
    assert_eq!(ids(&[&table, "--limit", "0"]).len(), 0);
}

#[test]
fn explain_prints_the_sources_and_no_rows() {
    let home = two_tiers();
    let ended = run(&["scan", &home.table(), "--explain", "--filter", "id > 3"]).ok();
    for part in ["SourceExec: sstable", "hidden=10", "SourceExec: memtable", "rows=20"] {
        assert!(ended.stdout.contains(part), "{part} in {ended:?}");
    }
    assert!(!ended.stdout.contains("name of"), "{ended:?}");
}

#[test]
fn a_reader_that_goes_away_ends_a_scan_quietly() {
    let home = Home::with_table(&[]);
    run(&["ingest", &home.table(), &home.parquet("rows.parquet", 0..20_000)]).ok();
    for format in ["csv", "json", "table"] {
        let mut scan = command(&["scan", &home.table(), "--format", format]);
        let mut child = scan.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty());
        let ended = Ended::of(child.wait_with_output().unwrap()).ok();
        assert_eq!(ended.stderr, "", "{format}");
    }
}

#[test]
fn rows_are_got_by_key_in_the_order_of_the_keys() {
    let home = two_tiers();
    let ended = run(&["get", &home.table(), "45", "1000", "3", "--format", "json"]).ok();
    let rows = json_lines(&ended.stdout);
    assert_eq!(rows, [json!({"id": 45, "name": "new 45"}), json!({"id": 3, "name": "name of 3"})]);
    assert_eq!(ended.stderr.trim(), "2 rows found for 3 keys");
    let ended = run(&["get", &home.table(), "59", "--columns", "name", "--format", "csv"]).ok();
    assert_eq!(ended.stdout, "name\nnew 59\n");
    let ended = run(&["get", &home.table(), "-7", "--format", "csv"]).ok();
    assert_eq!((ended.stdout.as_str(), ended.stderr.trim()), ("id,name\n", "0 rows found for 1 key"));
}

#[test]
fn keys_of_several_columns_are_written_with_commas_or_as_json() {
    let rows = "{\"a\": 1, \"b\": \"x\", \"c\": 1}\n{\"a\": 2, \"b\": \"x\", \"c\": 2}\n\
                {\"a\": -2, \"b\": \"p,q\", \"c\": 3}\n{\"a\": 0, \"b\": \"\", \"c\": 4}\n";
    let home = with_rows(rows, &["--key", "b,a"]);
    let get = |keys: &[&str]| {
        run(&[&["get", &home.table()][..], keys, &["--format", "json", "--columns", "c"]].concat())
    };
    assert_eq!(column(get(&["x,2", "x,1", "x,3", ",0"]), "c"), [2, 1, 4]);
    assert_eq!(column(get(&["[\"p,q\", -2]", "[\"x\",2]"]), "c"), [3, 2]);
    get(&["x"]).failed(2, &["1 values", "2 columns", "b, a", "JSON array"]);
    get(&["p,q,-2"]).failed(2, &["3 values", "b, a"]);
    get(&["[\"x\"]"]).failed(2, &["1 values", "b, a"]);
    get(&["[\"x\", 1"]).failed(2, &["JSON array"]);
    get(&["[5, 1]"]).failed(2, &["column b", "Utf8", "5"]);
    get(&["[\"x\", 1.5]"]).failed(2, &["column a", "Int64", "1.5"]);
    get(&["x,y"]).failed(2, &["column a", "Int64", "\"y\""]);
}

#[test]
fn keys_come_from_a_file_or_standard_input() {
    let home = two_tiers();
    let file = home.write("keys.ndjson", "{\"id\": 45}\n\n{\"id\": 7}\n{\"id\": 1000}\n");
    let ended = run(&["get", &home.table(), "--keys-from", &file, "--format", "json"]);
    assert_eq!(ended.stderr.trim(), "2 rows found for 3 keys");
    assert_eq!(column(ended, "id"), [45, 7]);

    let all: String = (0..2500).rev().map(|id| format!("{{\"id\": {id}}}\n")).collect();
    let ended = run_with(&["get", &home.table(), "--keys-from", "-", "--format", "json"], all.as_bytes());
    assert_eq!(column(ended, "id"), (0..60).rev().collect::<Vec<i64>>());

    let ended = run_with(&["get", &home.table(), "--keys-from", "-", "--format", "csv"], b"").ok();
    assert_eq!((ended.stdout.as_str(), ended.stderr.trim()), ("id,name\n", "0 rows found for 0 keys"));
}

#[test]
fn keys_are_of_the_type_of_their_column_or_refused_naming_it() {
    let home = Home::with_table(&[]);
    let get = |key: &str| run(&["get", &home.table(), key]);
    for key in ["seven", "1.5", "", "9223372036854775808", "1,2"] {
        get(key).failed(2, &["column id", "Int64", &format!("{key:?}")]);
    }
    let (home, file) = with_key(Arc::new(Int8Array::from(vec![-128, 127])));
    run(&["ingest", &home.table(), &file]).ok();
    assert_eq!(ids(&[&home.table()]), [-128, 127]);
    run(&["get", &home.table(), "128"]).failed(2, &["column id", "Int8", "\"128\""]);
    let ended = run(&["get", &home.table(), "127", "-128", "--format", "json"]);
    assert_eq!(column(ended, "id"), [127, -128]);
}

#[test]
fn keys_of_bytes_are_written_as_hex() {
    let (home, file) = with_key(Arc::new(BinaryArray::from_iter_values([[0_u8, 255], [31, 139]])));
    run(&["ingest", &home.table(), &file]).ok();
    for key in ["0x1f8b", "1F8B"] {
        assert_eq!(column(run(&["get", &home.table(), key, "--format", "json"]), "name"), ["row 1"]);
    }
    run(&["get", &home.table(), "0x1f8"]).failed(2, &["column id", "Binary", "hex"]);
    run(&["get", &home.table(), "xyz"]).failed(2, &["column id", "Binary", "hex"]);

    // What a scan prints can be handed back.
    let keys = run(&["scan", &home.table(), "--columns", "id", "--format", "json"]).ok().stdout;
    let ended = run_with(&["get", &home.table(), "--keys-from", "-", "--format", "json"], keys.as_bytes());
    assert_eq!(column(ended, "name").len(), 2);
}

#[test]
fn a_count_is_of_live_rows_and_of_those_a_condition_keeps() {
    let home = two_tiers();
    assert_eq!(run(&["count", &home.table()]).ok().stdout, "60\n");
    assert_eq!(run(&["count", &home.table(), "--filter", "name LIKE 'new %'"]).ok().stdout, "20\n");
    let ended = run(&["count", &home.table(), "--filter", "id > 1000", "--format", "json"]).ok();
    assert_eq!(json_lines(&ended.stdout), [json!({"rows": 0})]);
}

#[test]
fn rows_are_deleted_by_key_wherever_they_are() {
    let home = two_tiers();
    let ended = run(&["delete", &home.table(), "3", "45", "1000"]).ok();
    assert!(ended.stdout.contains("3 keys deleted"), "{ended:?}");
    assert!(ended.stdout.contains("not synced"), "--no-fsync is said: {ended:?}");
    let expected: Vec<i64> = (0..60).filter(|id| ![3, 45].contains(id)).collect();
    assert_eq!(ids(&[&home.table()]), expected);
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), expected, "pylance agrees");

    let keys: String = (10..20).map(|id| format!("{{\"id\": {id}}}\n")).collect();
    let file = home.write("keys.ndjson", &keys);
    let ended = run(&["delete", &home.table(), "--keys-from", &file, "--format", "json"]).ok();
    assert_eq!(json_lines(&ended.stdout)[0]["keys_deleted"], 10);
    assert_eq!(count(&home), 48);
    let shard = home.inspect()["shards"][0].clone();
    assert_eq!(shard["wal"]["unflushed_rows"], 0, "what is in memory was flushed");
}

#[test]
fn rows_a_condition_finds_are_deleted_in_as_many_writes_as_it_takes() {
    let home = Home::with_table(&["--bucket", "id:2"]);
    run(&["ingest", &home.table(), &home.parquet("rows.parquet", 0..25_000)]).ok();
    let ended = run(&["delete", &home.table(), "--where", "id >= 100", "--format", "json"]).ok();
    let summary = json_lines(&ended.stdout)[0].clone();
    assert_eq!((&summary["keys_deleted"], &summary["fsync"]), (&24_900.into(), &false.into()));
    assert_eq!(ids(&[&home.table()]), (0..100).collect::<Vec<_>>());
    let ended = run(&["delete", &home.table(), "--where", "id >= 100"]).ok();
    assert!(ended.stdout.contains("0 keys deleted"), "{ended:?}");
}

#[test]
fn a_bad_line_among_keys_to_delete_tells_how_many_were_deleted_before() {
    let home = two_tiers();
    let keys = home.write("keys.ndjson", "{\"id\": 1}\n{\"id\": 2}\n{\"id\": \"three\"}\n{\"id\": 4}\n");
    run(&["delete", &home.table(), "--keys-from", &keys])
        .failed(1, &["keys.ndjson", "line 3", "2 keys deleted before that"]);
    assert_eq!(count(&home), 58);
    let named = home.write("named.ndjson", "{\"id\": 1, \"name\": \"a\"}\n");
    run(&["get", &home.table(), "--keys-from", &named])
        .failed(
            1,
            &["named.ndjson", "line 1", "column name", "no column of the key", "has id and nothing else"],
        )
        .without(&["the table has no such column"]);
    let none = home.write("none.ndjson", "{}\n");
    run(&["get", &home.table(), "--keys-from", &none]).failed(1, &["none.ndjson", "line 1", "column id"]);
    let bare = home.write("bare.txt", "1\n2\n");
    run(&["get", &home.table(), "--keys-from", &bare])
        .failed(1, &["bare.txt", "line 1", "a line of keys is a JSON object of id"]);
}

#[test]
fn a_table_without_a_key_is_scanned_and_counted_only() {
    let home = with_rows(&format!("{}{}", ndjson(0..3), ndjson(0..3)), &[]);
    assert_eq!(count(&home), 6);
    assert_eq!(ids(&[&home.table()]), [0, 0, 1, 1, 2, 2]);
    let epoch = home.inspect()["shards"][0]["manifest"]["writer_epoch"].clone();
    run(&["get", &home.table(), "1"]).failed(1, &["append-only", "scan --filter"]);
    run(&["delete", &home.table(), "1"]).failed(1, &["append-only"]);
    run(&["delete", &home.table(), "--where", "id = 1"]).failed(1, &["append-only"]);
    assert_eq!(home.inspect()["shards"][0]["manifest"]["writer_epoch"], epoch, "nothing was claimed");
}

#[test]
fn bad_columns_and_conditions_are_refused_by_name() {
    let home = two_tiers();
    let table = home.table();
    run(&["scan", &table, "--columns", "id,colour"]).failed(1, &["colour", "id, name"]);
    run(&["get", &table, "1", "--columns", "colour"]).failed(1, &["colour", "id, name"]);
    for command in ["scan", "count"] {
        run(&[command, &table, "--filter", "colour = 1"]).failed(1, &["colour"]);
        run(&[command, &table, "--filter", "id ="]).failed(1, &["\"id =\""]);
        run(&[command, &table, "--filter", "id + 1"]).failed(1, &["id + 1"]);
        run(&[command, &table, "--filter", ""]).failed(1, &["empty"]);
    }
    run(&["delete", &table, "--where", "colour = 1"]).failed(1, &["colour"]);
    assert_eq!(count(&home), 60);
}

#[test]
fn a_column_csv_has_no_place_for_is_named() {
    let home = with_rows("{\"id\": 1, \"tags\": [\"a\", \"b\"]}\n", &["--key", "id"]);
    run(&["scan", &home.table(), "--format", "csv"]).failed(2, &["column tags", "--columns", "json"]);
    assert_eq!(run(&["scan", &home.table(), "--format", "csv", "--columns", "id"]).ok().stdout, "id\n1\n");
    let row = run(&["get", &home.table(), "1", "--format", "json"]).ok().stdout;
    assert_eq!(json_lines(&row), [json!({"id": 1, "tags": ["a", "b"]})]);
}

#[test]
fn which_keys_is_said_exactly_once() {
    let home = Home::new();
    let table = home.table();
    run(&["get", &table]).failed(2, &["KEY"]);
    run(&["get", &table, "1", "--keys-from", "-"]).failed(2, &["--keys-from"]);
    run(&["delete", &table]).failed(2, &["KEY"]);
    run(&["delete", &table, "1", "--where", "id = 1"]).failed(2, &["--where"]);
    run(&["delete", &table, "--keys-from", "-", "--where", "id = 1"]).failed(2, &["--where"]);
    let commands: [&[&str]; 4] =
        [&["scan", &table], &["get", &table, "1"], &["count", &table], &["delete", &table, "1"]];
    for arguments in commands {
        run(arguments).failed(1, &[&table]);
    }
}

#[test]
fn help_says_that_reading_claims_nothing_and_that_deleting_does() {
    let help = |command: &str| {
        let text = run(&[command, "--help"]).ok().stdout;
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for command in ["scan", "get", "count"] {
        assert!(help(command).contains("Claims no shard"), "{command}");
    }
    let help = help("delete");
    assert!(help.contains("fenced") && help.contains("goes too"), "{help}");
}

#[test]
fn human_is_still_taken_for_table() {
    let home = two_tiers();
    let inspect = |format: &str| run(&["inspect", &home.table(), "--format", format]).ok().stdout;
    assert_eq!(inspect("human"), inspect("table"));
    assert_eq!(run(&["count", &home.table(), "--format", "human"]).ok().stdout, "60\n");
    assert!(!run(&["inspect", "--help"]).ok().stdout.contains("human"));
}

#[test]
fn a_table_is_found_whatever_is_in_its_name() {
    let home = Home::new();
    let columns = home.parquet("rows.parquet", 0..5);
    for name in ["a b", "größe 水", "100%", "a%20b", "really?", "a#b", "it's; {odd} [one] *"] {
        let table = home.name(name);
        run(&["init", &table, "--schema", &columns, "--key", "id"]).ok();
        run(&["ingest", &table, &columns]).ok();
        run(&["delete", &table, "4"]).ok();
        run_with(&["ingest", &table, "-", "--no-flush"], ndjson(5..7).as_bytes()).ok();
        assert_eq!(ids(&[&table]), [0, 1, 2, 3, 5, 6], "{name}");
        assert_eq!(ids(&[&format!("{table}/")]), [0, 1, 2, 3, 5, 6], "{name}/");
        assert!(home.path(name).join("_mem_wal").is_dir(), "{name} is where it was asked to be");
    }
}

#[cfg(unix)]
#[test]
fn a_table_is_found_by_a_relative_path_and_through_a_link() {
    let home = two_tiers();
    std::os::unix::fs::symlink(home.path("table"), home.path("link")).unwrap();
    std::fs::create_dir(home.path("beside")).unwrap();
    let places = [
        ("", "table"),
        ("", "./table"),
        ("", "table//"),
        ("", "link"),
        ("beside", "../table"),
        ("table", "."),
    ];
    for (directory, table) in places {
        let output = command(&["count", table]).current_dir(home.path(directory)).output().unwrap();
        assert_eq!(Ended::of(output).ok().stdout, "60\n", "{table} in {directory:?}");
    }
    run(&["delete", &home.name("link"), "3"]).ok();
    assert_eq!(count(&home), 59, "it was the same table");
}

#[test]
fn reads_beside_a_live_writer_see_its_rows_and_do_not_disturb_it() {
    let home = Home::with_table(&[]);
    let table = home.table();
    let mut ingest = command(&["ingest", &table, "-", "--format", "json", "--batch-rows", "10"]);
    let ingest = ingest.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut writer = ingest.spawn().unwrap();
    let mut input = writer.stdin.take().unwrap();
    let mut events = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut wait_for = |rows: u64| {
        let acknowledged = |line: String| {
            let event: Value = serde_json::from_str(&line).unwrap();
            event["rows_acknowledged"].as_u64().unwrap()
        };
        assert!(events.any(|line| acknowledged(line.unwrap()) >= rows), "the ingest ended early");
    };
    let manifest = || home.inspect()["shards"][0]["manifest"].clone();

    input.write_all(ndjson(0..50).as_bytes()).unwrap();
    wait_for(50);
    let before = manifest();
    assert_eq!(ids(&[&table]), (0..50).collect::<Vec<_>>());
    assert_eq!(column(run(&["get", &table, "49", "50", "--format", "json"]), "id"), [49]);
    assert_eq!(count(&home), 50);

    input.write_all(ndjson(50..100).as_bytes()).unwrap();
    wait_for(100);
    assert_eq!(count(&home), 100);
    assert_eq!(manifest(), before, "nothing was claimed");
    drop(input);
    Ended::of(writer.wait_with_output().unwrap()).ok();
    assert_eq!(manifest()["writer_epoch"], before["writer_epoch"]);
    assert_eq!(count(&home), 100);
}

#[cfg(unix)]
#[test]
fn a_delete_ended_by_ctrl_c_says_how_far_it_came() {
    let home = two_tiers();
    let mut delete = command(&["delete", &home.table(), "--keys-from", "-"]);
    let mut child =
        delete.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As many keys as are read at once; then it waits for more, until it is told to stop.
    let mut input = child.stdin.take().unwrap();
    let keys: String = (0..10_000).map(|id| format!("{{\"id\": {id}}}\n")).collect();
    input.write_all(keys.as_bytes()).unwrap();
    input.flush().unwrap();
    while count(&home) > 0 {}
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let ended = Ended::of(child.wait_with_output().unwrap());
    let ended = ended.failed(130, &["stopped by SIGINT", "10,000 keys deleted"]);
    assert_eq!(ended.stdout, "");
    drop(input);
    assert_eq!(count(&home), 0);
}
