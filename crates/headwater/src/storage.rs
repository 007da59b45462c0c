//! What the storage of a table is asked before the table is: option names, and whether the bucket is there.
//!
//! Owns: errors about both. Does not own: which names there are (`headwater-lance`).

use std::time::Duration;

use headwater_engine::table::TableError;
use headwater_lance::{
    Connection, TableOptions, bucket_is_missing, storage_option_names, takes_storage_option,
};
use headwater_store::env::EnvRef;
use strsim::damerau_levenshtein;

use crate::error::Error;
use crate::nearest::nearest;

/// How long a store that did not answer is asked about the bucket.
const PROBE: Duration = Duration::from_secs(5);
/// Prefix that most options of S3 may go without.
const AWS: &str = "aws_";

/// Refuses a storage option that nobody would read.
///
/// # Errors
/// [`Error::StorageOption`] with the names nearest to it.
pub(crate) fn check_options(uri: &str, options: &TableOptions) -> Result<(), Error> {
    let unknown = options.storage_options.keys().find(|name| !takes_storage_option(uri, name));
    let Some(name) = unknown else { return Ok(()) };
    let known = storage_option_names(uri).into_iter().map(str::to_owned).collect();
    let reason = format!(
        "{uri} takes no such option; near it are {}",
        nearest(known, |known| distance(&name.to_ascii_lowercase(), known))
    );
    Err(Error::StorageOption { name: name.clone(), reason })
}

fn distance(typed: &str, known: &str) -> usize {
    let short = |name: &str| name.strip_prefix(AWS).unwrap_or(name).to_owned();
    damerau_levenshtein(typed, known).min(damerau_levenshtein(&short(typed), &short(known)))
}

/// The table that was opened or created, or an error that says so when its whole bucket is missing.
pub(crate) async fn opened<T>(
    connection: &Connection,
    uri: &str,
    options: &TableOptions,
    env: &EnvRef,
    opened: Result<T, TableError>,
) -> Result<T, Error> {
    let is_missing = || async {
        tokio::select! {
            biased;
            is_missing = bucket_is_missing(connection, uri, options) => is_missing,
            () = env.sleep(PROBE) => false,
        }
    };
    match opened {
        Ok(table) => Ok(table),
        Err(TableError::NotFound { .. } | TableError::Unavailable { .. }) if is_missing().await => {
            let bucket = uri.split('/').nth(2).unwrap_or_default();
            Err(Error::table(
                uri,
                TableError::invalid(format!(
                    "there is no bucket {bucket}: create it, or check its name and the endpoint"
                )),
            ))
        }
        Err(error) => Err(Error::table(uri, error)),
    }
}
