//! A real S3 server in a process of its own: moto's, from the Python environment.
//!
//! Started on a free loopback port, waited for with bounded tries, killed when dropped. The tests of other
//! crates name this file as a module of theirs, so it uses the standard library only.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::python::python;

/// Starts moto's server with its conditional puts made atomic; says why.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/all/s3_server.py");
/// The one bucket.
pub const BUCKET: &str = "headwater-test";
/// Access key and secret.
pub const KEY: &str = "test";
/// Its region.
pub const REGION: &str = "us-east-1";
/// Tries to reach the server, 100 ms apart: a cold Python on a busy machine takes its time.
const TRIES: u32 = 3_000;

/// The server process.
#[derive(Debug)]
pub struct S3Server {
    process: Child,
    port: u16,
}

impl S3Server {
    /// Starts a server and creates the bucket.
    ///
    /// # Panics
    /// Without the Python environment (run `make venv`), or when the server does not come up.
    pub fn start() -> Self {
        let python = python();
        // The port is free when it is chosen. Somebody may take it before the server does: then it exits, and
        // another is tried.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let process = Command::new(&python)
                .args([SCRIPT, "-H", "127.0.0.1", "-p", &port.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("cannot start {}: {error}", python.display()));
            let mut server = Self { process, port };
            if server.comes_up() {
                return server;
            }
        }
        panic!("moto's server does not come up; is it installed in {}? run `make venv`", python.display());
    }

    /// Waits until the bucket could be created; false when the process ended.
    #[allow(clippy::disallowed_methods)]
    fn comes_up(&mut self) -> bool {
        for _ in 0..TRIES {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if self.create_bucket().is_ok_and(|status| status == 200) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }

    /// `PUT /{bucket}`; the HTTP status.
    fn create_bucket(&self) -> std::io::Result<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        // The server reads from the credential's scope which service is meant; it checks no signature.
        let scope = format!("Credential={KEY}/20250101/{REGION}/s3/aws4_request");
        let request = format!(
            "PUT /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok());
        status.ok_or_else(|| std::io::Error::other(answer))
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
