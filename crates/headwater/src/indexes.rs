//! Scalar indexes of the base table.
//!
//! Owns: the calls of [`Table`]. Does not own: the indexes themselves (`headwater-lance`). Rows that are not
//! in the base yet are in no index: reads filter them one by one, and rows of the base that they replace stay
//! hidden whatever an index finds (P13). Nothing is claimed.

use headwater_lance::{IndexInfo, IndexKind};

use crate::error::Error;
use crate::table::Table;

impl Table {
    /// Indexes a column of the base; `name` is `{column}_idx` when left out. Filters use it from the next
    /// read on. Rows appended to the base later are not in it until Lance optimizes its indexes, and found
    /// all the same.
    ///
    /// # Errors
    /// [`Error::Table`] when there is no such column, its type cannot be indexed, an index has that name, or
    /// storage does not do it.
    pub async fn create_index(
        &self,
        column: &str,
        kind: IndexKind,
        name: Option<&str>,
    ) -> Result<IndexInfo, Error> {
        self.shards.check_open()?;
        let created = self.shards.common().lance.create_index(column, kind, name).await;
        created.map_err(|error| Error::table(self.uri(), error))
    }

    /// The indexes of the base, by name; Lance's own left out.
    ///
    /// # Errors
    /// [`Error::Table`] with what storage said.
    pub async fn indexes(&self) -> Result<Vec<IndexInfo>, Error> {
        self.shards.check_open()?;
        let indexes = self.shards.common().lance.indexes().await;
        indexes.map_err(|error| Error::table(self.uri(), error))
    }

    /// Drops an index of the base. The one that rows are looked up by key in goes with `force` only.
    ///
    /// # Errors
    /// [`Error::Table`] when there is no such index, it is the write tier's own, it is the key's and `force`
    /// is not set, or storage does not do it.
    pub async fn drop_index(&self, name: &str, force: bool) -> Result<(), Error> {
        self.shards.check_open()?;
        let dropped = self.shards.common().lance.drop_index(name, force).await;
        dropped.map_err(|error| Error::table(self.uri(), error))
    }
}
