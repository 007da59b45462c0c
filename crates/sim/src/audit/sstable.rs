//! Judging a named SSTable: is every file there, with every row, and computed at its cut?

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use bytes::Bytes;
use headwater_format::bloom::Bloom;
use headwater_format::shard_manifest::SsTable;

use crate::fault::Objects;
use crate::rows::{Row, Rows};
use crate::table::{FileNames, TableManifest, decode_batches, decode_offsets, unframe};
use crate::violation::Violation;

/// Where the files of the table lie.
pub(super) struct Place<'a> {
    pub objects: &'a Objects,
    pub root: &'a str,
}

impl Place<'_> {
    fn file(&self, path: &str) -> Result<Bytes, Violation> {
        let full = format!("{}/{path}", self.root);
        let object = self
            .objects
            .get(&full)
            .ok_or_else(|| Violation::new("P9", format!("{path} is named but does not exist")))?;
        unframe(path, &object.bytes).map_err(|error| Violation::new("P9", error.to_string()))
    }

    fn batches(&self, path: &str) -> Result<Vec<RecordBatch>, Violation> {
        let (_, batches) = decode_batches(path, &self.file(path)?)
            .map_err(|error| Violation::new("P9", error.to_string()))?;
        Ok(batches)
    }
}

/// The physical rows of `sstable`, once everything about it was found right.
///
/// # Errors
/// The first [`Violation`] found.
pub(super) fn check_sstable(
    place: &Place<'_>,
    rows: &Rows,
    names: &FileNames,
    sstable: &SsTable,
) -> Result<Vec<Row>, Violation> {
    let path = &sstable.path;
    let lacks = |what: String| Violation::new("P9", format!("SSTable {path}: {what}"));
    let manifest: TableManifest = serde_json::from_slice(&place.file(&names.manifest())?)
        .map_err(|error| lacks(format!("its manifest: {error}")))?;
    let batches = place.batches(&names.data())?;
    let mut physical = Vec::new();
    for batch in &batches {
        physical.extend(rows.read(batch).map_err(|error| lacks(format!("a wrong row: {error}")))?);
    }
    let count = physical.len() as u64;
    if count == 0 || u64::from(manifest.physical_rows) != count || sstable.physical_rows != Some(count) {
        let (said, named) = (manifest.physical_rows, sstable.physical_rows);
        return Err(lacks(format!("{count} rows, its manifest says {said}, the shard manifest {named:?}")));
    }
    if sstable.primary_key_bytes.is_some() != rows.key().is_some() || sstable.in_memory_bytes.is_none() {
        return Err(lacks("byte counts are missing, or key bytes without a key".to_owned()));
    }
    if let Some(key) = rows.key() {
        check_keys(place, rows, names, &batches).map_err(lacks)?;
        check_cut(place, names, &physical).map_err(lacks)?;
        check_bloom(place, names, key, &batches).map_err(lacks)?;
    }
    for index in &manifest.indexes {
        let bytes = place.file(&names.index(index))?;
        let applied = decode_offsets(&names.index(index), &bytes).unwrap_or_default();
        if applied != [manifest.physical_rows] {
            return Err(lacks(format!("index {index} has {applied:?} of {count} rows")));
        }
    }
    Ok(physical)
}

fn check_keys(
    place: &Place<'_>,
    rows: &Rows,
    names: &FileNames,
    batches: &[RecordBatch],
) -> Result<(), String> {
    let Some(key) = rows.key() else { return Ok(()) };
    let mut expected: Vec<Vec<u8>> = Vec::new();
    for batch in batches {
        let encoded = key.encode(batch).map_err(|error| error.to_string())?;
        expected.extend(encoded.iter().map(|key| key.unwrap_or_default().to_vec()));
    }
    let mut found: Vec<Vec<u8>> = Vec::new();
    for batch in place.batches(&names.sidecar()).map_err(|violation| violation.what)? {
        let column = batch.columns().first().and_then(|column| column.as_binary_opt::<i32>().cloned());
        let column = column.ok_or("the key sidecar has no keys")?;
        found.extend(column.iter().map(|key| key.unwrap_or_default().to_vec()));
    }
    if found == expected {
        return Ok(());
    }
    Err(format!("the key sidecar has {} of {} rows", found.len(), expected.len()))
}

fn check_bloom(
    place: &Place<'_>,
    names: &FileNames,
    key: &headwater_format::key::KeySchema,
    batches: &[RecordBatch],
) -> Result<(), String> {
    let bytes = place.file(&names.bloom()).map_err(|violation| violation.what)?;
    let bloom = Bloom::from_bytes(&bytes).map_err(|error| error.to_string())?;
    for batch in batches {
        let hashes = key.hashes(batch).map_err(|error| error.to_string())?;
        if hashes.iter().any(|hash| !bloom.check(*hash)) {
            return Err("the bloom filter denies a key that was written".to_owned());
        }
    }
    Ok(())
}

/// P4: the deletion vector holds exactly the rows replaced inside the generation.
fn check_cut(place: &Place<'_>, names: &FileNames, physical: &[Row]) -> Result<(), String> {
    let bytes = place.file(&names.deletions()).map_err(|violation| violation.what)?;
    let found = decode_offsets(&names.deletions(), &bytes).map_err(|error| error.to_string())?;
    let mut newest: BTreeMap<u32, usize> = BTreeMap::new();
    let mut replaced: Vec<u32> = Vec::new();
    for (offset, row) in physical.iter().enumerate() {
        replaced.extend(newest.insert(row.key, offset).map(|old| old as u32));
    }
    replaced.sort_unstable();
    if found == replaced {
        return Ok(());
    }
    Err(format!("the deletion vector holds {found:?}, replaced inside the generation are {replaced:?} (P4)"))
}
