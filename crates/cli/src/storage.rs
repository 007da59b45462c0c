//! How to reach a table's files, as the command line says it.
//!
//! Owns: reading `--storage-option` and `--no-fsync`, and refusing, before anything is touched, what cannot
//! be meant. Does not own: which options there are (the library knows, and refuses others by name).

use std::collections::BTreeMap;

use headwater::TableOptions;

use crate::error::Failure;

/// Names of the option for the endpoint of S3, in the order they are looked for. The first three are
/// environment variables too, in capitals.
const ENDPOINT: [&str; 5] =
    ["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint"];
/// Part of the names of the option that allows `http://`.
const ALLOW_HTTP: &str = "allow_http";
/// Environment variables that do.
const ALLOW_HTTP_VARIABLES: [&str; 3] =
    ["AWS_ALLOW_HTTP", "AZURE_STORAGE_ALLOW_HTTP", "AZURE_STORAGE_USE_HTTP"];

/// Options for the table at `table`. `variable` looks up an environment variable.
///
/// # Errors
/// [`Failure::Usage`] for a pair without a value, `--no-fsync` where nothing is synced, and an endpoint
/// without encryption that is not allowed.
pub fn table_options(
    table: &str,
    pairs: &[String],
    no_fsync: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<TableOptions, Failure> {
    if no_fsync && !is_local(table) {
        return Err(Failure::usage(format!(
            "--no-fsync is for tables on local disk, and {table} is none: its rows are acknowledged when the \
             store says that they are written; leave --no-fsync out"
        )));
    }
    let mut options = TableOptions { fsync: !no_fsync, ..TableOptions::default() };
    for pair in pairs {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--storage-option {pair}: a value is missing; write KEY=VALUE"))
        })?;
        options.storage_options.insert(name.trim().to_owned(), value.to_owned());
    }
    if has_scheme(table, "s3") {
        check_endpoint(&options.storage_options, variable)?;
    }
    Ok(options)
}

/// Whether the address of a table has this scheme.
pub fn has_scheme(table: &str, wanted: &str) -> bool {
    table.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case(wanted))
}

fn is_local(table: &str) -> bool {
    !table.contains("://") || has_scheme(table, "file")
}

/// Without the permission each request would fail, saying no more than that it could not be built.
fn check_endpoint(
    options: &BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    let option = |name: &&str| {
        options.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let endpoint = ENDPOINT
        .iter()
        .find_map(option)
        .or_else(|| ENDPOINT.iter().take(3).find_map(|name| variable(&name.to_ascii_uppercase())));
    let is_plain = |endpoint: &String| has_scheme(endpoint, "http");
    let Some(endpoint) = endpoint.filter(is_plain) else { return Ok(()) };
    let by_option = options
        .iter()
        .any(|(name, value)| name.to_ascii_lowercase().contains(ALLOW_HTTP) && is_truthy(value));
    let by_variable =
        || ALLOW_HTTP_VARIABLES.iter().any(|name| variable(name).is_some_and(|value| is_truthy(&value)));
    if by_option || by_variable() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the endpoint {endpoint} is not encrypted: allow that with --storage-option allow_http=true, or \
         write https://"
    )))
}

/// As Lance reads it.
fn is_truthy(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"].iter().any(|yes| yes.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests;
