//! Tables on a real S3 server (moto's, from the Python environment), and what goes wrong in front of one.

use std::process::{Command, Stdio};

use crate::s3_server::{BUCKET, KEY, REGION, S3Server};
use crate::support::{Ended, Home, bare_command};

/// The command against this server, with nothing about AWS from the environment.
fn command(server: &S3Server, arguments: &[&str]) -> Command {
    let mut command = bare_command(arguments);
    let (endpoint, region) = (format!("endpoint={}", server.endpoint()), format!("region={REGION}"));
    for option in [&endpoint, "allow_http=true", &region] {
        command.args(["--storage-option", option]);
    }
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
        command.env_remove(name);
    }
    command.env("AWS_EC2_METADATA_DISABLED", "true").stdin(Stdio::null());
    command
}

fn run(server: &S3Server, arguments: &[&str]) -> Ended {
    let mut command = command(server, arguments);
    for name in ["access_key_id", "secret_access_key"] {
        command.args(["--storage-option", &format!("{name}={KEY}")]);
    }
    Ended::of(command.output().unwrap())
}

#[test]
fn a_table_on_s3_is_made_written_and_looked_at_and_what_is_missing_is_said() {
    let (server, home) = (S3Server::start(), Home::new());
    let file = home.parquet("rows.parquet", 0..20);
    let table = format!("s3://{BUCKET}/rows.lance");
    run(&server, &["init", &table, "--schema", &file, "--key", "id"]).ok();
    run(&server, &["ingest", &table, &file]).ok();
    let report = run(&server, &["inspect", &table]).ok();
    assert!(report.stdout.contains("20 rows"), "{report:?}");

    let missing = "s3://headwater-missing/rows.lance";
    let no_bucket = ["no bucket headwater-missing", "create it"];
    run(&server, &["inspect", missing]).failed(1, &no_bucket).without(&[".rs"]);
    run(&server, &["init", missing, "--schema", &file, "--key", "id"])
        .failed(1, &no_bucket)
        .without(&[".rs"]);
    let nothing = format!("s3://{BUCKET}/nothing.lance");
    run(&server, &["inspect", &nothing]).failed(1, &["there is no Lance table at", &nothing]);

    let mut command = command(&server, &["inspect", &table]);
    // No profile is found in an empty home.
    let ended = Ended::of(command.env("HOME", home.path("")).output().unwrap());
    ended.failed(1, &["no usable credentials", "aws_access_key_id"]).without(&[
        ".rs",
        "CredentialsNotLoaded",
        "Unhandled",
    ]);
}
