//! Settings as text.

use headwater::settings::SettingsText;
use headwater::{Error, Kind, OpenOptions, Request, ShardSettings, Sharding, Table, WalCompression};

use crate::support::{Home, options, rows, schema};

fn defaults() -> SettingsText {
    SettingsText::defaults().unwrap()
}

#[test]
fn the_defaults_are_the_defaults() {
    assert_eq!(defaults().build().unwrap(), ShardSettings::default());
}

#[test]
fn every_setting_can_be_set_to_what_it_is() {
    let mut settings = defaults();
    let names = settings.names();
    assert!(names.contains(&"freeze.max_rows".to_owned()) && names.len() > 15, "{names:?}");
    let tree = serde_json::to_value(ShardSettings::default()).unwrap();
    for name in names {
        let value = &tree[name.split('.').next().unwrap()][name.rsplit('.').next().unwrap()];
        settings.set(&name, value.as_str().unwrap_or(&value.to_string())).unwrap();
    }
    assert_eq!(settings.build().unwrap(), ShardSettings::default());
}

#[test]
fn numbers_text_and_none_are_taken_and_later_ones_win() {
    let mut settings = defaults();
    settings.set_pair("freeze.max_rows=10").unwrap();
    settings.set_pair("freeze.max_rows = 20").unwrap();
    settings.set_pair("freeze.max_age_ms=500").unwrap();
    settings.set_pair("wal.compression=zstd").unwrap();
    let built = settings.build().unwrap();
    assert_eq!((built.freeze.max_rows, built.freeze.max_age_ms), (20, Some(500)));
    settings.set_pair("freeze.max_age_ms=null").unwrap();
    assert_eq!(settings.build().unwrap().freeze.max_age_ms, None);
}

#[test]
fn an_unknown_setting_is_named_with_the_nearest_known_ones() {
    for typo in ["freeze.max_row", "max_rows", "freze.max_rows", "freeze.maxrows"] {
        let error = defaults().set(typo, "1").unwrap_err();
        let Error::Setting { name, reason } = &error else { panic!("{error:?}") };
        assert_eq!(name, typo);
        assert!(reason.contains("freeze.max_rows"), "{reason}");
    }
}

#[test]
fn a_value_that_cannot_be_is_refused_and_changes_nothing() {
    let mut settings = defaults();
    for (name, value) in
        [("freeze.max_rows", "many"), ("freeze.max_rows", "-1"), ("wal.compression", "rar"), ("freeze", "1")]
    {
        let error = settings.set(name, value).unwrap_err();
        assert!(matches!(&error, Error::Setting { name: found, .. } if found == name), "{error}");
    }
    assert_eq!(settings.build().unwrap(), ShardSettings::default());
    settings.set("freeze.max_rows", "0").unwrap();
    let error = settings.build().unwrap_err();
    assert!(matches!(&error, Error::Setting { name, .. } if name == "freeze.max_rows"), "{error}");
}

#[test]
fn a_tree_is_merged_and_its_first_unknown_name_is_refused() {
    let mut settings = defaults();
    settings.merge(&serde_json::json!({"freeze": {"max_rows": 7}, "retry": {"max_attempts": 2}})).unwrap();
    let built = settings.build().unwrap();
    assert_eq!((built.freeze.max_rows, built.retry.max_attempts), (7, 2));
    let error = settings.merge(&serde_json::json!({"freeze": {"max_rowz": 7}})).unwrap_err();
    assert!(matches!(&error, Error::Setting { name, .. } if name == "freeze.max_rowz"), "{error}");
    settings.merge(&serde_json::json!([1])).unwrap_err();
}

/// Bytes of the WAL entry that a put of the same text many times makes.
async fn entry_bytes(uri: &str, options: OpenOptions) -> u64 {
    let text = "the same words over and over, ".repeat(20);
    let many: Vec<(i64, &str)> = (0..500).map(|id| (id, text.as_str())).collect();
    let table =
        Table::create(uri, &schema(), &["id".to_owned()], &Sharding::Unsharded, options).await.unwrap();
    table.put(rows(&many)).await.unwrap();
    let bytes = table.stats().requests.get(Request::Put, Kind::Wal).bytes;
    table.abandon();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_compressed_where_they_travel_and_not_on_local_disk() {
    let (home, other) = (Home::new(), Home::new());
    let payload = 500 * 600;
    assert!(entry_bytes(&home.uri(), options()).await > payload);
    let mut chosen = options();
    chosen.settings.wal.compression = WalCompression::Lz4;
    assert!(entry_bytes(&other.uri(), chosen).await < payload / 2);
    let elsewhere = entry_bytes("memory://compressed/t.lance", OpenOptions::default()).await;
    assert!(elsewhere < payload / 10, "{elsewhere}");
}
