//! Where the files of an SSTable lie, as object-store paths.

use headwater_engine::table::TableError;
use headwater_format::coord::{Generation, ShardId};
use headwater_format::path::{parse_sstable_name, sstable_dir};
use lance_table::io::commit::ManifestNamingScheme;
use object_store::path::Path;

const DATA_DIR: &str = "data";
const SIDECAR_DIR: &str = "_pk_index";
/// Name of the bloom filter.
pub(crate) const BLOOM_NAME: &str = "bloom_filter.bin";
/// The one version an SSTable has.
pub(crate) const VERSION: u64 = 1;
/// The one fragment an SSTable has.
pub(crate) const FRAGMENT: u32 = 0;

/// The directory of one SSTable.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// As the object store knows it.
    root: Path,
    /// Below the table, for people.
    relative: String,
}

impl Layout {
    /// The directory `name` of `shard`, below the table at `base`.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when `name` is not the name of an SSTable of `generation`.
    pub(crate) fn new(
        base: &Path,
        shard: ShardId,
        name: &str,
        generation: Generation,
    ) -> Result<Self, TableError> {
        if parse_sstable_name(name).is_none_or(|(_, found)| found != generation) {
            return Err(TableError::invalid(format!(
                "{name:?} is not the name of an SSTable of generation {generation}"
            )));
        }
        let relative = sstable_dir(shard, name);
        let root = relative.split('/').fold(base.clone(), |path, part| path.join(part));
        Ok(Self { root, relative })
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The directory below the table, for errors.
    pub(crate) fn relative(&self) -> &str {
        &self.relative
    }

    /// A file below the table, for errors.
    pub(crate) fn relative_file(&self, file: &str) -> String {
        format!("{}/{file}", self.relative)
    }

    /// The data file of this name.
    pub(crate) fn data(&self, file: &str) -> Path {
        self.root.clone().join(DATA_DIR).join(file)
    }

    /// The directory of the key sidecar.
    pub(crate) fn sidecar(&self) -> Path {
        self.root.clone().join(SIDECAR_DIR)
    }

    /// The bloom filter.
    pub(crate) fn bloom(&self) -> Path {
        self.root.clone().join(BLOOM_NAME)
    }

    /// The table manifest.
    pub(crate) fn manifest(&self) -> Path {
        ManifestNamingScheme::V2.manifest_path(&self.root, VERSION)
    }
}
