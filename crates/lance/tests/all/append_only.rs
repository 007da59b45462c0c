//! Tables without a key: every row is kept.

use std::path::PathBuf;

use headwater_engine::table::TableIo;
use headwater_format::coord::RowOffset;
use headwater_format::path::sstable_dir;
use headwater_lance::Sharding;

use crate::support::*;

#[tokio::test]
async fn a_generation_of_an_append_only_table_keeps_every_row_and_has_no_sidecar() {
    let place = Place::new();
    let table = place.table(&id_value_schema(), &[]).await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    assert!(table.key().is_none());
    let steps = vec![Step::Rows(id_value_rows(&[(1, "a"), (1, "a"), (2, "b"), (1, "c")]))];
    let written = write(&table, &frozen(&table, steps)).await.unwrap();
    assert_eq!((written.physical_rows, written.replaced_rows), (4, 0));

    let root = PathBuf::from(format!("{}/{}", place.uri(), sstable_dir(shard(), &name())));
    for absent in ["_pk_index", "_deletions", "bloom_filter.bin"] {
        assert!(!root.join(absent).exists(), "{absent}");
    }
    let dataset = plain_dataset(&place).await;
    assert_eq!(dataset.count_rows(None).await.unwrap(), 4);
    dataset.validate().await.unwrap();

    let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
    assert_eq!(cells(&reader.scan().await.unwrap(), &["id", "value"]).len(), 4);
    let rows = reader.read_rows(&[RowOffset::new(3), RowOffset::new(0)]).await.unwrap();
    assert_eq!(cells(&[rows], &["value"]), [row(&["c"]), row(&["a"])]);
    let reason = invalid(reader.find_keys(&ids(&[1])).await);
    assert!(reason.contains("no key"), "{reason}");
}

#[tokio::test]
async fn an_append_only_table_may_be_sharded_by_any_column_and_gets_no_key_index() {
    let place = Place::new();
    let table = place.table(&id_value_schema(), &[]).await;
    let sharding = Sharding::Bucket { column: "value".to_owned(), num_buckets: 4 };
    let mem_wal = table.init_mem_wal(&sharding).await.unwrap();
    assert_eq!(mem_wal.sharding, sharding);
    let indexes = lance::index::DatasetIndexExt::load_indices(&place.dataset().await).await.unwrap();
    assert_eq!(indexes.len(), 1, "only the MemWAL entry");
}
