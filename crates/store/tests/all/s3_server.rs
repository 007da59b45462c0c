//! A real S3 server in a process of its own: moto's, from the Python environment.
//!
//! Started on a free loopback port, waited for with bounded tries, killed when dropped.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Starts moto's server with its conditional puts made atomic; says why.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/s3_server.py");
const BUCKET: &str = "headwater-test";
const KEY: &str = "test";
const REGION: &str = "us-east-1";
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
    pub async fn start() -> Self {
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
            if server.comes_up().await {
                return server;
            }
        }
        panic!("moto's server does not come up; is it installed in {}? run `make venv`", python.display());
    }

    /// Waits until the bucket could be created; false when the process ended.
    #[allow(clippy::disallowed_methods)]
    async fn comes_up(&mut self) -> bool {
        for _ in 0..TRIES {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if self.create_bucket().await.is_ok_and(|status| status == 200) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        false
    }

    /// `PUT /{bucket}`; the HTTP status.
    async fn create_bucket(&self) -> std::io::Result<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        // The server reads from the credential's scope which service is meant; it checks no signature.
        let scope = format!("Credential={KEY}/20250101/{REGION}/s3/aws4_request");
        let request = format!(
            "PUT /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok());
        status.ok_or_else(|| std::io::Error::other(answer))
    }

    /// The bucket.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        let store = AmazonS3Builder::new()
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_allow_http(true)
            .with_region(REGION)
            .with_bucket_name(BUCKET)
            .with_access_key_id(KEY)
            .with_secret_access_key(KEY)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .build()
            .unwrap();
        Arc::new(store)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `$HEADWATER_PYTHON`, else the workspace's `.venv`.
fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("HEADWATER_PYTHON") {
        return PathBuf::from(python);
    }
    let venv = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    assert!(
        venv.exists(),
        "no Python environment: set HEADWATER_PYTHON, or run `make venv`, which makes {}",
        venv.display()
    );
    venv
}
