//! Tables on a real S3 server (moto's, from the Python environment), and what goes wrong in front of one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Ended, Home, bare_command, python};

/// Starts moto's server with its conditional puts made atomic; says why.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/all/s3_server.py");
const BUCKET: &str = "headwater-cli";
/// Tries to reach the server, 100 ms apart: a cold Python on a busy machine takes its time.
const TRIES: u32 = 3_000;

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        // Somebody may take the port before the server does: then it exits, and another is tried.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new(python());
            command.args([SCRIPT, "-H", "127.0.0.1", "-p", &port.to_string()]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut server = Self { process: command.spawn().unwrap(), port };
            if server.comes_up() {
                return server;
            }
        }
        panic!("moto's server does not come up; is it installed? run `make venv`");
    }

    #[allow(clippy::disallowed_methods)]
    fn comes_up(&mut self) -> bool {
        for _ in 0..TRIES {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if self.create_bucket().is_ok_and(|answer| answer.contains(" 200 ")) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }

    /// `PUT /{bucket}`; the answer.
    fn create_bucket(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        // The server reads from the credential's scope which service is meant; it checks no signature.
        let scope = "Credential=test/20250101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let request = format!(
            "PUT /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 {scope}\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The command against this server, with nothing about AWS from the environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare_command(arguments);
        for option in
            [&format!("endpoint=http://127.0.0.1:{}", self.port), "allow_http=true", "region=us-east-1"]
        {
            command.args(["--storage-option", option]);
        }
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
            command.env_remove(name);
        }
        command.env("AWS_EC2_METADATA_DISABLED", "true").stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = self.command(arguments);
        for option in ["access_key_id=test", "secret_access_key=test"] {
            command.args(["--storage-option", option]);
        }
        Ended::of(command.output().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_table_on_s3_is_made_written_and_looked_at_and_what_is_missing_is_said() {
    let (server, home) = (Server::start(), Home::new());
    let file = home.parquet("rows.parquet", 0..20);
    let table = format!("s3://{BUCKET}/rows.lance");
    server.run(&["init", &table, "--schema", &file, "--key", "id"]).ok();
    server.run(&["ingest", &table, &file]).ok();
    let report = server.run(&["inspect", &table]).ok();
    assert!(report.stdout.contains("20 rows"), "{report:?}");

    let missing = "s3://headwater-missing/rows.lance";
    let no_bucket = ["no bucket headwater-missing", "create it"];
    server.run(&["inspect", missing]).failed(1, &no_bucket).without(&[".rs"]);
    server.run(&["init", missing, "--schema", &file, "--key", "id"]).failed(1, &no_bucket).without(&[".rs"]);
    let nothing = format!("s3://{BUCKET}/nothing.lance");
    server.run(&["inspect", &nothing]).failed(1, &["there is no Lance table at", &nothing]);

    let mut command = server.command(&["inspect", &table]);
    // No profile is found in an empty home.
    let ended = Ended::of(command.env("HOME", home.path("")).output().unwrap());
    ended.failed(1, &["no usable credentials", "aws_access_key_id"]).without(&[
        ".rs",
        "CredentialsNotLoaded",
        "Unhandled",
    ]);
}
