//! Commits that carry a mark, so that whoever asks again can be told that it was done.
//!
//! Owns: [`Connection::open_dataset`], which writes a mark into the manifest of each commit, and [`mark_of`].
//! The mark is the manifest's own field for a version's tag: it is written with the commit or not at all,
//! belongs to that version alone, and readers that do not know it ignore it. Does not own: what is committed,
//! or what marks mean (P12).

use std::sync::Arc;

use headwater_engine::table::TableError;
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance_table::io::commit::commit_handler_from_url;

use crate::commit_handler::looking;
use crate::error;
use crate::location::normalize;
use crate::table::{Connection, TableOptions, mem_wal_entry, reading};

impl Connection {
    /// Opens the newest version of the table at `uri`, as Lance has it: without its write tier. Commits made
    /// through it carry `mark`, if one is given.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when there is none; otherwise what storage said.
    pub async fn open_dataset(
        &self,
        uri: &str,
        options: &TableOptions,
        mark: Option<&str>,
    ) -> Result<Dataset, TableError> {
        let uri = normalize(uri)?;
        let params = self.store_params(options);
        let mut builder = DatasetBuilder::from_uri(&uri)
            .with_session(Arc::clone(self.session()))
            .with_store_params(params.clone());
        if let Some(mark) = mark {
            let inner = commit_handler_from_url(&uri, &Some(params)).await;
            let inner = inner.map_err(|error| error::of_table(&uri, error))?;
            let mark = mark.to_owned();
            builder = builder.with_commit_handler(looking(&inner, move |manifest| {
                manifest.tag = Some(mark.clone());
                Ok(())
            }));
        }
        reading(&uri, builder.load()).await
    }
}

/// Whether this version has a write tier. What it says of it, [`crate::LanceTable::mem_wal`] reads.
///
/// # Errors
/// What storage said.
pub async fn has_write_tier(dataset: &Dataset) -> Result<bool, TableError> {
    let entry = mem_wal_entry(dataset).await.map_err(|error| error::of_table(dataset.uri(), error))?;
    Ok(entry.is_some())
}

/// The mark that the commit of this version carried.
pub fn mark_of(dataset: &Dataset) -> Option<&str> {
    dataset.manifest().tag.as_deref()
}
