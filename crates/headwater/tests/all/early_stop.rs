//! A read stops when nobody wants more of it: at its limit, and when its stream is dropped. Counted by the
//! store: requests and bytes of data files.

use arrow_array::{RecordBatch, RecordBatchIterator};
use futures::{StreamExt, TryStreamExt};
use headwater::{
    ReadLevel, ReadSnapshot, ScanRequest, SendableRecordBatchStream, Sharding, SqlSession, SqlSettings, Table,
};
use lance::dataset::{InsertBuilder, WriteMode, WriteParams};

use crate::bucket::{Bucket, Read};
use crate::support::named;

const FRAGMENTS: i64 = 400;
const ROWS_OF_ONE: i64 = 1_200;
const SSTABLES: i64 = 4;
const ROWS_OF_AN_SSTABLE: i64 = 20_000;
const ALL: i64 = FRAGMENTS * ROWS_OF_ONE + SSTABLES * ROWS_OF_AN_SSTABLE;

/// A base of many fragments, SSTables with rows that are new and one each that replaces a row of the base.
async fn table(bucket: &Bucket) -> Table {
    let table = bucket.create(&Sharding::Unsharded).await;
    let of_fragment = |number: i64| named(number * ROWS_OF_ONE..(number + 1) * ROWS_OF_ONE);
    let batches: Vec<_> = (0..FRAGMENTS).map(|number| Ok(of_fragment(number))).collect();
    let schema = of_fragment(0).schema();
    let params = WriteParams {
        mode: WriteMode::Append,
        max_rows_per_file: ROWS_OF_ONE as usize,
        ..WriteParams::default()
    };
    let base = std::sync::Arc::new(bucket.dataset().await);
    let insert = InsertBuilder::new(base);
    let params = bucket.write_params(params);
    insert.with_params(&params).execute_stream(RecordBatchIterator::new(batches, schema)).await.unwrap();
    for sstable in 0..SSTABLES {
        let first = 1_000_000 + sstable * ROWS_OF_AN_SSTABLE;
        table.put(named((first..first + ROWS_OF_AN_SSTABLE).chain([sstable]))).await.unwrap();
        table.flush().await.unwrap();
    }
    table.refresh().await.unwrap();
    table
}

fn rows(batches: &[RecordBatch]) -> i64 {
    batches.iter().map(|batch| batch.num_rows() as i64).sum()
}

async fn drained(stream: SendableRecordBatchStream) -> i64 {
    rows(&stream.try_collect::<Vec<_>>().await.unwrap())
}

/// What a scan of everything reads once masks and footers are known.
async fn whole(bucket: &Bucket, snapshot: &ReadSnapshot) -> Read {
    let scan = async || drained(snapshot.scan(&ScanRequest::default()).await.unwrap()).await;
    assert_eq!(scan().await, ALL);
    let (count, read) = bucket.read_by(scan()).await;
    assert_eq!(count, ALL);
    assert!(read.data >= FRAGMENTS as u64 + SSTABLES as u64, "{read:?}");
    read
}

fn assert_far_less(part: &Read, whole: &Read, what: &str) {
    assert!(part.data * 5 < whole.data, "{what}: {} of {} requests", part.data, whole.data);
    assert!(part.bytes * 5 < whole.bytes, "{what}: {} of {} bytes", part.bytes, whole.bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_reads_far_less_than_everything() {
    let bucket = Bucket::new();
    let table = table(&bucket).await;
    let snapshot = table.read(ReadLevel::Durable).await.unwrap();
    let whole = whole(&bucket, &snapshot).await;
    let session = SqlSession::new(&SqlSettings::default()).unwrap();
    session.register("t", &snapshot).unwrap();

    let limited = |filter: Option<&str>, offset| ScanRequest {
        filter: filter.map(str::to_owned),
        limit: Some(1),
        offset,
        ..ScanRequest::default()
    };
    for request in [limited(None, 0), limited(Some("name <> 'x'"), 0), limited(None, 3)] {
        let (count, read) =
            bucket.read_by(async { drained(snapshot.scan(&request).await.unwrap()).await }).await;
        assert_eq!(count, 1);
        assert_far_less(&read, &whole, &format!("{request:?}"));
    }
    for sql in ["SELECT * FROM t LIMIT 1", "SELECT name FROM t WHERE name LIKE 'name%' LIMIT 1"] {
        let (count, read) = bucket.read_by(async { drained(session.sql(sql).await.unwrap()).await }).await;
        assert_eq!(count, 1);
        assert_far_less(&read, &whole, sql);
    }
    // One that has to look everywhere does.
    let nowhere = limited(Some("name = 'nobody'"), 0);
    let (count, read) = bucket.read_by(async { drained(snapshot.scan(&nowhere).await.unwrap()).await }).await;
    assert_eq!(count, 0);
    assert!(read.data >= FRAGMENTS as u64, "{read:?}");
    table.close().await.unwrap();
}

/// Lets everything that is ready run until nothing more is read.
async fn settled(bucket: &Bucket) -> Read {
    let mut before = bucket.read();
    let mut quiet = 0;
    while quiet < 20 {
        for _ in 0..500 {
            tokio::task::yield_now().await;
        }
        let now = bucket.read();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
    }
    before
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_reads_no_further() {
    let bucket = Bucket::new();
    let table = table(&bucket).await;
    let snapshot = table.read(ReadLevel::Durable).await.unwrap();
    let whole = whole(&bucket, &snapshot).await;
    let session = SqlSession::new(&SqlSettings::default()).unwrap();
    session.register("t", &snapshot).unwrap();
    for of_sql in [false, true] {
        let before = settled(&bucket).await;
        let mut stream = match of_sql {
            false => snapshot.scan(&ScanRequest::default()).await.unwrap(),
            true => session.sql("SELECT * FROM t").await.unwrap(),
        };
        assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
        drop(stream);
        // What was read ahead may still come in: so many fragments or bytes, not the whole table.
        let after = settled(&bucket).await;
        let (requests, bytes) = (after.data - before.data, after.bytes - before.bytes);
        assert!(requests * 2 < whole.data, "SQL {of_sql}: {requests} of {} requests", whole.data);
        assert!(bytes * 2 < whole.bytes, "SQL {of_sql}: {bytes} of {} bytes", whole.bytes);
    }
    table.close().await.unwrap();
}
