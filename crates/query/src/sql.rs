//! SQL over snapshots of tables.
//!
//! Owns: [`SqlSession`]: which tables a query may name, that it only reads, and how much memory it may use.
//! Does not own: SQL itself (DataFusion plans and runs it), or what a table gives (`provider`). No panic of
//! planning or running reaches the caller (P14), and what nests too deep is refused before it is planned.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, displayable, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
use futures::{FutureExt, StreamExt, TryStreamExt, future};
use headwater_lance::without_places;

use crate::bounded::bounded;
use crate::depth::check_depth;
use crate::error::QueryError;
use crate::snapshot::ReadSnapshot;

/// Stack for planning: several times what the deepest query that is not refused takes.
const PLANNING_STACK_BYTES: usize = 64 << 20;

/// What queries of a session may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlSettings {
    /// Bytes all sorts, joins and aggregates of the session may hold at once. What does not fit is written to
    /// temporary files, where it can be.
    pub memory_bytes: usize,
}

impl Default for SqlSettings {
    fn default() -> Self {
        Self { memory_bytes: 1 << 30 }
    }
}

/// Tables by name, and queries over them. Each table is read as its snapshot was taken (P6).
#[derive(Clone)]
pub struct SqlSession {
    context: SessionContext,
}

impl std::fmt::Debug for SqlSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlSession").field("tables", &self.tables()).finish()
    }
}

impl SqlSession {
    /// Without tables.
    ///
    /// # Errors
    /// [`QueryError::Execution`] when there is no place for temporary files.
    pub fn new(settings: &SqlSettings) -> Result<Self, QueryError> {
        let config = SessionConfig::new().with_information_schema(true);
        Ok(Self { context: bounded(config, settings.memory_bytes)? })
    }

    /// Lets queries name `snapshot`. Names are told apart by case; SQL takes one that is not in double quotes
    /// for lower case.
    ///
    /// # Errors
    /// [`QueryError::Sql`] when the name is empty or taken.
    pub fn register(&self, name: &str, snapshot: &ReadSnapshot) -> Result<(), QueryError> {
        let table = TableReference::bare(name);
        if name.is_empty() {
            return Err(sql("a table needs a name"));
        }
        if self.context.table_exist(table.clone())? {
            return Err(sql(format!("two tables are called {name:?}: give them different names")));
        }
        self.context.register_table(table, snapshot.provider())?;
        Ok(())
    }

    /// The names of its tables, in their order.
    pub fn tables(&self) -> Vec<String> {
        let state = self.context.state();
        let options = &state.config().options().catalog;
        let catalog = state.catalog_list().catalog(&options.default_catalog);
        let schema = catalog.and_then(|catalog| catalog.schema(&options.default_schema));
        let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// Streams the rows of one query. Dropping the stream stops the work.
    ///
    /// # Errors
    /// [`QueryError::Sql`] when it cannot be planned or does not only read; otherwise as
    /// [`ReadSnapshot::scan`]. The stream's own errors are `QueryError`s too ([`QueryError::Memory`] among
    /// them): convert them with `QueryError::from`.
    pub async fn sql(&self, text: &str) -> Result<SendableRecordBatchStream, QueryError> {
        let state = self.context.state();
        let plan = planned(self.physical(&state, text)).await?;
        Ok(guarded(execute_stream(plan, state.task_ctx())?))
    }

    /// The plan of one query, for people: its steps, the sources of each table, how many of their rows are
    /// hidden, and which filters they apply themselves. Nothing is read but what planning needs.
    ///
    /// # Errors
    /// As [`SqlSession::sql`].
    pub async fn explain(&self, text: &str) -> Result<String, QueryError> {
        let plan = planned(self.physical(&self.context.state(), text)).await?;
        Ok(displayable(plan.as_ref()).indent(false).to_string())
    }

    async fn physical(&self, state: &SessionState, text: &str) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
        let plan = self.logical(state, text).await?;
        // Sources are opened while it is planned, so this can fail as a read does.
        state.create_physical_plan(&plan).await.map_err(planning)
    }

    async fn logical(&self, state: &SessionState, text: &str) -> Result<LogicalPlan, QueryError> {
        let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().map_err(sql)?;
        check_depth(&tokens).map_err(sql)?;
        let dialect = state.config().options().sql_parser.dialect;
        let statement = state.sql_to_statement(text, &dialect).map_err(planning)?;
        if !only_reads(&statement) {
            let what = "queries read: SELECT, WITH, VALUES, EXPLAIN, SHOW or DESCRIBE";
            return Err(sql(format!("{what}; tables are written with `put` and `delete`")));
        }
        for name in state.resolve_table_references(&statement).map_err(planning)? {
            self.check_name(state, &name)?;
        }
        let plan = state.statement_to_plan(statement).await.map_err(planning)?;
        let reading =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        reading.verify_plan(&plan).map_err(planning)?;
        Ok(plan)
    }

    fn check_name(&self, state: &SessionState, name: &TableReference) -> Result<(), QueryError> {
        let known = self.context.table_exist(name.clone()).unwrap_or(false);
        if known || state.table_functions().contains_key(name.table()) {
            return Ok(());
        }
        let tables = self.tables();
        let quoted = tables.iter().find(|table| table.eq_ignore_ascii_case(name.table()));
        let hint =
            quoted.map(|table| format!("; write it in double quotes: \"{table}\"")).unwrap_or_default();
        let tables = if tables.is_empty() { "no tables".to_owned() } else { tables.join(", ") };
        Err(sql(format!("there is no table {:?}, there is {tables}{hint}", name.to_string())))
    }
}

/// Whether the statement is one that reads. What it reads from is checked when it is planned.
fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Explain(explain) => only_reads(&explain.statement),
        Statement::Statement(statement) => matches!(
            **statement,
            SqlStatement::Query(_)
                | SqlStatement::ExplainTable { .. }
                | SqlStatement::ShowTables { .. }
                | SqlStatement::ShowColumns { .. }
                | SqlStatement::ShowVariable { .. }
                | SqlStatement::ShowFunctions { .. }
        ),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => false,
    }
}

fn sql(reason: impl ToString) -> QueryError {
    QueryError::Sql { reason: without_places(&reason.to_string()) }
}

/// An error of planning: the query's fault, unless a table said it.
fn planning(error: DataFusionError) -> QueryError {
    match error.find_root() {
        DataFusionError::External(_) | DataFusionError::ResourcesExhausted(_) => error.into(),
        DataFusionError::SQL(parser, _) => match parser.as_ref() {
            ParserError::RecursionLimitExceeded => sql("it nests too deep: write it in several parts"),
            ParserError::ParserError(reason) | ParserError::TokenizerError(reason) => sql(reason),
        },
        root => sql(root.message()),
    }
}

/// Waits for a plan; a panic of the planner is an error. Parsers and planners walk by recursion, with frames
/// that a thread of the caller's has no room for in an unoptimised build, so they get a stack of their own.
pub(crate) async fn planned<T>(
    plan: impl Future<Output = Result<T, QueryError>> + Send,
) -> Result<T, QueryError> {
    let mut plan = Box::pin(AssertUnwindSafe(plan).catch_unwind());
    let planned = poll_fn(move |context| {
        stacker::maybe_grow(PLANNING_STACK_BYTES, PLANNING_STACK_BYTES, || plan.as_mut().poll(context))
    });
    match planned.await {
        Ok(plan) => plan,
        Err(_panic) => Err(sql("it cannot be planned: write it in another way")),
    }
}

/// `rows`; a panic of a step is an error and the end.
pub(crate) fn guarded(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = AssertUnwindSafe(rows).catch_unwind().map(|polled| {
        polled.unwrap_or_else(|_panic| {
            let reason = "a step of the query panicked: please report the query".to_owned();
            Err(QueryError::Execution { reason }.into())
        })
    });
    // A stream that panicked must not be polled again; `catch_unwind` ends it.
    let rows = rows.try_filter(|batch: &RecordBatch| future::ready(batch.num_rows() > 0));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
