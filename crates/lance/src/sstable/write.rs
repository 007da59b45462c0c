//! Writing an SSTable: its files side by side, the table manifest last.
//!
//! Owns: [`write`]. Row addresses are known up front (fragment 0, offsets in insert order), so no file waits
//! for another. Nothing here decides whether the generation may be written: the caller has asked
//! [`FrozenMemtable::check_complete`] and compared the schema.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use headwater_engine::memtable::FrozenMemtable;
use headwater_engine::table::{TableError, WrittenSsTable};
use headwater_format::bloom::Bloom;
use headwater_format::key::KeySchema;
use headwater_store::env::{EnvExt, EnvRef};
use lance_core::datatypes::{Field, Schema};
use lance_core::utils::deletion::DeletionVector;
use lance_encoding::constants::COMPRESSION_META_KEY;
use lance_file::versions::{create_writer, data_file_columns};
use lance_file::writer::FileWriterOptions;
use lance_io::object_store::ObjectStore;
use lance_table::feature_flags::apply_feature_flags;
use lance_table::format::{DataFile, DataStorageFormat, DeletionFile, Fragment, Manifest};
use lance_table::io::commit::write_manifest_file_to_path;
use lance_table::io::deletion::write_deletion_file;

use super::layout::{FRAGMENT, Layout, VERSION};
use super::sidecar::{sorted_entries, write_sidecar};
use crate::error;
use crate::schema::TableSchema;

/// How often the bloom filter may say yes to a key that is not there.
const BLOOM_FALSE_POSITIVES: f64 = 1e-4;

/// Where an SSTable goes and what it looks like.
pub(crate) struct Target<'a> {
    /// The table's own object store.
    pub store: &'a Arc<ObjectStore>,
    /// Its directory.
    pub layout: Layout,
    /// The schema of the base.
    pub schema: &'a TableSchema,
    /// Where CPU work runs.
    pub env: &'a EnvRef,
}

/// Writes `frozen`, which is complete and has the target's schema, into the target directory. The files are
/// written, not yet synced; after an error some of them are.
///
/// # Errors
/// [`TableError::Invalid`] when its rows do not fit into one SSTable; otherwise what storage said.
pub(crate) async fn write(
    target: &Target<'_>,
    frozen: &FrozenMemtable,
) -> Result<WrittenSsTable, TableError> {
    let batches: Arc<[RecordBatch]> = frozen.batches().into();
    let physical_rows: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let key = target.schema.key.clone().map(Arc::new);
    let (data, deletions, sidecar_bytes, bloom_bytes) = futures::try_join!(
        write_data(target, Arc::clone(&batches)),
        write_deletions(target, frozen, key.is_some()),
        write_key_sidecar(target, key.clone(), Arc::clone(&batches)),
        write_bloom(target, key, Arc::clone(&batches), physical_rows),
    )?;
    let replaced_rows = deletions.as_ref().map_or(0, |deletions| deletions.rows);
    let files =
        [data.bytes, deletions.as_ref().map_or(0, |deletions| deletions.bytes), sidecar_bytes, bloom_bytes];
    let fragment = fragment(target, data, deletions, physical_rows)?;
    let manifest_bytes = write_manifest(target, fragment).await?;
    let file_bytes = files.iter().sum::<u64>().saturating_add(manifest_bytes);
    Ok(WrittenSsTable { physical_rows, replaced_rows, file_bytes })
}

struct Data {
    name: String,
    bytes: u64,
}

fn write_data<'a>(
    target: &'a Target<'_>,
    batches: Arc<[RecordBatch]>,
) -> BoxFuture<'a, Result<Data, TableError>> {
    async move {
        let name = format!("{}.lance", target.env.uuid().simple());
        let path = target.layout.data(&name);
        let written = async {
            let writer = target.store.create(&path).await?;
            let schema = text_as_it_is(&target.schema.lance);
            let mut file =
                create_writer(target.schema.file_version, writer, schema, FileWriterOptions::default())?;
            for batch in batches.iter() {
                file.write_batch(batch).await?;
            }
            file.finish().await
        };
        let summary = written
            .await
            .map_err(|error| error::of_table(&target.layout.relative_file(&format!("data/{name}")), error))?;
        Ok(Data { name, bytes: summary.size_bytes })
    }
    .boxed()
}

/// `schema` with text that is written as it is: by itself Lance looks for symbols in it (FSST), which takes
/// half the time of a flush, and an SSTable lives only until it is compacted. What a table asks for itself
/// stays.
fn text_as_it_is(schema: &Schema) -> Schema {
    fn mark(field: &mut Field) {
        if matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8) {
            field.metadata.entry(COMPRESSION_META_KEY.to_owned()).or_insert_with(|| "none".to_owned());
        }
        field.children.iter_mut().for_each(mark);
    }
    let mut schema = schema.clone();
    schema.fields.iter_mut().for_each(mark);
    schema
}

struct Deletions {
    file: DeletionFile,
    rows: u64,
    bytes: u64,
}

/// Marks the rows that a later row of the same generation replaces (the cut: nothing newer counts).
fn write_deletions<'a>(
    target: &'a Target<'_>,
    frozen: &FrozenMemtable,
    keyed: bool,
) -> BoxFuture<'a, Result<Option<Deletions>, TableError>> {
    let replaced = frozen.superseded();
    async move {
        if !keyed || replaced.is_empty() {
            return Ok(None);
        }
        let (rows, bytes) = (replaced.len(), replaced.serialized_size() as u64);
        let vector = DeletionVector::Bitmap(replaced);
        let root = target.layout.root();
        let file = write_deletion_file(root, u64::from(FRAGMENT), VERSION, &vector, target.store)
            .await
            .map_err(|error| error::of_table(&target.layout.relative_file("_deletions"), error))?;
        Ok(file.map(|file| Deletions { file, rows, bytes }))
    }
    .boxed()
}

fn write_key_sidecar<'a>(
    target: &'a Target<'_>,
    key: Option<Arc<KeySchema>>,
    batches: Arc<[RecordBatch]>,
) -> BoxFuture<'a, Result<u64, TableError>> {
    async move {
        let Some(key) = key else { return Ok(0) };
        let path = target.layout.relative_file("_pk_index");
        let entries = target
            .env
            .blocking(move || sorted_entries(&key, &batches))
            .await
            .map_err(|_| error::of_task("sorting keys", &path))??;
        write_sidecar(target.store, target.layout.sidecar(), entries)
            .await
            .map_err(|error| error::of_table(&path, error))
    }
    .boxed()
}

fn write_bloom<'a>(
    target: &'a Target<'_>,
    key: Option<Arc<KeySchema>>,
    batches: Arc<[RecordBatch]>,
    rows: u64,
) -> BoxFuture<'a, Result<u64, TableError>> {
    async move {
        let Some(key) = key else { return Ok(0) };
        let path = target.layout.relative_file("bloom_filter.bin");
        let bytes = target
            .env
            .blocking(move || bloom_of(&key, &batches, rows))
            .await
            .map_err(|_| error::of_task("building the bloom filter", &path))??;
        target
            .store
            .put(&target.layout.bloom(), &bytes)
            .await
            .map_err(|error| error::of_table(&path, error))?;
        Ok(bytes.len() as u64)
    }
    .boxed()
}

/// The filter over all keys, replaced ones included, sized for the rows there really are.
fn bloom_of(key: &KeySchema, batches: &[RecordBatch], rows: u64) -> Result<Bytes, TableError> {
    let mut bloom = Bloom::with_ndv_fpp(rows, BLOOM_FALSE_POSITIVES);
    for batch in batches {
        let hashes = key.hashes(batch).map_err(|error| TableError::invalid(error.to_string()))?;
        for hash in hashes {
            bloom.insert(hash);
        }
    }
    Ok(Bytes::from(bloom.to_bytes()))
}

fn fragment(
    target: &Target<'_>,
    data: Data,
    deletions: Option<Deletions>,
    physical_rows: u64,
) -> Result<Fragment, TableError> {
    let rows = usize::try_from(physical_rows)
        .map_err(|_| TableError::invalid(format!("{physical_rows} rows do not fit into one SSTable")))?;
    let version = target.schema.file_version;
    let (fields, columns) = data_file_columns(version, &target.schema.lance);
    let file = DataFile::new(data.name, fields, columns, version, NonZero::new(data.bytes), None);
    let mut fragment = Fragment::new(u64::from(FRAGMENT)).with_physical_rows(rows);
    fragment.files.push(file);
    fragment.deletion_file = deletions.map(|deletions| deletions.file);
    Ok(fragment)
}

/// Writes the manifest that makes the directory a dataset; returns its bytes.
async fn write_manifest(target: &Target<'_>, fragment: Fragment) -> Result<u64, TableError> {
    let path = target.layout.manifest();
    let written = async {
        let format = DataStorageFormat::new(target.schema.file_version);
        let schema = target.schema.lance.clone();
        let mut manifest = Manifest::new(schema, Arc::new(vec![fragment]), format, HashMap::new());
        let since_epoch = target.env.wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        manifest.set_timestamp(since_epoch.as_nanos());
        manifest.update_max_fragment_id();
        apply_feature_flags(&mut manifest, false, false)?;
        write_manifest_file_to_path(target.store, &mut manifest, None, &path, None).await
    };
    let written =
        written.await.map_err(|error| error::of_table(&target.layout.relative_file("_versions"), error))?;
    Ok(written.size as u64)
}
