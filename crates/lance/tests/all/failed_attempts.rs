//! A flush that fails leaves nothing behind, and deletes nothing that somebody may need.

use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::Generation;

use crate::foreign::{change, foreign_shard};
use crate::hurdles::Hurdles;
use crate::support::*;

/// What is written last of an SSTable, so everything else is there when it fails.
const LAST_FILE: &str = "_gen_1/_versions";

fn a_row() -> Vec<Step> {
    vec![Step::Rows(id_value_rows(&[(1, "a")]))]
}

#[tokio::test]
async fn a_full_disk_leaves_no_directory_for_each_attempt() {
    let place = Place::new();
    place.id_value_table().await;
    let hurdles = Hurdles::default();
    let table = hurdles.table(&place).await;
    let frozen = frozen(&table, a_row());
    hurdles.full_for(Some(LAST_FILE));
    for name in ["00000001_gen_1", "00000002_gen_1"] {
        let error = table.write_sstable(shard(), name, &frozen).await.unwrap_err();
        assert!(matches!(error, TableError::Unavailable { .. }), "{error:?}");
        assert_eq!(table.list_generations(shard()).await.unwrap(), [""; 0]);
    }
    hurdles.full_for(None);
    write(&table, &frozen).await.unwrap();
    assert_eq!(table.list_generations(shard()).await.unwrap(), [name()]);
    assert_eq!(table.open_sstable(shard(), &sstable()).await.unwrap().physical_rows(), 1);
}

#[tokio::test]
async fn what_could_not_be_deleted_goes_with_the_next_attempt() {
    let place = Place::new();
    place.id_value_table().await;
    let hurdles = Hurdles::default();
    let table = hurdles.table(&place).await;
    let frozen = frozen(&table, a_row());
    hurdles.full_for(Some(LAST_FILE));
    hurdles.no_deletes(true);
    table.write_sstable(shard(), "00000001_gen_1", &frozen).await.unwrap_err();
    assert_eq!(table.list_generations(shard()).await.unwrap(), ["00000001_gen_1"]);
    hurdles.full_for(None);
    hurdles.no_deletes(false);
    write(&table, &frozen).await.unwrap();
    assert_eq!(table.list_generations(shard()).await.unwrap(), [name()]);
}

/// Names are drawn at random: another writer's may be the same.
#[tokio::test]
async fn a_directory_that_a_manifest_names_is_never_deleted() {
    let place = Place::new();
    place.id_value_table().await;
    let hurdles = Hurdles::default();
    let table = hurdles.table(&place).await;
    let frozen = frozen(&table, a_row());
    write(&table, &frozen).await.unwrap();
    foreign_shard(&table, shard(), 1, &[]).await;
    change(&table, shard(), |manifest| {
        manifest.current_generation = Generation::new(2);
        manifest.sstables = vec![sstable()];
    })
    .await;
    hurdles.full_for(Some(LAST_FILE));
    write(&table, &frozen).await.unwrap_err();
    assert_eq!(table.list_generations(shard()).await.unwrap(), [name()]);
    let reader = place.open().await.open_sstable(shard(), &sstable()).await.unwrap();
    assert_eq!(cells(&reader.scan().await.unwrap(), &["value"]), [row(&["a"])]);
}
