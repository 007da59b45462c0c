//! P7 between two engines: whoever claims last writes, and the other acknowledges nothing more.

use headwater::{Error, ShardError, Table};
use serde_json::{Value, json};

use super::peer::{Peer, THEIR_SHARD};
use super::tables::{Kind, Row, Step, lists};
use crate::support::{Home, options};

fn kind() -> Kind {
    Kind::some().remove(0)
}

fn put(rows: &[Row]) -> Step {
    Step::Put(rows.to_vec())
}

fn is_fenced(error: &Error) -> bool {
    matches!(error.shard_error(), Some(ShardError::Fenced { .. }))
}

/// What pylance raises has no type of its own, so its text must do.
#[track_caller]
fn assert_peer_is_fenced(answer: Result<Value, String>) {
    let error = answer.unwrap_err();
    assert!(error.contains("fenced"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pylances_claim_fences_our_writer() {
    let (home, kind) = (Home::new(), kind());
    let (ours, theirs) = (put(&[(1, Some(10)), (6, Some(60))]), put(&[(6, Some(61)), (7, Some(70))]));
    let table = kind.create(&home.uri(), &[]).await;
    kind.play(&table, std::slice::from_ref(&ours)).await;
    let mut peer = Peer::start();
    peer.open(&home.uri(), &home.shard().await.id);
    peer.play(&home.uri(), &kind, std::slice::from_ref(&theirs));

    let error = table.put(kind.rows(&[(1, Some(666)), (11, Some(666))])).await.unwrap_err();
    assert!(is_fenced(&error), "{error:?}");
    let error = table.delete(kind.keys(&[2])).await.unwrap_err();
    assert!(is_fenced(&error), "{error:?}");
    assert!(table.close().await.is_err(), "close reports it");
    assert!(home.shard().await.sstables.is_empty(), "and publishes nothing");

    let model = kind.after([&ours, &theirs]);
    assert_eq!(peer.scan(&home.uri(), &kind), model);
    peer.close(&home.uri());
    let reader = Table::open(&home.uri(), options()).await.unwrap();
    kind.check(&reader, &model, "nothing of the loser's").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_claim_fences_pylances_writer() {
    let (home, kind) = (Home::new(), kind());
    let (theirs, ours) = (put(&[(1, Some(10)), (6, Some(60))]), put(&[(6, Some(61)), (7, Some(70))]));
    let mut peer = Peer::start();
    peer.create(&home.uri(), &kind, &kind.base());
    peer.open(&home.uri(), THEIR_SHARD);
    peer.play(&home.uri(), &kind, std::slice::from_ref(&theirs));
    let table = Table::open(&home.uri(), options()).await.unwrap();
    kind.play(&table, std::slice::from_ref(&ours)).await;

    let stale = lists(&kind.rows(&[(1, Some(666)), (11, Some(666))]));
    assert_peer_is_fenced(peer.ask("put", json!({"table": home.uri(), "rows": stale})));
    let keys = json!({"table": home.uri(), "columns": kind.key_names(), "rows": lists(&kind.keys(&[2]))});
    assert_peer_is_fenced(peer.ask("delete", keys));
    assert_peer_is_fenced(peer.ask("close", json!({"table": home.uri()})));
    let shard = home.shard().await;
    assert!(shard.id == THEIR_SHARD && shard.sstables.is_empty(), "it publishes nothing: {shard:?}");

    let model = kind.after([&theirs, &ours]);
    kind.check(&table, &model, "nothing of the loser's").await;
    table.close().await.unwrap();
    assert_eq!(kind.model(&peer.read(&home).await), model);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_goes_back_and_forth_keeps_every_acknowledged_row() {
    let (home, kind) = (Home::new(), kind());
    let mut peer = Peer::start();
    peer.create(&home.uri(), &kind, &kind.base());
    let mut steps = Vec::new();
    let mut stale: Vec<Table> = Vec::new();
    for round in 0..3 {
        let step = put(&[(2 * round, Some(100 + round)), (11, Some(200 + round))]);
        peer.open(&home.uri(), THEIR_SHARD);
        peer.play(&home.uri(), &kind, std::slice::from_ref(&step));
        steps.push(step);
        for table in stale.drain(..) {
            let error = table.put(kind.rows(&[(1, Some(666))])).await.unwrap_err();
            assert!(is_fenced(&error), "round {round}: {error:?}");
        }
        let step = put(&[(2 * round + 1, Some(300 + round)), (11, Some(400 + round))]);
        let table = Table::open(&home.uri(), options()).await.unwrap();
        kind.play(&table, std::slice::from_ref(&step)).await;
        steps.push(step);
        let late = lists(&kind.rows(&[(0, Some(666))]));
        assert_peer_is_fenced(peer.ask("put", json!({"table": home.uri(), "rows": late})));
        kind.check(&table, &kind.after(&steps), "ours to write").await;
        stale.push(table);
    }
    let epoch = home.shard().await.manifest.unwrap().writer_epoch;
    assert_eq!(epoch, 6, "each claim is an epoch");
}
