//! pylance's writer crashes or closes; we read, replay and adopt what it left.

use std::collections::BTreeSet;

use headwater::Table;
use serde_json::{Value, json};

use super::peer::{Peer, THEIR_SHARD};
use super::tables::{Kind, first_steps, names, second_steps, third_steps};
use crate::support::{Home, Rows, expected, options, read, rows};

/// A second shard of theirs.
const THEIR_OTHER_SHARD: &str = "c0b1a7de-51c4-4f0e-8a3d-0d9a4b7e2f60";

#[tokio::test(flavor = "multi_thread")]
async fn we_replay_what_pylances_crashed_writer_left() {
    let mut peer = Peer::start();
    let (first, second) = (first_steps(), second_steps());
    let mut tables = Vec::new();
    for kind in Kind::some() {
        let home = Home::new();
        peer.create(&home.uri(), &kind, &kind.base());
        peer.open(&home.uri(), THEIR_SHARD);
        peer.play(&home.uri(), &kind, &first);
        tables.push((kind, home));
    }
    peer.die();
    for (kind, home) in tables {
        let left = home.shard().await;
        assert!(left.sstables.is_empty() && left.wal.unflushed_rows > 0, "the WAL alone: {left:?}");
        let model = kind.after(&first);
        let table = Table::open(&home.uri(), options()).await.unwrap();
        kind.check(&table, &model, "read from its WAL").await;
        table.open_shards().await.unwrap();
        kind.check(&table, &model, "replayed").await;
        kind.play(&table, &second).await;
        table.close().await.unwrap();

        let reader = Table::open(&home.uri(), options()).await.unwrap();
        kind.check(&reader, &kind.after(first.iter().chain(&second)), "flushed by us").await;
        assert_eq!(home.shard().await.id, THEIR_SHARD, "{kind:?}: the shard is adopted, not doubled");
    }
}

/// Its writer hashes values of four types only, so for the nine others its bloom filter denies keys that are
/// there.
#[tokio::test(flavor = "multi_thread")]
async fn we_read_the_sstables_pylance_wrote_for_every_type_of_key() {
    let mut peer = Peer::start();
    let steps = [first_steps(), second_steps(), third_steps()];
    for kind in Kind::all() {
        let home = Home::new();
        peer.create(&home.uri(), &kind, &kind.base());
        for generation in &steps[..2] {
            peer.open(&home.uri(), THEIR_SHARD);
            peer.play(&home.uri(), &kind, generation);
            peer.close(&home.uri());
        }
        let found = home.shard().await;
        assert_eq!((found.sstables.len(), found.problems.len()), (2, 0), "{kind:?}: {found:?}");

        let model = kind.after(steps[..2].iter().flatten());
        let table = Table::open(&home.uri(), options()).await.unwrap();
        kind.check(&table, &model, "SSTables of pylance").await;
        table.open_shards().await.unwrap();
        kind.play(&table, &steps[2]).await;
        kind.check(&table, &kind.after(steps.iter().flatten()), "and a memtable of ours above").await;
    }
}

/// Makes a table `(id: Int64 key, name: Utf8)` without rows, with pylance alone.
fn create(peer: &mut Peer, home: &Home, sharding: Value) {
    let fields = json!([["id", "int64", 1], ["name", "string", null]]);
    peer.tell("create", json!({"table": home.uri(), "fields": fields, "rows": [], "sharding": sharding}));
}

fn put(peer: &mut Peer, home: &Home, rows: Value) {
    peer.tell("put", json!({"table": home.uri(), "rows": rows}));
}

async fn shards(home: &Home) -> BTreeSet<String> {
    home.inspect().await.shards.into_iter().map(|shard| shard.id).collect()
}

/// Reads by ourselves and by pylance, after everything is closed.
async fn read_by_both(home: &Home, wanted: &Rows) {
    assert_eq!(home.reopen_and_read().await, *wanted, "ours");
    assert_eq!(names(&Peer::start().read(home).await), *wanted, "pylance's");
}

#[tokio::test(flavor = "multi_thread")]
async fn we_read_and_go_on_with_a_shard_pylance_wrote() {
    let home = Home::new();
    let mut peer = Peer::start();
    create(&mut peer, &home, json!({"unsharded": true}));
    let delete = |id: i64| json!({"table": home.uri(), "columns": ["id"], "rows": [[id]]});
    peer.open(&home.uri(), THEIR_SHARD);
    put(&mut peer, &home, json!([[1, "a"], [2, "b"], [3, "c"], [4, "d"], [5, "e"]]));
    peer.tell("delete", delete(2));
    peer.close(&home.uri());
    peer.open(&home.uri(), THEIR_SHARD);
    put(&mut peer, &home, json!([[3, "c2"], [6, "f"]]));
    peer.tell("delete", delete(4));
    peer.die();

    let found = home.shard().await;
    assert_eq!(
        (found.id.as_str(), found.sstables.len(), found.problems.len()),
        (THEIR_SHARD, 1, 0),
        "{found:?}"
    );
    assert!(found.values.is_empty() && found.wal.unflushed_rows > 0, "a live WAL, no values: {found:?}");
    let theirs = expected(&[(1, "a"), (3, "c2"), (5, "e"), (6, "f")]);
    let table = Table::open(&home.uri(), options()).await.unwrap();
    table.open_shards().await.unwrap();
    assert_eq!(read(&table).await, theirs);

    table.put(rows(&[(1, "a3"), (7, "g")])).await.unwrap();
    assert_eq!(shards(&home).await, BTreeSet::from([THEIR_SHARD.to_owned()]), "adopted, not doubled");
    table.close().await.unwrap();
    let both = expected(&[(1, "a3"), (3, "c2"), (5, "e"), (6, "f"), (7, "g")]);
    read_by_both(&home, &both).await;
}

/// Its manifests do not say which bucket a shard is of: the rows do. Of the buckets of 1, 2, 3, 4 and 5 the
/// table format gives 0, 0, 3, 2 and 3.
#[tokio::test(flavor = "multi_thread")]
async fn we_adopt_the_shards_of_a_bucketed_table_by_their_rows() {
    let home = Home::new();
    let mut peer = Peer::start();
    create(&mut peer, &home, json!({"bucket_column": "id", "num_buckets": 4}));
    peer.open(&home.uri(), THEIR_SHARD);
    put(&mut peer, &home, json!([[1, "a"], [2, "b"]]));
    peer.close(&home.uri());
    peer.open(&home.uri(), THEIR_OTHER_SHARD);
    put(&mut peer, &home, json!([[3, "c"], [5, "e"]]));
    peer.die();

    let table = home.open().await;
    table.put(rows(&[(1, "a2"), (5, "e2")])).await.unwrap();
    let theirs = BTreeSet::from([THEIR_SHARD.to_owned(), THEIR_OTHER_SHARD.to_owned()]);
    assert_eq!(shards(&home).await, theirs, "one from its SSTable and one from its WAL, none doubled");
    table.put(rows(&[(4, "d")])).await.unwrap();
    assert_eq!(shards(&home).await.difference(&theirs).count(), 1, "a bucket it had no rows of");
    table.close().await.unwrap();
    read_by_both(&home, &expected(&[(1, "a2"), (2, "b"), (3, "c"), (4, "d"), (5, "e2")])).await;
}
