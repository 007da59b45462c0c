//! Which storage options the object store of a table takes.
//!
//! Owns: their names, and telling one nobody reads: Lance passes over it, so that a mistyped credential or
//! endpoint would come out as something else later. Does not own: their values. Names of S3 options are
//! those of `object_store`, which reads them; the rest is Lance's own.

use crate::location::scheme;

/// Read for every table, in any case of letters.
const ANYWHERE: [&str; 2] = ["block_size", "download_retry_count"];
/// Read for tables on a remote store, in any case of letters.
const REMOTE: [&str; 2] = ["client_max_retries", "client_retry_timeout"];
/// Read for tables on a remote store, as they are written here.
const REMOTE_EXACT: [&str; 13] = [
    "expires_at_millis",
    "lance_aimd_additive_increment",
    "lance_aimd_burst_capacity",
    "lance_aimd_decrease_factor",
    "lance_aimd_initial_rate",
    "lance_aimd_max_backoff_ms",
    "lance_aimd_max_rate",
    "lance_aimd_max_retries",
    "lance_aimd_min_backoff_ms",
    "lance_aimd_min_rate",
    "refresh_offset_millis",
    "use_opendal",
    "aws_provider_scheme",
];
/// Options of S3 by their full names, for suggestions: `object_store` takes each without `aws_` too.
const S3: [&str; 36] = [
    "allow_http",
    "allow_invalid_certificates",
    "aws_access_key_id",
    "aws_bucket",
    "aws_checksum_algorithm",
    "aws_conditional_put",
    "aws_container_authorization_token_file",
    "aws_container_credentials_full_uri",
    "aws_container_credentials_relative_uri",
    "aws_copy_if_not_exists",
    "aws_default_region",
    "aws_disable_tagging",
    "aws_endpoint",
    "aws_endpoint_url_s3",
    "aws_imdsv1_fallback",
    "aws_metadata_endpoint",
    "aws_region",
    "aws_request_payer",
    "aws_role_arn",
    "aws_role_session_name",
    "aws_s3_express",
    "aws_secret_access_key",
    "aws_server_side_encryption",
    "aws_session_token",
    "aws_skip_signature",
    "aws_sse_kms_key_id",
    "aws_unsigned_payload",
    "aws_virtual_hosted_style_request",
    "aws_web_identity_token_file",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "proxy_url",
    "timeout",
    "user_agent",
];
/// HTTP headers sent with every request: `headers.{name}`.
const HEADERS: &str = "headers.";

/// Whether somebody reads the option `name` when the table is at `uri`.
pub fn takes_storage_option(uri: &str, name: &str) -> bool {
    // Tables may have files in other places, each with options of its own: `base_{number}.{option}`.
    let name = lance_io::object_store::parse_base_scoped_key(name).map_or(name, |(_, name)| name);
    let lower = name.to_ascii_lowercase();
    let any_case = |names: &[&str]| names.contains(&lower.as_str());
    let remote = any_case(&REMOTE) || REMOTE_EXACT.contains(&name) || name.starts_with(HEADERS);
    any_case(&ANYWHERE) || (is_s3(uri) && (remote || is_s3_option(&lower)))
}

/// The options a table at `uri` takes, for people: every one, but not under every name it has.
pub fn storage_option_names(uri: &str) -> Vec<&'static str> {
    let mut names = ANYWHERE.to_vec();
    if is_s3(uri) {
        names.extend(REMOTE.iter().chain(&REMOTE_EXACT).chain(&S3));
    }
    names.sort_unstable();
    names
}

fn is_s3(uri: &str) -> bool {
    scheme(uri).is_some_and(|scheme| scheme == "s3")
}

#[cfg(feature = "aws")]
fn is_s3_option(name: &str) -> bool {
    name.parse::<object_store::aws::AmazonS3ConfigKey>().is_ok()
}

/// Without S3 no table is on it.
#[cfg(not(feature = "aws"))]
fn is_s3_option(_: &str) -> bool {
    false
}
