//! Model files: round trips, damage, and what `write_sstable` refuses.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use headwater_engine::budget::MemoryBudget;
use headwater_engine::memtable::{FrozenMemtable, Memtable};
use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::{Generation, Seq, ShardId};
use headwater_format::schema::storage_schema;
use headwater_store::env::{Env, SeededEnv};
use object_store::path::Path;

use super::*;
use crate::fault::{FaultKind, FaultStore, Script};
use crate::rows::{KeyShape, Rows};

struct Bench {
    machine: SeededEnv,
    store: FaultStore,
    tables: ModelTables,
    shard: ShardId,
}

fn bench() -> Bench {
    let machine = SeededEnv::new(1);
    let store = FaultStore::new(&machine);
    let process = machine.process("table");
    let files = Files::new(store.client(&process), Path::from("t"));
    let rows = Rows::new(KeyShape::Int);
    machine.block_on(ModelTables::create(&files, &rows.put(1, &[5]))).unwrap();
    let shard = ShardId::new(machine.uuid());
    Bench { tables: ModelTables::new(files), machine, store, shard }
}

fn empty(durable: bool) -> FrozenMemtable {
    let rows = Rows::new(KeyShape::Int);
    let schema = storage_schema(rows.schema()).unwrap();
    let charge = MemoryBudget::new(1 << 20).charge(0);
    let first = Seq::new(1);
    let memtable = Memtable::new(Generation::new(1), schema, rows.key().cloned(), first, Vec::new(), charge);
    if durable {
        memtable.set_durable_through(first);
    }
    memtable.freeze()
}

#[test]
fn a_memtable_without_rows_is_refused_as_invalid() {
    let Bench { machine, tables, shard, .. } = bench();
    for durable in [false, true] {
        let written = machine.block_on(tables.write_sstable(shard, "00000001_gen_1", &empty(durable)));
        assert!(matches!(written, Err(TableError::Invalid { .. })), "{written:?}");
    }
}

#[test]
fn rows_that_are_not_durable_are_refused_as_invalid() {
    let Bench { machine, store, tables, shard } = bench();
    let rows = Rows::new(KeyShape::Int);
    let base = machine.block_on(tables.base()).unwrap();
    let limits = headwater_engine::ingest::IngestLimits { max_rows: 100, max_bytes: 1 << 20 };
    let ingest = headwater_engine::ingest::Ingest::new(&base.schema, limits).unwrap();
    let charge = MemoryBudget::new(1 << 20).charge(0);
    let mut memtable = Memtable::new(
        Generation::new(1),
        Arc::clone(ingest.schema()),
        ingest.key().cloned(),
        Seq::new(1),
        Vec::new(),
        charge,
    );
    memtable.append(&ingest.rows(rows.put(2, &[1, 2])).unwrap()).unwrap();
    memtable.set_durable_through(Seq::new(2));
    let frozen = memtable.freeze();
    let before = store.requests();
    let written = machine.block_on(tables.write_sstable(shard, "00000001_gen_1", &frozen));
    assert!(matches!(written, Err(TableError::Invalid { .. })), "{written:?}");
    assert_eq!(store.requests(), before, "nothing is written");
    frozen.set_durable_through(Seq::new(3));
    let written = machine.block_on(tables.write_sstable(shard, "00000001_gen_1", &frozen)).unwrap();
    assert_eq!((written.physical_rows, written.replaced_rows), (2, 0));
    let names = machine.block_on(tables.list_generations(shard)).unwrap();
    assert_eq!(names, ["00000001_gen_1"]);
}

#[test]
fn the_base_is_read_back_as_it_was_created() {
    let Bench { machine, tables, .. } = bench();
    let rows = Rows::new(KeyShape::Int);
    assert_eq!(machine.block_on(tables.base()).unwrap().schema, *rows.schema());
    let read = machine.block_on(tables.base_rows()).unwrap();
    assert_eq!(rows.read(&read[0]).unwrap(), rows.read(&rows.put(1, &[5])).unwrap());
}

#[test]
fn a_damaged_file_is_a_typed_error_with_its_path() {
    for (kind, corrupt) in [
        (FaultKind::BitFlip, true),
        (FaultKind::EmptyObject, true),
        (FaultKind::ShortBody, false),
        (FaultKind::ErrorBefore, false),
    ] {
        let Bench { machine, store, tables, .. } = bench();
        store.set_script(Script::new().at(store.requests() + 1, kind));
        let error = machine.block_on(tables.base()).unwrap_err();
        assert_eq!(matches!(error, TableError::Corrupt { .. }), corrupt, "{kind}: {error}");
        assert_eq!(matches!(error, TableError::Unavailable { .. }), !corrupt, "{kind}: {error}");
        assert!(error.to_string().contains("data/base.arrow"), "{error}");
    }
}

#[test]
fn a_file_under_another_name_is_corrupt() {
    let Bench { machine, store, tables, .. } = bench();
    let bytes = store.read(|objects| objects.get("t/data/base.arrow").unwrap().bytes.clone());
    assert!(unframe("data/base.arrow", &bytes).is_ok());
    assert!(unframe("data/other.arrow", &bytes).is_err());
    assert!(store.erase("t/data/base.arrow"));
    assert!(matches!(machine.block_on(tables.base()), Err(TableError::NotFound { .. })));
}
