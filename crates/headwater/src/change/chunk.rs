//! Keys of a statement, some at a time.
//!
//! Owns: [`Chunk`], a range of key hashes with the keys in it, and [`Chunks`], which cuts a stream of keys in
//! the order of their hashes into them. Keeps: keys of one hash are in one chunk, so ranges do not overlap.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use futures::TryStreamExt;
use headwater_format::key::KeySchema;
use headwater_query::{QueryError, SendableRecordBatchStream};

/// Keys to be decided about together.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// Ascending by hash.
    pub keys: RecordBatch,
    hashes: Vec<u64>,
    /// The range of hashes it covers.
    pub first: u64,
    /// Its end, inclusive.
    pub last: u64,
    /// How often it was decided about, in vain.
    pub tries: usize,
}

impl Chunk {
    /// Of the keys of `rows`, ascending by hash; each key once, where neighbours have the same.
    pub fn new(rows: &RecordBatch, key: &KeySchema) -> Result<Self, QueryError> {
        let keys = key.project(rows).map_err(failed)?;
        let encoded = key.encode(&keys).map_err(failed)?;
        let first_of_run = |row: usize| row == 0 || encoded.value(row) != encoded.value(row - 1);
        let once: BooleanArray = (0..encoded.len()).map(|row| Some(first_of_run(row))).collect();
        let keys = filter_record_batch(&keys, &once).map_err(failed)?;
        let hashes = key.hashes(&keys).map_err(failed)?;
        let range = |hash: Option<&u64>| hash.copied().unwrap_or_default();
        let (first, last) = (range(hashes.first()), range(hashes.last()));
        Ok(Self { keys, hashes, first, last, tries: 0 })
    }

    /// The keys of `rows`, which are some of its own in their order, to be decided about once more.
    pub fn again(&self, rows: &RecordBatch, key: &KeySchema) -> Result<Self, QueryError> {
        let Self { first, last, tries, .. } = *self;
        Ok(Self { first, last, tries: tries + 1, ..Self::new(rows, key)? })
    }

    /// Two chunks of about half its keys, which cover what it covers; itself when all keys have one hash.
    pub fn halves(self) -> Vec<Self> {
        let (Some(middle), Some(least)) = (self.hashes.get(self.hashes.len() / 2), self.hashes.first())
        else {
            return vec![self];
        };
        // Keys of one hash stay together, on the side where there are others.
        let cut = match middle > least {
            true => self.hashes.partition_point(|hash| hash < middle),
            false => self.hashes.partition_point(|hash| hash <= middle),
        };
        let Some(second) = self.hashes.get(cut).copied() else { return vec![self] };
        let (left, right) = self.hashes.split_at(cut);
        let part = |place: usize, hashes: &[u64], first: u64, last: u64| {
            let keys = self.keys.slice(place, hashes.len());
            Self { keys, hashes: hashes.to_vec(), first, last, tries: self.tries }
        };
        vec![part(0, left, self.first, second - 1), part(cut, right, second, self.last)]
    }
}

/// See the module.
pub(super) struct Chunks {
    keys: SendableRecordBatchStream,
    key: KeySchema,
    /// Read, and not handed out.
    next: Option<RecordBatch>,
}

impl Chunks {
    /// Of keys as [`headwater_query::ReadSnapshot::matching_keys`] gives them.
    pub async fn new(mut keys: SendableRecordBatchStream, key: &KeySchema) -> Result<Self, QueryError> {
        let next = keys.try_next().await?;
        Ok(Self { keys, key: key.clone(), next })
    }

    /// The next one.
    pub async fn next(&mut self) -> Result<Option<Chunk>, QueryError> {
        let Some(mut rows) = self.next.take() else { return Ok(None) };
        while let Some(more) = self.keys.try_next().await? {
            // Rows of the hash that `rows` end with belong to them.
            let hashes = self.key.hashes(&more).map_err(failed)?;
            let last = self.key.hashes(&rows.slice(rows.num_rows().saturating_sub(1), 1)).map_err(failed)?;
            let same = hashes.iter().take_while(|hash| last.first() == Some(hash)).count();
            if same > 0 {
                let schema = Arc::clone(rows.schema_ref());
                rows = concat_batches(&schema, [&rows, &more.slice(0, same)]).map_err(failed)?;
            }
            if same < more.num_rows() {
                self.next = Some(more.slice(same, more.num_rows() - same));
                break;
            }
        }
        Chunk::new(&rows, &self.key).map(Some)
    }

    /// Whether that was the last.
    pub fn ended(&self) -> bool {
        self.next.is_none()
    }
}

fn failed(error: impl std::fmt::Display) -> QueryError {
    QueryError::Execution { reason: error.to_string() }
}
