//! The spec: installed, read, removed; and the key it needs.

use lancedb::table::{FieldMetadataUpdate, RTEWriteSpec};

use crate::support::{Server, merge, refused, rows, schema, upsert};

#[tokio::test]
async fn specs_are_read_as_they_were_installed() {
    let server = Server::start().await;
    let table = server.table(&[]).await;
    assert_eq!(table.get_rte_spec().await.unwrap(), None);
    assert!(table.get_rte_stats(true).await.unwrap().is_none());
    let specs = [
        RTEWriteSpec::unsharded(),
        RTEWriteSpec::bucket("id", 16).with_maintained_indexes(Vec::new()),
        RTEWriteSpec::identity("id").with_writer_config_defaults([("max_memtable_rows", "5000")]),
    ];
    for spec in specs {
        table.enable_rte(spec.clone()).await.unwrap();
        assert_eq!(table.get_rte_spec().await.unwrap(), Some(spec.clone()));
        refused(table.enable_rte(spec).await, 400, &["already"]);
        table.disable_rte().await.unwrap();
        assert_eq!(table.get_rte_spec().await.unwrap(), None);
        refused(table.disable_rte().await, 400, &["no write tier"]);
    }
    let many = RTEWriteSpec::bucket("id", 2000);
    refused(table.enable_rte(many).await, 400, &["1024"]);
    refused(table.enable_rte(RTEWriteSpec::identity("nope")).await, 400, &["nope"]);
    let unknown = RTEWriteSpec::unsharded().with_maintained_indexes(vec!["nope".to_owned()]);
    refused(table.enable_rte(unknown).await, 400, &["nope"]);
}

#[tokio::test]
async fn a_key_is_an_edit_of_the_columns_metadata() {
    let server = Server::start().await;
    let table = server.db.create_empty_table("t", schema()).execute().await.unwrap();
    let key = FieldMetadataUpdate::new("id").set("lance-schema:unenforced-primary-key:position", "1");
    assert!(table.update_field_metadata(&[key]).await.unwrap().version > 1);
    let marked = table.schema().await.unwrap();
    assert!(!marked.field_with_name("id").unwrap().is_nullable(), "keys are not null");
    let again = table.set_unenforced_primary_key(["name"]).await;
    assert!(again.is_err(), "a key is for good");
    table.enable_rte(RTEWriteSpec::unsharded()).await.unwrap();
    let told = merge(upsert(&table), rows(&[1, 1, 2], "a")).await.unwrap();
    assert_eq!((told.num_rows, table.count_rows(None).await.unwrap()), (3, 2));
}

#[tokio::test]
async fn a_tier_goes_only_without_rows() {
    let server = Server::start().await;
    let table = server.tiered(&[1], RTEWriteSpec::unsharded()).await;
    table.add(rows(&[2], "b")).execute().await.unwrap();
    refused(table.disable_rte().await, 400, &["rows"]);
    table.flush_rte().await.unwrap();
    refused(table.disable_rte().await, 400, &["rows"]);
    assert_eq!(table.count_rows(None).await.unwrap(), 2);
    server.db.drop_table("t", &[]).await.unwrap();
    assert!(server.db.table_names().execute().await.unwrap().is_empty());
    let anew = server.table(&[7]).await;
    assert_eq!(anew.get_rte_spec().await.unwrap(), None);
    assert_eq!(anew.count_rows(None).await.unwrap(), 1);
}
