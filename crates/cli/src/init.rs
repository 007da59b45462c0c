//! `headwater init`: gives a Lance table a write tier, or creates a new table with a file's schema and one.

use arrow_schema::{DataType, Field, Schema};
use clap::Args;
use headwater::{Error, ShardSettings, Sharding, Table, TableError};

use crate::Global;
use crate::error::Failure;
use crate::input::{self, FileFormat};
use crate::output;
use crate::storage;

/// On an existing Lance table, or on a new one with the columns of a file.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Path or URI of the table
    table: String,
    /// Create the table, empty, with this file's columns (Parquet, Arrow; of NDJSON and CSV the first 10,000
    /// rows are looked at)
    #[arg(long, value_name = "FILE")]
    schema: Option<String>,
    /// Format of the schema file, when its name does not tell
    #[arg(long, value_enum, value_name = "FORMAT", requires = "schema")]
    input_format: Option<FileFormat>,
    /// What is between two values of a CSV schema file: one character, or tab
    #[arg(
        long,
        value_name = "CHARACTER",
        default_value = ",",
        requires = "schema",
        value_parser = input::csv_delimiter
    )]
    csv_delimiter: u8,
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
    if storage::has_scheme(&args.table, "memory") {
        return Err(Failure::usage(format!(
            "{} is in the memory of one process, and would be gone when this command ends: give a path or \
             an s3:// URI; memory:// is for programs that use the library",
            args.table
        )));
    }
    let sharding = sharding(args)?;
    let env = global.env();
    let options = global.open_options(&args.table, &env, ShardSettings::default())?;
    let table = match &args.schema {
        Some(file) => {
            let schema = schema_of(file, args)?;
            Table::create(&args.table, &schema, &args.key, &sharding, options).await?
        }
        None => Table::init(&args.table, &args.key, &sharding, options)
            .await
            .map_err(|error| missing(args, error))?,
    };
    table.close().await?;
    report(global, &table, args.schema.is_some())
}

/// The columns of the new table. Types that were only told from rows are shown: rows further on may be of
/// others.
fn schema_of(file: &str, args: &InitArgs) -> Result<Schema, Failure> {
    let file = input::local_path(file)?;
    let columns = input::columns_of(&file, args.input_format, args.csv_delimiter)?;
    let schema = for_table(&columns.schema, &args.key);
    if let Some(rows) = columns.told_from {
        let types = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
        output::note(&format!(
            "{}: types of the columns told from its first {}: {}",
            file.display(),
            output::counted(rows, "row"),
            types.collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(schema)
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

/// The columns of a file as those of a table: key columns take no nulls, views and dictionaries become plain
/// text and bytes, and the file's own metadata stays behind.
fn for_table(schema: &Schema, key: &[String]) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let nullable = field.is_nullable() && !key.contains(field.name());
        Field::new(field.name(), plain(field.data_type()), nullable)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// The type without what is only an encoding of the file.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain(values),
        other => other.clone(),
    }
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
        _ => Failure::Table(Box::new(error)),
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
