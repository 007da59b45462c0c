//! One run of an update or delete, from the first key to the last put. See the page of the module for how.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use futures::future::join_all;
use headwater_engine::error::ShardError;
use headwater_engine::shard::{Shard, WriteOptions as ShardOptions};
use headwater_engine::snapshot::ReadLevel;
use headwater_engine::table::TableError;
use headwater_format::coord::ShardId;
use headwater_format::key::KeySchema;
use headwater_format::token::ClientToken;
use headwater_query::{GetRequest, ReadSnapshot, Statement};

use super::chunk::{Chunk, Chunks};
use super::share::{RequestName, Share};
use crate::error::Error;
use crate::reading::Freshness;
use crate::table::Table;

/// Rows read at once at first, before it is known how large they are.
const FIRST_ROWS: usize = 1_024;
/// Rows read at once at most.
const MOST_ROWS: usize = 8_192;
/// Tries in vain after which a chunk is halved: fewer rows are less often written by others.
const HALVE_AFTER: usize = 4;
/// Tries at one row, each begun because another writer came between: one of them gets on each time.
const ATTEMPTS: usize = 100;

/// See the module.
pub(super) struct Run<'a> {
    table: &'a Table,
    key: &'a KeySchema,
    statement: Statement,
    name: Option<RequestName>,
    /// The puts of a request with a name that are known to be durable, whoever made them.
    known: BTreeSet<(ShardId, ClientToken)>,
    /// Rows written by a request without a name.
    written: u64,
    /// Rows to read at once: what they become fits into one put.
    fits: usize,
    /// Whether the request was found to be done.
    ended: bool,
}

/// New rows of one shard, or keys of its rows that go.
struct Part {
    shard: Arc<Shard>,
    rows: RecordBatch,
}

impl<'a> Run<'a> {
    /// Runs the statement; how many rows it is about.
    ///
    /// # Errors
    /// See [`Table::update`].
    pub async fn start(
        table: &'a Table,
        statement: Statement,
        token: Option<&ClientToken>,
    ) -> Result<u64, Error> {
        let Some(key) = table.key() else {
            let reason =
                "rows of a table without a key cannot be named, so they cannot be changed or deleted";
            return Err(Error::table(table.uri(), TableError::invalid(reason)));
        };
        // Before anything is opened; the columns may be others by the time rows are read.
        statement.plan(&table.schema(), key).map_err(|error| table.read_failed(error))?;
        let (name, fits) = (token.map(RequestName::of), FIRST_ROWS);
        let known = BTreeSet::new();
        let mut run = Self { table, key, statement, name, known, written: 0, fits, ended: false };
        run.look_everywhere().await?;
        if !run.ended {
            run.all_chunks().await?;
            run.look_everywhere().await?;
        }
        Ok(run.rows())
    }

    async fn all_chunks(&mut self) -> Result<(), Error> {
        let failed = |error| self.table.read_failed(error);
        let predicate = self.statement.predicate.as_deref();
        let keys = self.table.reading.matching_keys(predicate, MOST_ROWS).await?;
        let mut chunks = Chunks::new(keys, self.key).await.map_err(failed)?;
        let mut waiting = VecDeque::new();
        while !self.ended {
            let chunk = match waiting.pop_front() {
                Some(chunk) => chunk,
                None => match chunks.next().await.map_err(|error| self.table.read_failed(error))? {
                    Some(chunk) => chunk,
                    None => break,
                },
            };
            let last = waiting.is_empty() && chunks.ended();
            for left in self.change(chunk, last).await?.into_iter().rev() {
                waiting.push_front(left);
            }
        }
        Ok(())
    }

    /// Changes the rows of a chunk. What is handed back is left to do.
    async fn change(&mut self, chunk: Chunk, last: bool) -> Result<Vec<Chunk>, Error> {
        let chunk = match self.cut(chunk) {
            Ok(chunk) => chunk,
            Err(smaller) => return Ok(smaller),
        };
        // A snapshot vouches for the shards that are open here.
        self.table.open_for(&chunk.keys).await?;
        // Undurable rows too: what is made of them is written behind them, and lost with them if at all.
        let request = GetRequest { keys: chunk.keys.clone(), columns: None };
        let (snapshot, rows) =
            self.table.reading.get_at(ReadLevel::Pending, &request, Freshness::ACKNOWLEDGED).await?;
        let changed = self.changed(&rows)?;
        // Of a row that goes as well: a null takes as much room as a value where values are of fixed size.
        self.learn(&changed);
        let chunk = match self.cut(chunk) {
            Ok(chunk) => chunk,
            Err(smaller) => return Ok(smaller),
        };
        let changed = self.written_of(changed)?;
        let parts = self.parts(changed).await?;
        if self.ended {
            return Ok(Vec::new());
        }
        self.put_all(parts, &chunk, &snapshot, last).await
    }

    /// The chunk, if its rows can be read at once, or else smaller ones.
    fn cut(&self, chunk: Chunk) -> Result<Chunk, Vec<Chunk>> {
        if chunk.keys.num_rows() <= self.fits {
            return Ok(chunk);
        }
        let mut halves = chunk.halves();
        match (halves.pop(), halves.is_empty()) {
            (Some(only), true) => Ok(only),
            (second, _) => Err(halves.into_iter().chain(second).collect()),
        }
    }

    /// The rows that the statement is about, with their new values.
    fn changed(&self, rows: &RecordBatch) -> Result<RecordBatch, Error> {
        let failed = |error| self.table.read_failed(error);
        let plan = self.statement.plan(&rows.schema(), self.key).map_err(failed)?;
        plan.apply(rows).map_err(failed)
    }

    /// What is written of `changed`: whole rows, or the keys of those that go.
    fn written_of(&self, changed: RecordBatch) -> Result<RecordBatch, Error> {
        match self.statement.updates {
            Some(_) => Ok(changed),
            None => self.key.project(&changed).map_err(|error| self.refused(&error)),
        }
    }

    /// How many rows of this size fit into half a put.
    fn learn(&mut self, rows: &RecordBatch) {
        let settings = &self.table.shards.common().settings;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let most = count(settings.freeze.max_rows.into()).min(MOST_ROWS);
        if let Some(bytes) = rows.get_array_memory_size().checked_div(rows.num_rows()) {
            let fit = count(settings.wal.max_entry_bytes / 2) / bytes.max(1);
            self.fits = fit.clamp(1, most.max(1));
        }
    }

    /// By shard, without what the request is done with. Called after the rows were read: what another run of
    /// the request wrote before that is known here, and what it wrote since fails the condition.
    async fn parts(&mut self, changed: RecordBatch) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        for routed in self.table.router.split(changed)? {
            let shard = self.table.shards.of_value(&routed.value).await?;
            let done = self.look(&shard).await?;
            let rows = self.without(&done, routed.rows)?;
            if rows.num_rows() > 0 {
                parts.push(Part { shard, rows });
            }
        }
        Ok(parts)
    }

    /// `rows`, which ascend by the hash of their key, without those in the ranges of `done`, which ascend by
    /// their beginnings.
    fn without(&self, done: &[Share], rows: RecordBatch) -> Result<RecordBatch, Error> {
        if done.is_empty() {
            return Ok(rows);
        }
        let hashes = self.key.hashes(&rows).map_err(|error| self.refused(&error))?;
        let (mut begun, mut reached) = (done.iter().peekable(), None);
        let is_left = hashes.iter().map(|hash| {
            while let Some(share) = begun.next_if(|share| share.first <= *hash) {
                reached = reached.max(Some(share.last));
            }
            Some(reached < Some(*hash))
        });
        let is_left: BooleanArray = is_left.collect();
        filter_record_batch(&rows, &is_left).map_err(|error| self.refused(&error))
    }

    /// Writes the parts of a chunk. The very last put of a request says that it is: whoever finds it must
    /// find all others, so it waits for them.
    async fn put_all(
        &mut self,
        mut parts: Vec<Part>,
        chunk: &Chunk,
        snapshot: &ReadSnapshot,
        last: bool,
    ) -> Result<Vec<Chunk>, Error> {
        let held = if last && self.name.is_some() { parts.pop() } else { None };
        let mut left = self.put_some(&parts, chunk, snapshot, false).await?;
        match held {
            Some(held) if left.is_empty() => {
                left = self.put_some(&[held], chunk, snapshot, true).await?;
            }
            Some(held) => left.extend(self.again(chunk, &held)?),
            None => {}
        }
        Ok(left)
    }

    async fn put_some(
        &mut self,
        parts: &[Part],
        chunk: &Chunk,
        snapshot: &ReadSnapshot,
        ends: bool,
    ) -> Result<Vec<Chunk>, Error> {
        let puts = parts.iter().map(|part| self.put(part, chunk, snapshot, ends));
        let (mut left, mut first_error) = (Vec::new(), None);
        // All of them, whatever becomes of one: what was written is known then.
        for (part, outcome) in parts.iter().zip(join_all(puts).await) {
            match outcome {
                Ok(Some(token)) => drop(self.known.insert((part.shard.id(), token))),
                Ok(None) => self.written += part.rows.num_rows() as u64,
                Err(ShardError::ConditionFailed { .. }) => left.extend(self.again(chunk, part)?),
                Err(error) => {
                    first_error.get_or_insert_with(|| self.table.shards.shard_failed(part.shard.id(), error));
                }
            }
        }
        first_error.map_or(Ok(left), Err)
    }

    /// Writes one part; the token it went under.
    async fn put(
        &self,
        part: &Part,
        chunk: &Chunk,
        snapshot: &ReadSnapshot,
        ends: bool,
    ) -> Result<Option<ClientToken>, ShardError> {
        let Part { shard, rows } = part;
        let share = Share { first: chunk.first, last: chunk.last, rows: rows.num_rows() as u64, ends };
        let token = self.name.map(|name| name.token(&share)).transpose();
        let token = token.map_err(|error| ShardError::invalid(error.to_string()))?;
        let unchanged = Some(snapshot.unchanged(shard.id()));
        let options = ShardOptions { token: token.clone(), unchanged };
        match self.statement.updates {
            Some(_) => shard.put_with(rows.clone(), options).await?,
            None => shard.delete_with(rows.clone(), options).await?,
        };
        Ok(token)
    }

    /// The rows of `part`, which another writer came between, once more.
    fn again(&self, chunk: &Chunk, part: &Part) -> Result<Vec<Chunk>, Error> {
        let again = chunk.again(&part.rows, self.key).map_err(|error| self.table.read_failed(error))?;
        if again.tries > ATTEMPTS {
            let (table, rows) = (self.table.uri().to_owned(), again.keys.num_rows());
            return Err(Error::Contended { table, rows, attempts: again.tries });
        }
        Ok(if again.tries.is_multiple_of(HALVE_AFTER) { again.halves() } else { vec![again] })
    }

    /// Finds out what of the request is done already, on every shard there is.
    async fn look_everywhere(&mut self) -> Result<(), Error> {
        if self.name.is_none() {
            return Ok(());
        }
        self.table.open_shards().await?;
        for (_, shard) in self.table.shards.open_now() {
            self.look(&shard).await?;
        }
        Ok(())
    }

    /// What of the request is done, and durable, on one shard: ascending by the beginnings of the ranges.
    async fn look(&mut self, shard: &Shard) -> Result<Vec<Share>, Error> {
        let Some(name) = self.name else { return Ok(Vec::new()) };
        let beginning = name.beginning().map_err(|error| self.refused(&error))?;
        let failed = |error| self.table.shards.shard_failed(shard.id(), error);
        let tokens = shard.tokens(&beginning).await.map_err(failed)?;
        let shares: Vec<Share> = tokens.iter().filter_map(Share::of).collect();
        self.ended |= shares.iter().any(|share| share.ends);
        self.known.extend(tokens.into_iter().map(|token| (shard.id(), token)));
        Ok(shares)
    }

    /// Rows the request has changed, by this run or another.
    fn rows(&self) -> u64 {
        let known = self.known.iter().filter_map(|(_, token)| Share::of(token));
        self.written + known.map(|share| share.rows).sum::<u64>()
    }

    fn refused(&self, error: &dyn std::fmt::Display) -> Error {
        Error::table(self.table.uri(), TableError::invalid(error.to_string()))
    }
}
