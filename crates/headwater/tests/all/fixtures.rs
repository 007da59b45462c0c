//! Tables of released versions stay readable: opened, read, replayed and flushed by this version.

use std::fs;
use std::path::Path;

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
