//! Storage options are known by name.

use headwater_lance::{storage_option_names, takes_storage_option};

const S3: &str = "s3://bucket/t.lance";

#[test]
fn every_name_that_is_suggested_is_taken() {
    for uri in [S3, "/data/t.lance", "memory://t.lance"] {
        for name in storage_option_names(uri) {
            assert!(takes_storage_option(uri, name), "{uri} takes {name}");
        }
    }
}

#[test]
fn s3_options_are_taken_with_and_without_their_prefix_and_in_any_case() {
    let taken = [
        "region",
        "aws_region",
        "AWS_REGION",
        "endpoint",
        "aws_endpoint_url",
        "access_key_id",
        "allow_http",
        "aws_allow_http",
        "timeout",
        "headers.x-request-id",
        "client_max_retries",
        "base_1.region",
    ];
    for name in taken {
        assert!(takes_storage_option(S3, name), "{name}");
    }
    for name in ["aws_regoin", "endpint", "headers", "base_1.regoin", ""] {
        assert!(!takes_storage_option(S3, name), "{name}");
    }
}

#[test]
fn local_tables_take_no_options_of_remote_stores() {
    for uri in ["/data/t.lance", "t.lance", "file:///data/t.lance"] {
        assert!(takes_storage_option(uri, "block_size"), "{uri}");
        assert!(!takes_storage_option(uri, "region") && !takes_storage_option(uri, "headers.a"), "{uri}");
    }
}
