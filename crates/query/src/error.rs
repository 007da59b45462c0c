//! Why a read could not be answered.

use datafusion::error::DataFusionError;
use headwater_engine::error::ShardError;
use headwater_engine::table::TableError;
use headwater_format::coord::{Generation, ShardId};
use headwater_lance::without_places;

/// Why a read could not be answered. Says what, where and what to do (P14).
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueryError {
    /// The filter is no SQL, names a column there is not, or compares what cannot be compared.
    #[error("filter {filter:?}: {reason}")]
    Filter {
        /// As it was given.
        filter: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A query that is no SQL, asks for what there is not, or does not only read.
    #[error("query: {reason}")]
    Sql {
        /// What is wrong, where, and what to do.
        reason: String,
    },
    /// A query needs more memory than it may use.
    #[error("the query needs more memory than it may use: {reason}")]
    Memory {
        /// Which step, and how much it asked for.
        reason: String,
    },
    /// A part of a request that cannot be answered.
    #[error("{field}: {reason}")]
    Request {
        /// The part, as it is called on the wire: `vector`, `vector_column`, `distance_type`, `columns`, …
        field: &'static str,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Row ids were asked for. Clients tell by the text that they have to use the key.
    #[error(
        "{asked}: a table with a write tier does not support with_row_id: a row has another id after it is \
         flushed, so use its key"
    )]
    RowIds {
        /// What asked for them.
        asked: String,
    },
    /// A search for text.
    #[error(
        "full_text_query: full-text search of a table with a write tier is not supported yet: filter with \
         LIKE, or search a table without one"
    )]
    FullText,
    /// What one table of several said.
    #[error("table {table}: {source}")]
    OfTable {
        /// Address of the table.
        table: String,
        /// What it said.
        source: Box<QueryError>,
    },
    /// A column that the table does not have.
    #[error("no column {column:?}: the table has {known}")]
    Column {
        /// As it was given.
        column: String,
        /// The columns there are.
        known: String,
    },
    /// What a column of an update is to become: the expression is no SQL, its values do not fit the column,
    /// or the column cannot be updated.
    #[error("column {column}: {reason}")]
    Assignment {
        /// The column.
        column: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Keys to look up that cannot be keys of the table.
    #[error("{reason}")]
    Keys {
        /// What is wrong with them.
        reason: String,
    },
    /// A shard does not serve the read.
    #[error("shard {shard}: {source}")]
    Shard {
        /// The shard.
        shard: ShardId,
        /// Why.
        #[source]
        source: Box<ShardError>,
    },
    /// Base and shard were looked at at different times, and generations between them are in neither: look
    /// again.
    #[error("shard {shard}: generation {missing} is neither in the base nor in the shard; read again")]
    Gap {
        /// The shard.
        shard: ShardId,
        /// The first generation that is missing.
        missing: Generation,
    },
    /// The base or an SSTable could not be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A step of the plan failed.
    #[error("the read failed: {reason}")]
    Execution {
        /// What the step said.
        reason: String,
    },
}

impl QueryError {
    pub(crate) fn shard(shard: ShardId, source: impl Into<ShardError>) -> Self {
        Self::Shard { shard, source: Box::new(source.into()) }
    }

    pub(crate) fn request(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Request { field, reason: reason.into() }
    }

    pub(crate) fn execution(error: impl std::fmt::Display) -> Self {
        Self::Execution { reason: without_places(&error.to_string()) }
    }

    /// Names the table, if there is one to name.
    pub(crate) fn of_table(self, table: Option<&str>) -> Self {
        match table {
            Some(table) => Self::OfTable { table: table.to_owned(), source: Box::new(self) },
            None => self,
        }
    }

    /// Whether trying again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Gap { .. } => true,
            Self::Table(error) => error.is_retryable(),
            Self::Shard { source, .. } => source.is_retryable(),
            Self::OfTable { source, .. } => source.is_retryable(),
            _ => false,
        }
    }
}

/// Carried through a plan as it is; [`From<DataFusionError>`] takes it out again.
impl From<QueryError> for DataFusionError {
    fn from(error: QueryError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        // What shared it may still hold it, so it is copied.
        match error.find_root() {
            DataFusionError::External(inner) => match inner.downcast_ref::<Self>() {
                Some(ours) => ours.clone(),
                None => Self::execution(inner),
            },
            DataFusionError::ResourcesExhausted(reason) => Self::Memory { reason: reason.clone() },
            root => Self::execution(root.strip_backtrace()),
        }
    }
}
