//! A server as people start and stop it, and a client that sees what comes back of each request.

use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use serde_json::Value;

use crate::support::{HEADWATER, Home, run};

/// A reply that has not come by then never comes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that runs.
pub struct Serving {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub address: String,
    /// What was printed before it said where it listens.
    pub before: Vec<String>,
}

impl Serving {
    /// On any port that is free.
    pub fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut all = vec!["--port", "0"];
        all.extend(arguments);
        Self::of(home, &all)
    }

    /// Where another one was, on its data, without keys; quiet, for nobody reads its log.
    pub fn start_again(home: &Home, address: Option<&str>, arguments: &[&str]) -> Self {
        let port = address.map_or("0", |address| address.rsplit(':').next().unwrap());
        let mut all = vec!["--port", port, "--no-auth", "--no-fsync", "--set", "log.level=error"];
        all.extend(arguments);
        Self::of(home, &all)
    }

    fn of(home: &Home, arguments: &[&str]) -> Self {
        let mut child = Command::new(HEADWATER)
            .arg("serve")
            .args(arguments)
            .current_dir(home.path("."))
            .env_remove("HEADWATER_LOG")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut before = Vec::new();
        loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended: {:?}", child.wait_with_output());
            match line.trim_end().split_once(" at http://") {
                Some((_, address)) => {
                    return Self { child, stdout, address: address.to_owned(), before };
                }
                None => before.push(line.trim_end().to_owned()),
            }
        }
    }

    /// Status and body of a reply.
    pub fn get(&self, path: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
        (status, reply.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Number by id of each row of the table `t`, as a query tells it.
    pub fn rows(&self) -> Vec<(i64, i64)> {
        let query = r#"{ "k": 9223372036854775807, "vector": [] }"#;
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = "POST /v1/table/t/query/ HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
                    x-lancedb-database: db\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{query}", query.len()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let (head, mut chunks) = reply.split_at(end);
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply));
        let mut file = Vec::new();
        loop {
            let line = chunks.windows(2).position(|two| two == b"\r\n").unwrap();
            let size = usize::from_str_radix(std::str::from_utf8(&chunks[..line]).unwrap(), 16).unwrap();
            if size == 0 {
                break;
            }
            file.extend(&chunks[line + 2..line + 2 + size]);
            chunks = &chunks[line + 2 + size + 2..];
        }
        let mut rows = Vec::new();
        for batch in FileReader::try_new(Cursor::new(file), None).unwrap() {
            let batch = batch.unwrap();
            let column = |name| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().clone();
            let (ids, numbers) = (column("id"), column("n"));
            rows.extend(ids.values().iter().copied().zip(numbers.values().iter().copied()));
        }
        rows.sort_unstable();
        rows
    }

    /// As machines that stop do it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().code(), None, "SIGKILL, not an exit");
    }

    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
    }

    /// The exit code, and everything it has said since it began to serve.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    pub fn ended_by(self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        self.ended()
    }
}

impl Drop for Serving {
    /// A test that fails leaves no server behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that keeps its connection, as LanceDB's do.
pub struct Client {
    address: String,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub fn of(address: &str) -> Self {
        Self { address: address.to_owned(), connection: None }
    }

    /// Status and body of the reply; none when the connection was cut before all of it had come.
    pub fn post(&mut self, path: &str, id: &str, body: &[u8]) -> Option<(u16, Value)> {
        let reply = self.send(path, id, body).and_then(|()| self.reply());
        match reply {
            Ok(reply) => Some(reply),
            Err(error) => {
                assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "no reply to {path} within {PATIENCE:?}");
                self.connection = None;
                None
            }
        }
    }

    /// Sends a request and waits for nothing.
    pub fn send(&mut self, path: &str, id: &str, body: &[u8]) -> io::Result<()> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            self.connection = Some(BufReader::new(stream));
        }
        let stream = self.connection.as_mut().unwrap().get_mut();
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: test\r\nx-lancedb-database: db\r\nx-request-id: {id}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend(body);
        stream.write_all(&request)
    }

    fn reply(&mut self) -> io::Result<(u16, Value)> {
        let connection = self.connection.as_mut().unwrap();
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            if connection.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            match line.split_once(": ") {
                _ if line.is_empty() => break,
                Some(("content-length", bytes)) => length = bytes.parse().unwrap(),
                Some(_) => {}
                None => status = line.split(' ').nth(1).map(|status| status.parse().unwrap()),
            }
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body)?;
        Ok((status.unwrap(), serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// A request that is done.
    #[track_caller]
    pub fn done(&mut self, path: &str, body: &[u8]) -> Value {
        let (status, reply) = self.post(path, "setting-up", body).unwrap();
        assert_eq!(status, 200, "{path}: {reply}");
        reply
    }
}

/// Whether LanceDB's clients send a request again that was answered with this status.
pub fn is_sent_again(status: u16) -> bool {
    [409, 429, 500, 502, 503, 504].contains(&status)
}

/// These ids, the key, each with the number `n`, as clients send them.
pub fn rows(ids: impl IntoIterator<Item = i64>, n: i64) -> Vec<u8> {
    let marker = [("lance-schema:unenforced-primary-key:position".to_owned(), "1".to_owned())];
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false).with_metadata(marker.into()),
        Field::new("n", DataType::Int64, true),
    ]);
    let ids = Int64Array::from_iter_values(ids);
    let numbers = Int64Array::from_value(n, ids.len());
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(numbers)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

pub const UPSERT: &str =
    "/v1/table/t/merge_insert/?on=id&when_matched_update_all=true&when_not_matched_insert_all=true";

/// Makes the table `t` of these rows.
pub fn create(client: &mut Client, ids: Range<i64>) {
    client.done("/v1/table/t/create/?mode=create", &rows(ids, 0));
}

/// Gives it a write tier of so many shards.
pub fn enable(client: &mut Client, shards: u32) {
    let sharding = match shards {
        1 => serde_json::json!({ "mode": "unsharded" }),
        shards => serde_json::json!({ "mode": "bucket", "column": "id", "num_buckets": shards }),
    };
    let spec = serde_json::json!({ "sharding": sharding }).to_string();
    client.done("/v1/table/t/enable_rte/", spec.as_bytes());
}

/// Where that table is.
pub fn table(home: &Home) -> String {
    home.name("data/db/t.lance")
}

/// Number by id of each of its rows, as storage alone tells it.
pub fn stored(home: &Home) -> Vec<(i64, i64)> {
    let scanned = run(&["scan", &table(home), "--format", "json"]).ok().stdout;
    let mut rows: Vec<(i64, i64)> = scanned
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            (row["id"].as_i64().unwrap(), row["n"].as_i64().unwrap())
        })
        .collect();
    rows.sort_unstable();
    rows
}
