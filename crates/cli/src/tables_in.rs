//! The tables a query names: `--table NAME=LOCATION`, or one location alone.
//!
//! Owns: [`TablesArgs`], names of tables. Does not own: queries (`headwater::SqlSession`).

use std::collections::BTreeSet;

use clap::Args;
use headwater::{Error, ReadLevel, ShardSettings, SqlSession, SqlSettings, Table};

use crate::Global;
use crate::error::Failure;

/// What a query is, and what it is asked of.
#[derive(Debug, Args)]
pub struct TablesArgs {
    /// One query, as in "SELECT origin, count(*) FROM flights GROUP BY origin"
    #[arg(value_name = "SQL")]
    pub query: String,
    /// Path or URI of a table, called by the last part of it without what follows the first dot
    #[arg(value_name = "TABLE")]
    table: Option<String>,
    /// A table and what the query calls it; may be repeated. A name that is not in double quotes in the query
    /// is taken for lower case
    #[arg(long = "table", value_name = "NAME=TABLE")]
    tables: Vec<String>,
    /// Memory the query may use, in MiB; what does not fit goes to temporary files
    #[arg(long, value_name = "MIB", default_value = "1024")]
    memory: std::num::NonZeroU32,
}

impl TablesArgs {
    /// Opens the tables, and looks at each as it is now.
    pub async fn session(&self, global: &Global) -> Result<SqlSession, Failure> {
        let memory_bytes = usize::try_from(self.memory.get()).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        let session = SqlSession::new(&SqlSettings { memory_bytes }).map_err(Error::from)?;
        for (name, location) in self.named()? {
            let options = global.open_options(location, &global.env(), ShardSettings::default())?;
            let table = Table::open(location, options).await?;
            let snapshot = table.read(ReadLevel::Durable).await?;
            session.register(&name, &snapshot).map_err(Error::from)?;
        }
        Ok(session)
    }

    /// Names and locations.
    fn named(&self) -> Result<Vec<(String, &str)>, Failure> {
        let alone = self.table.iter().map(|location| (None, location.as_str()));
        let named = self.tables.iter().map(|table| split(table));
        let mut taken = BTreeSet::new();
        let named = alone.chain(named).map(|(name, location)| {
            let name = name.map_or_else(|| called(location), str::to_owned);
            if name.is_empty() {
                let reason = format!("{location:?} says no name: write --table NAME={location}");
                return Err(Failure::usage(reason));
            }
            if !taken.insert(name.clone()) {
                let reason = format!("two tables are called {name}: name one with --table NAME={location}");
                return Err(Failure::usage(reason));
            }
            Ok((name, location))
        });
        named.collect()
    }
}

/// Name and location of `NAME=TABLE`; a path may have an equals sign too, behind something that is no name.
fn split(table: &str) -> (Option<&str>, &str) {
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.is_empty();
    match table.split_once('=') {
        Some((name, location)) if is_name(name) => (Some(name), location),
        _ => (None, table),
    }
}

/// What a table is called by its location: `s3://bucket/a/flights.lance/` is `flights`.
fn called(location: &str) -> String {
    let path = location.trim_end_matches(['/', '\\']);
    let last = path.rsplit(['/', '\\']).next().unwrap_or(path);
    last.split('.').next().unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_called_by_the_last_part_of_its_location() {
        for (location, name) in [
            ("flights", "flights"),
            ("./data/flights.lance/", "flights"),
            ("s3://bucket/Flights 2013.v2.lance", "Flights 2013"),
            ("..", ""),
            ("/", ""),
        ] {
            assert_eq!(called(location), name, "{location}");
        }
    }

    #[test]
    fn a_name_stands_before_the_first_equals_sign_if_it_is_one() {
        assert_eq!(split("f=./a=b/t.lance"), (Some("f"), "./a=b/t.lance"));
        assert_eq!(split("./a=b/t.lance"), (None, "./a=b/t.lance"));
        assert_eq!(split("t.lance"), (None, "t.lance"));
        assert_eq!(split("=t.lance"), (None, "=t.lance"));
    }
}
