//! pylance's LsmScanner reads our base and SSTables as we do.

use headwater::{Sharding, Table};

use super::peer::Peer;
use super::tables::{Kind, first_steps, names, second_steps};
use crate::support::{Home, named, options, read, rows};

#[tokio::test(flavor = "multi_thread")]
async fn pylance_reads_our_sstables_and_the_base_as_we_do() {
    let mut peer = Peer::start();
    let (first, second) = (first_steps(), second_steps());
    for kind in Kind::some() {
        let home = Home::new();
        let table = kind.create(&home.uri(), &[]).await;
        kind.play(&table, &first).await;
        table.flush().await.unwrap();
        let model = kind.after(&first);
        assert_eq!(kind.model(&peer.read(&home).await), model, "{kind:?}, one generation");
        kind.play(&table, &second).await;
        table.close().await.unwrap();
        assert_eq!(home.shard().await.sstables.len(), 2);

        let model = kind.after(first.iter().chain(&second));
        assert_eq!(kind.model(&peer.read(&home).await), model, "{kind:?}");
        let reader = Table::open(&home.uri(), options()).await.unwrap();
        kind.check(&reader, &model, "our own reader").await;
    }
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
    assert_eq!(names(&Peer::start().read(&home).await), ours);
}
