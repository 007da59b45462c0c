//! Our writer crashes; pylance takes the shard over, and we take it back.

use headwater::Table;
use serde_json::json;

use super::peer::Peer;
use super::tables::{Kind, first_steps, second_steps, third_steps};
use crate::support::{Home, options};

/// Where LanceDB keeps the embedding functions of a table.
const EMBEDDINGS: &str = "embedding_functions";

#[tokio::test(flavor = "multi_thread")]
async fn pylance_replays_what_our_crashed_writer_left_and_we_read_what_it_adds() {
    let mut peer = Peer::start();
    let (first, second, third) = (first_steps(), second_steps(), third_steps());
    for kind in Kind::some() {
        let home = Home::new();
        let table = kind.create(&home.uri(), &[]).await;
        kind.play(&table, &first).await;
        table.flush().await.unwrap();
        kind.play(&table, &second).await;
        table.abandon();
        let before = home.shard().await;
        assert!(before.sstables.len() == 1 && before.wal.unflushed_rows > 0, "{before:?}");

        peer.open(&home.uri(), &before.id);
        let model = kind.after(first.iter().chain(&second));
        assert_eq!(peer.scan(&home.uri(), &kind), model, "{kind:?}, replayed by pylance");
        peer.play(&home.uri(), &kind, &third);
        let model = kind.after(first.iter().chain(&second).chain(&third));
        assert_eq!(peer.scan(&home.uri(), &kind), model, "{kind:?}, written on by pylance");
        let reader = Table::open(&home.uri(), options()).await.unwrap();
        kind.check(&reader, &model, "beside its live writer").await;

        peer.close(&home.uri());
        let after = home.shard().await;
        assert_eq!((after.sstables.len(), after.wal.unflushed_rows), (2, 0), "{after:?}");
        let table = Table::open(&home.uri(), options()).await.unwrap();
        table.open_shards().await.unwrap();
        kind.check(&table, &model, "taken back").await;
    }
}

/// The reference compares schema metadata of entry and base where all fields agree, so an entry that said
/// nothing about its fields could not be replayed once the base's metadata had changed.
#[tokio::test(flavor = "multi_thread")]
async fn pylance_replays_our_entries_whatever_the_base_has_for_schema_metadata() {
    let mut peer = Peer::start();
    let kind = Kind::some().remove(0);
    let steps = first_steps();
    let model = kind.after(&steps);
    let some = [(EMBEDDINGS, "[{\"name\": \"openai\"}]"), ("owner", "search")];
    let other = json!({EMBEDDINGS: "[]", "added": "later"});
    let cases = [
        ("as it was", some.as_slice(), None),
        ("changed", some.as_slice(), Some(other.clone())),
        ("removed", some.as_slice(), Some(json!({}))),
        ("new", [].as_slice(), Some(other)),
    ];
    for (name, metadata, later) in cases {
        let home = Home::new();
        let table = kind.create(&home.uri(), metadata).await;
        kind.play(&table, &steps).await;
        table.abandon();
        if let Some(later) = later {
            peer.tell("set_metadata", json!({"table": home.uri(), "metadata": later}));
        }
        let shard = home.shard().await.id;
        peer.open(&home.uri(), &shard);
        assert_eq!(peer.scan(&home.uri(), &kind), model, "metadata {name}");
        peer.close(&home.uri());
        assert_eq!(kind.model(&peer.read(&home).await), model, "metadata {name}, flushed by pylance");
        let reader = Table::open(&home.uri(), options()).await.unwrap();
        kind.check(&reader, &model, name).await;
    }
}
