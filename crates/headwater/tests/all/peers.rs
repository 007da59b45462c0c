//! Interoperability with pylance 14.0.2: it reads and takes over what we wrote, and we read what it wrote.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use headwater::{Sharding, Table};

use crate::support::{Home, Rows, expected, keys, named, options, read, rows};

/// The Python of `make venv`.
fn python() -> PathBuf {
    let python = std::env::var_os("HEADWATER_PYTHON").map_or_else(
        || {
            PathBuf::from(std::env::var_os("HOME").expect("HOME is set"))
                .join(".cache/headwater/venv/bin/python")
        },
        PathBuf::from,
    );
    assert!(python.exists(), "{} is missing: run `make venv`", python.display());
    python
}

/// Runs one of `scripts/peer/` to its end and reads the rows it prints.
fn peer(script: &str, arguments: &[&str], input: &str) -> Rows {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/peer").join(script);
    let mut command = Command::new(python());
    command.arg(path).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            (row["id"].as_i64().unwrap(), row["name"].as_str().unwrap().to_owned())
        })
        .collect()
}

async fn read_by_pylance(home: &Home) -> Rows {
    peer("read_sstables.py", &["id"], &serde_json::to_string(&home.inspect().await).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn pylance_reads_our_sstables_with_the_newest_values() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a"), (2, "b"), (3, "c"), (1, "a2")])).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(3, "c2"), (4, "d")])).await.unwrap();
    table.delete(keys(&[2])).await.unwrap();
    table.flush().await.unwrap();
    table.close().await.unwrap();
    let expected = expected(&[(1, "a2"), (3, "c2"), (4, "d")]);
    assert_eq!(read_by_pylance(&home).await, expected);
    assert_eq!(home.reopen_and_read().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn pylance_reads_all_shards_of_a_bucketed_table() {
    let home = Home::new();
    let table = home.create(&Sharding::Bucket { column: "id".to_owned(), num_buckets: 4 }).await;
    table.put(named(0..500)).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(7, "seven"), (8, "eight")])).await.unwrap();
    let ours = read(&table).await;
    table.close().await.unwrap();
    assert_eq!(ours.len(), 500);
    assert_eq!(read_by_pylance(&home).await, ours);
}

#[tokio::test(flavor = "multi_thread")]
async fn pylances_writer_takes_our_crashed_shard_over_and_sees_every_row() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a"), (2, "b"), (3, "c")])).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(2, "b2"), (4, "d")])).await.unwrap();
    table.delete(keys(&[1])).await.unwrap();
    table.put(rows(&[(5, "e"), (5, "e2")])).await.unwrap();
    let shard = home.shard().await.id;
    let expected = expected(&[(2, "b2"), (3, "c"), (4, "d"), (5, "e2")]);

    assert_eq!(peer("take_over.py", &[&home.uri(), &shard, "id"], ""), expected);
    let fenced = table.put(rows(&[(9, "stale")])).await.unwrap_err();
    let fence = fenced.shard_error();
    assert!(
        matches!(fence, Some(headwater::ShardError::Fenced { .. })),
        "its claim fences our writer: {fenced:?}"
    );
    drop(table);
    assert_eq!(home.reopen_and_read().await, expected, "and we take it back from pylance");
}

#[tokio::test(flavor = "multi_thread")]
async fn we_read_and_go_on_with_a_shard_pylance_wrote() {
    let home = Home::new();
    let shard = "6f1d1c9e-6f0b-4a57-9f53-2f6f6f3f7c11";
    peer("write_shard.py", &[&home.uri(), shard], "");
    let found = home.shard().await;
    assert_eq!((found.id.as_str(), found.sstables.len(), found.problems.len()), (shard, 1, 0), "{found:?}");
    assert!(found.wal.unflushed_rows > 0, "a live WAL: {:?}", found.wal);

    let theirs = expected(&[(1, "a"), (3, "c2"), (5, "e"), (6, "f")]);
    let table = Table::open(&home.uri(), options()).await.unwrap();
    table.open_shards().await.unwrap();
    assert_eq!(read(&table).await, theirs);

    table.put(rows(&[(1, "a3"), (7, "g")])).await.unwrap();
    assert_eq!(home.shard().await.id, shard, "the shard is adopted, not doubled");
    table.close().await.unwrap();
    let both = expected(&[(1, "a3"), (3, "c2"), (5, "e"), (6, "f"), (7, "g")]);
    assert_eq!(home.reopen_and_read().await, both);
    assert_eq!(read_by_pylance(&home).await, both);
}
