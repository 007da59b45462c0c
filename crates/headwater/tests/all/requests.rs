//! What reads ask of storage beside data, counted by the store itself (B1): nothing when the writer is warm,
//! one request a shard when a reader looks again, a few for each SSTable when it is cold.

use futures::TryStreamExt;
use headwater::{GetRequest, OpenOptions, ReadLevel, ReadOptions, Reader, ScanRequest, Sharding, Table};

use crate::bucket::{Bucket, URI};
use crate::support::{keys, named};

const AN_HOUR_MS: u64 = 3_600_000;

/// What is known serves for the whole test, however slow the machine.
fn patient(bucket: &Bucket) -> OpenOptions {
    let mut options = bucket.options();
    options.settings.reads.base_refresh_ms = AN_HOUR_MS;
    options.settings.reads.epoch_confirm_ms = AN_HOUR_MS;
    options
}

/// Rows 0 to 99 in the base; so many SSTables and a memtable, each with some of them and new ones.
async fn fill(table: &Table, bucket: &Bucket, sstables: i64) {
    let append = lance::dataset::WriteParams {
        mode: lance::dataset::WriteMode::Append,
        max_rows_per_file: 30,
        ..lance::dataset::WriteParams::default()
    };
    let rows = arrow_array::RecordBatchIterator::new([Ok(named(0..100))], named(0..1).schema());
    let base = std::sync::Arc::new(bucket.dataset().await);
    lance::dataset::InsertBuilder::new(base)
        .with_params(&bucket.write_params(append))
        .execute_stream(rows)
        .await
        .unwrap();
    for sstable in 0..sstables {
        let first = 10 * sstable;
        table.put(named((first..first + 5).chain(1000 + first..1000 + first + 5))).await.unwrap();
        table.flush().await.unwrap();
    }
    table.put(named((90..95).chain(2000..2005))).await.unwrap();
    table.refresh().await.unwrap();
}

fn live(sstables: i64) -> u64 {
    100 + 5 * (sstables as u64) + 5
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_writer_reads_without_a_request_beside_data_q1() {
    let shardings = [Sharding::Unsharded, Sharding::Bucket { column: "id".to_owned(), num_buckets: 2 }];
    for sharding in shardings {
        let bucket = Bucket::new();
        let table = bucket.create_with(&sharding, patient(&bucket)).await;
        fill(&table, &bucket, 4).await;
        let get = GetRequest { keys: keys(&[1, 11, 50, 93, 1001, 2001, 4]), columns: None };
        let filtered =
            ScanRequest { filter: Some("name > 'name of 5'".to_owned()), ..ScanRequest::default() };
        let read_all = async || {
            assert_eq!(table.count(None).await.unwrap(), live(4));
            let rows = table.scan(&ScanRequest::default()).await.unwrap();
            let rows: Vec<_> = rows.try_collect().await.unwrap();
            assert_eq!(rows.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), live(4));
            let rows = table.scan(&filtered).await.unwrap();
            drop(rows.try_collect::<Vec<_>>().await.unwrap());
            table.count(Some("id < 7")).await.unwrap();
            assert_eq!(table.get(&get).await.unwrap().num_rows(), 7);
        };
        // What the first finds out is known to the second.
        read_all().await;
        read_all().await;
        let ((), read) = bucket.read_by(read_all()).await;
        assert_eq!(read.metadata, [""; 0], "{sharding:?}");
        assert!(read.data > 0, "it was counted at all");
        // A row of its own more is a row more, and still no request.
        table.put(named([3000])).await.unwrap();
        let (count, read) = bucket.read_by(table.count(None)).await;
        assert_eq!(count.unwrap(), live(4) + 1);
        assert_eq!(read.metadata, [""; 0], "{sharding:?}");
        table.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_looks_again_makes_one_request_a_shard_q1() {
    for shards in [1, 3] {
        let bucket = Bucket::new();
        let sharding = Sharding::Bucket { column: "id".to_owned(), num_buckets: shards };
        let table = bucket.create_with(&sharding, patient(&bucket)).await;
        fill(&table, &bucket, 2).await;
        let poll = std::time::Duration::ZERO;
        let reader = Reader::open(URI, patient(&bucket), ReadOptions { poll }).await.unwrap();
        assert_eq!(reader.count(None).await.unwrap(), live(2));
        let (snapshot, read) = bucket.read_by(reader.read()).await;
        assert_eq!(read.metadata.len(), shards as usize, "{:?}", read.metadata);
        // Rows of others are there all the same.
        table.put(named([3000])).await.unwrap();
        assert_eq!(reader.count(None).await.unwrap(), live(2) + 1);
        assert_eq!(snapshot.unwrap().count(None).await.unwrap(), live(2), "P6");
        // So it is for a table that could write.
        let other = Table::open(URI, patient(&bucket)).await.unwrap();
        assert_eq!(other.count(None).await.unwrap(), live(2) + 1);
        let (_, read) = bucket.read_by(other.read(ReadLevel::Durable)).await;
        assert_eq!(read.metadata.len(), shards as usize, "{:?}", read.metadata);
        table.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_reader_makes_a_few_requests_for_each_sstable_and_one_for_each_unflushed_entry_q1() {
    for sstables in [1, 4, 8] {
        let bucket = Bucket::new();
        let table = bucket.create(&Sharding::Unsharded).await;
        fill(&table, &bucket, sstables).await;
        let cold = async {
            let reader = Table::open(URI, bucket.options()).await.unwrap();
            assert_eq!(reader.count(None).await.unwrap(), live(sstables));
        };
        let ((), read) = bucket.read_by(cold).await;
        // The last is the WAL entry that is in no SSTable.
        let most = 9 * sstables as usize + 10 + 1;
        assert!(read.metadata.len() <= most, "{sstables} SSTables: {:#?}", read.metadata);
        table.close().await.unwrap();
    }
}
