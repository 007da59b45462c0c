//! Tables of released versions stay readable: opened, read, replayed and flushed by this version.

use std::fs;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{Array, RecordBatch};
use futures::TryStreamExt;
use headwater::{ScanRequest, Table};

use crate::support::{Home, expected, read, rows};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_version_0_1_is_read_replayed_and_written_on() {
    let home = Home::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.1/table.lance"), &home.path());
    let before = home.shard().await;
    assert_eq!((before.sstables.len(), before.wal.unflushed_rows, before.problems.len()), (2, 2, 0));

    let table = home.open().await;
    table.open_shards().await.unwrap();
    let held = expected(&[
        (-8, "only in the WAL"),
        (1, "replaced in its generation"),
        (2, "replaced by a later generation"),
        (3, "null"),
        (7, "replaced in the WAL"),
    ]);
    assert_eq!(read(&table).await, held);
    table.put(rows(&[(3, "three")])).await.unwrap();
    table.close().await.unwrap();

    let after = home.shard().await;
    assert_eq!((after.sstables.len(), after.wal.unflushed_rows), (3, 0));
    let mut held = held;
    held.extend(expected(&[(3, "three")]));
    assert_eq!(home.reopen_and_read().await, held);
}

/// Live rows of the table of version 0.2: key columns, note, level.
async fn held(table: &Table) -> Vec<(String, i32, Option<String>, Option<f64>)> {
    let batches: Vec<RecordBatch> =
        table.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
    let mut held = Vec::new();
    for batch in &batches {
        let (site, id) = (batch["site"].as_string::<i32>(), batch["id"].as_primitive::<Int32Type>());
        let (note, level) = (batch["note"].as_string::<i32>(), batch["level"].as_primitive::<Float64Type>());
        held.extend((0..batch.num_rows()).map(|row| {
            let note = note.is_valid(row).then(|| note.value(row).to_owned());
            let level = level.is_valid(row).then(|| level.value(row));
            (site.value(row).to_owned(), id.value(row), note, level)
        }));
    }
    held.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_version_0_2_is_read_over_all_tiers_before_and_after_it_is_taken_over() {
    let home = Home::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.2/table.lance"), &home.path());
    let row =
        |site: &str, id, note: Option<&str>, level| (site.to_owned(), id, note.map(ToOwned::to_owned), level);
    let expected = [
        row("bern", 9, Some("only in the WAL"), None),
        row("bern", 10, Some("only in the WAL"), None),
        row("kyiv", 3, None, Some(5.0)),
        row("oslo", 1, Some("base"), Some(1.0)),
        row("oslo", 4, Some("the newest of its generation"), Some(7.0)),
        row("rome", 1, Some("replaced in an SSTable"), Some(30.0)),
        row("rome", 2, Some("replaced in the WAL once more"), Some(41.0)),
    ];
    let table = home.open().await;
    assert_eq!(held(&table).await, expected);
    assert_eq!(table.count(Some("site = 'rome'")).await.unwrap(), 2);
    table.open_shards().await.unwrap();
    assert_eq!(held(&table).await, expected);
    table.close().await.unwrap();
    let table = home.open().await;
    assert_eq!(held(&table).await, expected);
    let report = home.inspect().await;
    assert!(report.shards.iter().all(|shard| shard.wal.unflushed_rows == 0 && shard.problems.is_empty()));
}
