//! A table may record settings for its writers: they fill in what nobody chose.

use std::sync::Arc;

use headwater::settings::SettingsText;
use headwater::{Error, OpenOptions, Sharding, Table};
use lance::Dataset;
use lance::dataset::CommitBuilder;
use lance::dataset::transaction::{Operation, TransactionBuilder};
use lance::index::DatasetIndexExt;
use lance_table::system_index::mem_wal::{
    MEM_WAL_INDEX_NAME, load_mem_wal_index_details, new_mem_wal_index_meta,
};

use crate::support::{Home, named, options};

/// Records settings beside what the write tier was made with, as the reference's initialiser does.
async fn record(home: &Home, recorded: &[(&str, &str)]) {
    let base = Dataset::open(&home.uri()).await.unwrap();
    let indexes = base.load_indices().await.unwrap();
    let old = indexes.iter().find(|index| index.name == MEM_WAL_INDEX_NAME).unwrap().clone();
    let mut details = load_mem_wal_index_details(old.clone()).unwrap();
    let more = recorded.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    details.writer_config_defaults.extend(more);
    let new = new_mem_wal_index_meta(base.version_id(), details).unwrap();
    let operation = Operation::CreateIndex { new_indices: vec![new], removed_indices: vec![old] };
    let transaction = TransactionBuilder::new(base.version_id(), operation).build();
    CommitBuilder::new(Arc::new(base)).execute(transaction).await.unwrap();
}

/// How many generations forty rows become, written one at a time.
async fn generations(table: &Table) -> usize {
    for id in 0..40 {
        table.put(named([id])).await.unwrap();
    }
    table.flush().await.unwrap();
    let stats = table.stats();
    stats.shards.values().map(|shard| shard.counters.flushes as usize).sum()
}

async fn table_that_records(recorded: &[(&str, &str)]) -> Home {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    record(&home, recorded).await;
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_settings_hold_under_the_names_of_the_reference_and_under_ours() {
    let home = table_that_records(&[("max_memtable_rows", "10")]).await;
    assert_eq!(generations(&home.open().await).await, 4);
    let home = table_that_records(&[("headwater.freeze.max_entries", "20"), ("stats_log", "x")]).await;
    assert_eq!(generations(&home.open().await).await, 2, "a name we do not know says nothing to us");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_chosen_goes_before_what_is_recorded() {
    let home = table_that_records(&[("max_memtable_rows", "10")]).await;
    let mut chosen = options();
    chosen.settings.freeze.max_rows = 20;
    assert_eq!(generations(&Table::open(&home.uri(), chosen).await.unwrap()).await, 2);

    // Also when what was chosen is our default.
    let home = table_that_records(&[("max_memtable_rows", "10")]).await;
    let mut text = SettingsText::defaults().unwrap();
    text.set("freeze.max_rows", "100000").unwrap();
    let given = OpenOptions { given: text.given().clone(), ..options() };
    assert_eq!(generations(&Table::open(&home.uri(), given).await.unwrap()).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memtable_smaller_than_an_entry_makes_entries_smaller() {
    let home = table_that_records(&[("max_memtable_size", "65536")]).await;
    let table = home.open().await;
    table.put(named(0..10)).await.unwrap();
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_value_that_cannot_be_is_refused_by_both_names() {
    let home = table_that_records(&[("max_memtable_rows", "many")]).await;
    let error = Table::open(&home.uri(), options()).await.unwrap_err();
    let Error::Setting { name, reason } = &error else { panic!("{error}") };
    assert_eq!(name, "freeze.max_rows");
    assert!(reason.contains("max_memtable_rows") && reason.contains("choose a value"), "{reason}");
}
