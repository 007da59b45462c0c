//! Tables with a map column.

use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;

use crate::support::{Home, run};

#[test]
fn a_map_column_is_ingested_from_parquet_and_ndjson() {
    let home = Home::new();
    let mut tags = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    tags.keys().append_value("a");
    tags.values().append_value(1);
    tags.append(true).unwrap();
    tags.append(false).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let tags: ArrayRef = Arc::new(tags.finish());
    let rows = RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("tags", tags, true)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(home.path("rows.parquet")).unwrap(), rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();

    let (table, parquet) = (home.table(), home.name("rows.parquet"));
    run(&["init", &table, "--schema", &parquet, "--key", "id"]).ok();
    let ndjson = home.write("rows.ndjson", "{\"id\": 3, \"tags\": {\"b\": 2, \"c\": null}}\n{\"id\": 4}\n");
    run(&["ingest", &table, &parquet, &ndjson]).ok();
    let report = home.inspect();
    assert_eq!(report["shards"][0]["sstables"][0]["physical_rows"], 4);
    let bad = home.write("bad.ndjson", "{\"id\": 5, \"tags\": {\"b\": \"2\"}}\n");
    run(&["ingest", &table, &bad]).failed(1, &["bad.ndjson", "line 1", "column tags"]);
}
