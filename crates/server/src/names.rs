//! What clients call things, and where that lies on storage.
//!
//! Owns: [`DatabaseId`], [`TableId`], and which names there may be. No name leads out of the place of its
//! database: a name is one path segment of harmless characters. Tables are directories `{name}.lance` in the
//! directory of their database, as LanceDB itself keeps them; a prefix is a directory in it, a namespace one
//! that begins with `$`, which no other name does. Does not own: what is in these directories.

use crate::error::ApiError;

/// What joins the parts of a table's id, and alone is the root namespace.
const DELIMITER: char = '$';
/// What the directory of a table ends with.
pub const TABLE_SUFFIX: &str = ".lance";
/// The database of clients that name none.
pub const DEFAULT_DATABASE: &str = "default";
/// Bytes a name may have: file systems take 255, the suffix included.
const MAX_NAME_BYTES: usize = 200;
/// Namespaces within each other, and parts of a prefix.
const MAX_DEPTH: usize = 16;

/// A database, with the prefix and the namespace a client is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatabaseId {
    name: String,
    prefix: Vec<String>,
    namespace: Vec<String>,
}

/// A table of a database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId {
    database: DatabaseId,
    name: String,
}

impl DatabaseId {
    /// From the headers `x-lancedb-database` and `x-lancedb-database-prefix`.
    ///
    /// # Errors
    /// 400 for a name there may not be.
    pub fn parse(name: Option<&str>, prefix: Option<&str>) -> Result<Self, ApiError> {
        let name = name.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_DATABASE);
        check("the database", name)?;
        let prefix = prefix.unwrap_or_default().split('/').filter(|part| !part.is_empty());
        let prefix: Vec<String> = prefix.map(str::to_owned).collect();
        parts("the database prefix", &prefix)?;
        Ok(Self { name: name.to_owned(), prefix, namespace: Vec::new() })
    }

    /// The namespace with this id in the database; `$` is its root.
    ///
    /// # Errors
    /// 400 for a name there may not be.
    pub fn namespace(mut self, id: &str) -> Result<Self, ApiError> {
        self.namespace = split(id).map(str::to_owned).collect();
        parts("the namespace", &self.namespace)?;
        Ok(self)
    }

    /// The table with this id, namespaces first: `a$b$table`.
    ///
    /// # Errors
    /// 400 for a name there may not be.
    pub fn table(self, id: &str) -> Result<TableId, ApiError> {
        let (namespace, name) = id.rsplit_once(DELIMITER).unwrap_or(("", id));
        check("the table", name)?;
        Ok(TableId { database: self.namespace(namespace)?, name: name.to_owned() })
    }

    /// What keys are scoped by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path segments of its directory below the data directory.
    pub fn segments(&self) -> Vec<String> {
        let namespaces = self.namespace.iter().map(|name| format!("{DELIMITER}{name}"));
        [self.name.clone()].into_iter().chain(self.prefix.clone()).chain(namespaces).collect()
    }
}

impl TableId {
    /// The database it is in.
    pub fn database(&self) -> &DatabaseId {
        &self.database
    }

    /// Its name alone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path segments of its directory below the data directory.
    pub fn segments(&self) -> Vec<String> {
        let mut segments = self.database.segments();
        segments.push(format!("{}{TABLE_SUFFIX}", self.name));
        segments
    }
}

fn split(id: &str) -> impl Iterator<Item = &str> {
    id.split(DELIMITER).filter(|part| !part.is_empty())
}

fn parts(what: &str, parts: &[String]) -> Result<(), ApiError> {
    if parts.len() > MAX_DEPTH {
        return Err(ApiError::invalid(format!(
            "{what} has {} parts, at most {MAX_DEPTH} are kept",
            parts.len()
        )));
    }
    parts.iter().try_for_each(|part| check(what, part))
}

fn check(what: &str, name: &str) -> Result<(), ApiError> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "it is too long"
    } else if name.starts_with('.') {
        "it begins with a dot"
    } else if !name.chars().all(harmless) {
        "it has other characters than letters, digits, '_', '-' and '.'"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(64).collect();
    Err(ApiError::invalid(format!("{what} cannot be called {shown:?}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(id: &str) -> Result<TableId, ApiError> {
        DatabaseId::parse(Some("db"), Some("a/b"))?.table(id)
    }

    #[test]
    fn a_table_lies_in_the_directory_of_its_database() {
        assert_eq!(table("t").unwrap().segments(), ["db", "a", "b", "t.lance"]);
        assert_eq!(table("n$m$t").unwrap().segments(), ["db", "a", "b", "$n", "$m", "t.lance"]);
        assert_eq!(DatabaseId::parse(None, None).unwrap().segments(), [DEFAULT_DATABASE]);
        let root = DatabaseId::parse(Some("db"), None).unwrap().namespace("$").unwrap();
        assert_eq!(root.segments(), ["db"]);
    }

    #[test]
    fn no_name_leads_out_of_its_place() {
        let long = "x".repeat(201);
        for id in
            ["", "..", ".", "a/b", "../t", "a\\b", "a\0", "t\n", "ü", "a b", "a%2fb", "$", "..$t", &long]
        {
            assert_eq!(table(id).unwrap_err().status, 400, "{id:?}");
        }
        for (database, prefix) in [("..", ""), ("a/b", ""), ("$n", ""), ("db", "../x"), ("db", "a/./b")] {
            assert_eq!(DatabaseId::parse(Some(database), Some(prefix)).unwrap_err().status, 400);
        }
    }

    #[test]
    fn whatever_a_client_sends_a_path_segment_stays_one() {
        use rand::rngs::SmallRng;
        use rand::{Rng, SeedableRng};
        let chance = &mut SmallRng::seed_from_u64(1);
        let letters: Vec<char> = "ab.$/\\-_ %\0\nü\u{202e}~:".chars().collect();
        let mut kept = 0;
        for _ in 0..20_000 {
            let mut text = || -> String {
                (0..chance.random_range(0..7))
                    .map(|_| letters[chance.random_range(0..letters.len())])
                    .collect()
            };
            let (database, prefix, id) = (text(), text(), text());
            let Ok(database) = DatabaseId::parse(Some(&database), Some(&prefix)) else { continue };
            let Ok(table) = database.table(&id) else { continue };
            kept += 1;
            for segment in table.segments() {
                let name = segment.strip_prefix(DELIMITER).unwrap_or(&segment);
                let harmless = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                assert!(!name.is_empty() && !name.starts_with('.') && name.chars().all(harmless), "{id:?}");
            }
        }
        assert!(kept > 30, "{kept}");
    }
}
