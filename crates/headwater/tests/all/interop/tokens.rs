//! Client tokens in our entries and the floor in our manifests, which pylance knows nothing of: it replays,
//! reads and takes over as if they were not there, and we find the tokens again that it left.

use headwater::{ClientToken, Table, UpdateRequest, WriteOptions};
use headwater_format::wal_entry::{self, WalEntry};

use super::peer::Peer;
use super::tables::{Kind, Row, Step, first_steps, second_steps, third_steps};
use crate::support::{Home, options};

fn token(name: &str) -> WriteOptions {
    let token = ClientToken::new(name.as_bytes()).unwrap();
    WriteOptions { token: Some(token), unchanged_since: None }
}

/// Each step under a token of its own.
async fn play(table: &Table, kind: &Kind, steps: &[Step], name: &str) {
    for (place, step) in steps.iter().enumerate() {
        let token = token(&format!("{name} {place}"));
        let ack = match step {
            Step::Put(rows) => table.put_with(kind.rows(rows), &token).await,
            Step::Delete(codes) => table.delete_with(kind.keys(codes), &token).await,
        };
        ack.unwrap();
    }
}

async fn entries(home: &Home) -> Vec<WalEntry> {
    let entries = home.objects("wal").await.into_iter();
    entries.map(|bytes| wal_entry::decode(bytes.into()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pylance_replays_and_flushes_entries_with_tokens_below_a_manifest_with_a_floor() {
    let mut peer = Peer::start();
    let (first, second, third) = (first_steps(), second_steps(), third_steps());
    for kind in Kind::some() {
        let home = Home::new();
        let table = kind.create(&home.uri(), &[]).await;
        play(&table, &kind, &first, "first").await;
        table.flush().await.unwrap();
        play(&table, &kind, &second, "second").await;
        table.abandon();
        let told: usize = entries(&home).await.iter().map(|entry| entry.tokens.len()).sum();
        assert_eq!(told, first.len() + second.len(), "every entry tells of its token");
        let floor = home.newest_manifest().await.token_floor.unwrap();
        assert_eq!(floor.entries.len(), first.len(), "{floor:?}");

        peer.open(&home.uri(), &home.shard().await.id);
        let model = kind.after(first.iter().chain(&second));
        assert_eq!(peer.scan(&home.uri(), &kind), model, "{kind:?}, replayed by pylance");
        peer.play(&home.uri(), &kind, &third);
        peer.close(&home.uri());
        let model = kind.after(first.iter().chain(&second).chain(&third));
        assert_eq!(kind.model(&peer.read(&home).await), model, "{kind:?}, flushed by pylance");
        let after = home.newest_manifest().await;
        assert_eq!((after.token_floor, after.sstables.len()), (None, 2), "it drops what it does not know");
        let table = Table::open(&home.uri(), options()).await.unwrap();
        table.open_shards().await.unwrap();
        kind.check(&table, &model, "taken back").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_ours_is_known_again_after_pylance_had_the_shard() {
    let mut peer = Peer::start();
    let kind = Kind::some().remove(0);
    let home = Home::new();
    let table = kind.create(&home.uri(), &[]).await;
    let put = async |table: &Table, rows: &[Row], name: &str| {
        table.put_with(kind.rows(rows), &token(name)).await.unwrap().shards[0].1.position
    };
    let raise = || UpdateRequest {
        updates: vec![("n".to_owned(), "n + 1".to_owned())],
        predicate: Some("n >= 100".to_owned()),
        token: token("raise").token,
    };
    let position = put(&table, &[(6, Some(100)), (7, Some(200))], "ours").await;
    assert_eq!(table.update(raise()).await.unwrap().rows_updated, 2);
    table.abandon();

    peer.open(&home.uri(), &home.shard().await.id);
    let theirs = [Step::Put(vec![(7, Some(300)), (8, Some(400))])];
    peer.play(&home.uri(), &kind, &theirs);
    let ours = [Step::Put(vec![(6, Some(101)), (7, Some(201))])];
    let mut model = kind.after(ours.iter().chain(&theirs));
    // The update keeps `name` as the put made it.
    let renamed = |rows: &mut super::tables::Model| {
        for row in rows.values_mut() {
            if row[1] == 101 {
                row[2] = "6:100".into();
            }
        }
    };
    renamed(&mut model);
    assert_eq!(peer.scan(&home.uri(), &kind), model, "beside pylance's own rows");
    peer.die();

    let table = Table::open(&home.uri(), options()).await.unwrap();
    assert_eq!(put(&table, &[(6, Some(100)), (7, Some(200))], "ours").await, position);
    // Sent again: its rows are not raised again, nor those pylance wrote since, which match by now.
    assert_eq!(table.update(raise()).await.unwrap().rows_updated, 2);
    kind.check(&table, &model, "nothing was written again").await;
    table.close().await.unwrap();
    let table = Table::open(&home.uri(), options()).await.unwrap();
    assert_eq!(put(&table, &[(6, Some(100)), (7, Some(200))], "ours").await, position, "flushed by us");
    kind.check(&table, &model, "flushed").await;
}
