#![allow(clippy::unwrap_used)]

use super::*;

const TABLE: &str = "s3://bucket/table";

/// The reason for a refusal; none when the options are taken.
fn refusal(table: &str, pairs: &[&str], no_fsync: bool, environment: &[(&str, &str)]) -> Option<String> {
    let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
    let variable = |name: &str| {
        environment.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned())
    };
    match table_options(table, &pairs, no_fsync, variable) {
        Ok(_) => None,
        Err(Failure::Usage(reason)) => Some(reason),
        Err(other) => panic!("not a wrong usage: {other:?}"),
    }
}

#[test]
fn an_endpoint_without_encryption_has_to_be_allowed() {
    let http = "endpoint=http://localhost:9000";
    let refused = |pairs: &[&str], environment: &[(&str, &str)]| {
        let reason = refusal(TABLE, pairs, false, environment).unwrap();
        assert!(reason.contains("http://localhost:9000") && reason.contains("allow_http=true"), "{reason}");
    };
    refused(&[http], &[]);
    refused(&["AWS_ENDPOINT=http://localhost:9000"], &[]);
    refused(&[http, "allow_http=false"], &[]);
    refused(&[], &[("AWS_ENDPOINT_URL", "http://localhost:9000")]);
    for allowed in ["allow_http=true", "aws_allow_http=1"] {
        assert_eq!(refusal(TABLE, &[http, allowed], false, &[]), None);
    }
    assert_eq!(refusal(TABLE, &[http], false, &[("AWS_ALLOW_HTTP", "true")]), None);
    assert_eq!(refusal(TABLE, &["endpoint=https://localhost:9000"], false, &[]), None);
    // An option wins over the environment.
    let environment = [("AWS_ENDPOINT_URL", "http://localhost:9000")];
    assert_eq!(refusal(TABLE, &["endpoint=https://localhost"], false, &environment), None);
    assert_eq!(refusal("/data/table", &[], false, &environment), None, "a local table has no endpoint");
}

#[test]
fn no_fsync_is_for_local_tables() {
    for local in ["table", "/data/table", "file:///data/table", "FILE:///data/table"] {
        assert_eq!(refusal(local, &[], true, &[]), None, "{local}");
    }
    for remote in [TABLE, "memory://table"] {
        let reason = refusal(remote, &[], true, &[]).unwrap();
        assert!(reason.contains("--no-fsync") && reason.contains(remote), "{reason}");
    }
}

#[test]
fn a_storage_option_has_a_value() {
    assert!(refusal(TABLE, &["region"], false, &[]).unwrap().contains("KEY=VALUE"));
}
