//! Statements as people ask for them.

use headwater_format::token::ClientToken;
use headwater_query::Statement;

use super::run::Run;
use crate::error::Error;
use crate::table::Table;

/// What to change of which rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateRequest {
    /// Columns with the SQL expressions that give their new values, from the row as it is: `x + 1`, `'text'`,
    /// `NULL`, `[1.0, 2.0]`. Values are cast to the type of the column.
    pub updates: Vec<(String, String)>,
    /// A SQL condition, e.g. `origin = 'JFK'`; none = every row.
    pub predicate: Option<String>,
    /// The client's name for this request: see [`Table::update`].
    pub token: Option<ClientToken>,
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateResult {
    /// Rows that were changed, by this request and by earlier ones of the same token.
    pub rows_updated: u64,
}

/// What a delete did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteResult {
    /// Rows that were deleted, by this request and by earlier ones of the same token.
    pub num_deleted_rows: u64,
}

impl Table {
    /// Changes the rows a condition keeps, and waits until that is durable. Rows are chosen from one
    /// snapshot; each is then changed from its newest values, if it still matches, so nothing another writer
    /// does meanwhile is lost. Not atomic as a whole: rows are changed some thousands at a time, each time
    /// atomic per shard (P3).
    ///
    /// With a token every row is changed at most once however often the request is sent, in one process or
    /// several, over crashes, restarts and flushes, within ten minutes (`tokens.window_ms`) of the first
    /// (P12). One that was not answered goes on where it was; one that was done changes nothing, whatever
    /// matches by now; only when it had found no row, or the last ones had stopped matching, is it made anew.
    /// A token stands for one statement: it is not looked at whether it is the same one. With a token all
    /// shards of the table are opened, without one those of the rows.
    ///
    /// # Errors
    /// [`Error::Read`] with [`QueryError`](crate::QueryError) for a condition, column or expression that is
    /// wrong, before anything is written; for an expression that cannot be computed of some row, or does not
    /// fit its column, with earlier rows changed. [`Error::Contended`]: others write these rows too fast.
    /// Otherwise as [`Table::put`]. After an error some rows may be changed: send it again with its token.
    pub async fn update(&self, request: UpdateRequest) -> Result<UpdateResult, Error> {
        let UpdateRequest { updates, predicate, token } = request;
        let statement = Statement { updates: Some(updates), predicate };
        let rows_updated = Run::start(self, statement, token.as_ref()).await?;
        Ok(UpdateResult { rows_updated })
    }

    /// Deletes the rows a condition keeps, and waits until that is durable. Rows, retries, tokens and errors
    /// are as those of [`Table::update`].
    ///
    /// # Errors
    /// As [`Table::update`].
    pub async fn delete_where(
        &self,
        predicate: &str,
        token: Option<ClientToken>,
    ) -> Result<DeleteResult, Error> {
        let statement = Statement { updates: None, predicate: Some(predicate.to_owned()) };
        let num_deleted_rows = Run::start(self, statement, token.as_ref()).await?;
        Ok(DeleteResult { num_deleted_rows })
    }
}
