//! `headwater init`: gives a Lance table a write tier, or creates a new table with a file's schema and one.

use arrow_schema::{DataType, Field, Schema};
use clap::Args;
use headwater::{Error, ShardSettings, Sharding, Table, TableError};

use crate::Global;
use crate::error::Failure;
use crate::input::{self, FileFormat};
use crate::output;

/// On an existing Lance table, or on a new one with the schema of a Parquet or NDJSON file.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Path or URI of the table
    table: String,
    /// Create the table, empty, with this file's columns (Parquet; of NDJSON the first 10,000 rows are looked
    /// at)
    #[arg(long, value_name = "FILE")]
    schema: Option<String>,
    /// Format of the schema file, when its name does not tell
    #[arg(long, value_enum, value_name = "FORMAT", requires = "schema")]
    input_format: Option<FileFormat>,
    /// Key columns, in order: a row replaces the older row of its key. Without a key the table is append-only
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    key: Vec<String>,
    /// Spread rows over N shards by the hash of a key column
    #[arg(long, value_name = "COLUMN:N", conflicts_with = "identity")]
    bucket: Option<String>,
    /// One shard for each value of a key column
    #[arg(long, value_name = "COLUMN")]
    identity: Option<String>,
}

pub async fn run(global: &Global, args: &InitArgs) -> Result<(), Failure> {
    let sharding = sharding(args)?;
    let env = global.env();
    let options = global.open_options(&args.table, &env, ShardSettings::default())?;
    let table = match &args.schema {
        Some(file) => {
            let file = input::local_path(file)?;
            let schema = for_table(&input::schema_of(&file, args.input_format)?, &args.key);
            Table::create(&args.table, &schema, &args.key, &sharding, options).await?
        }
        None => Table::init(&args.table, &args.key, &sharding, options)
            .await
            .map_err(|error| missing(args, error))?,
    };
    table.close().await?;
    report(global, &table, args.schema.is_some())
}

fn sharding(args: &InitArgs) -> Result<Sharding, Failure> {
    if let Some(column) = &args.identity {
        return Ok(Sharding::Identity { column: column.clone() });
    }
    let Some(bucket) = &args.bucket else { return Ok(Sharding::Unsharded) };
    let parsed = bucket.rsplit_once(':').and_then(|(column, n)| Some((column.to_owned(), n.parse().ok()?)));
    match parsed {
        Some((column, num_buckets)) => Ok(Sharding::Bucket { column, num_buckets }),
        None => Err(Failure::usage(format!("--bucket {bucket}: write COLUMN:N, as in customer:16"))),
    }
}

/// The columns of a file as those of a table: key columns take no nulls, views become plain text and bytes,
/// and the file's own metadata stays behind.
fn for_table(schema: &Schema, key: &[String]) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            other => other.clone(),
        };
        let nullable = field.is_nullable() && !key.contains(field.name());
        Field::new(field.name(), data_type, nullable)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// A table that is not there can be created, given a schema.
fn missing(args: &InitArgs, error: Error) -> Failure {
    match &error {
        Error::Table { source, .. } if matches!(**source, TableError::NotFound { .. }) => {
            Failure::usage(format!(
                "there is no Lance table at {}; to create one, give a file with its columns: --schema FILE",
                args.table
            ))
        }
        _ => Failure::Table(error),
    }
}

fn report(global: &Global, table: &Table, created: bool) -> Result<(), Failure> {
    let what = if created { "created" } else { "initialised" };
    let key: Vec<&str> =
        table.key().map(|key| key.columns().iter().map(|c| c.name.as_str()).collect()).unwrap_or_default();
    let key =
        if key.is_empty() { "no key (append-only)".to_owned() } else { format!("key {}", key.join(", ")) };
    let sharding = match &table.mem_wal().sharding {
        Sharding::Bucket { column, num_buckets } => format!("{num_buckets} shards by the hash of {column}"),
        Sharding::Identity { column } => format!("a shard for each value of {column}"),
        _ => "one shard".to_owned(),
    };
    output::line(&format!(
        "{what} {}: {}, {key}, {sharding}",
        table.uri(),
        output::counted(table.schema().fields().len() as u64, "column",)
    ))?;
    if global.no_fsync {
        output::line(output::NOT_SYNCED)?;
    }
    Ok(())
}
