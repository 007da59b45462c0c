//! A client that sends what it is told, whether it is HTTP or not.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No request takes so long; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request.
#[derive(Clone, Debug)]
pub struct Sent {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// A reply, or what there is of one.
#[derive(Clone, Debug, Default)]
pub struct Got {
    pub status: u16,
    pub body: Vec<u8>,
    /// Whether it came to its end.
    pub whole: bool,
}

impl Sent {
    pub fn post(path: &str) -> Self {
        let headers = vec![("x-lancedb-database".to_owned(), b"db".to_vec())];
        Self { method: "POST".into(), path: path.into(), query: String::new(), headers, body: Vec::new() }
    }

    fn target(&self) -> String {
        match self.query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }

    /// Whether it is HTTP at all.
    pub fn is_http(&self) -> bool {
        http::Uri::try_from(self.target()).is_ok()
            && self.target().starts_with('/')
            && self.target().len() < 60_000
            && http::Method::from_bytes(self.method.as_bytes()).is_ok()
            && self.headers.iter().all(|(name, value)| {
                http::HeaderName::try_from(name).is_ok() && http::HeaderValue::from_bytes(value).is_ok()
            })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes =
            format!("{} {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n", self.method, self.target())
                .into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", self.body.len()).as_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Sends a request and reads the reply to its end.
pub async fn ask(address: &str, sent: &Sent) -> Got {
    say(address, &sent.bytes()).await
}

/// Sends bytes and reads to the end. A server that misses some waits for them.
pub async fn say(address: &str, bytes: &[u8]) -> Got {
    talk(address, bytes, false).await
}

/// Sends bytes and no more, as a client that dies: what is missing will not come.
pub async fn say_and_end(address: &str, bytes: &[u8]) -> Got {
    talk(address, bytes, true).await
}

async fn talk(address: &str, bytes: &[u8], ends: bool) -> Got {
    let conversation = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut from, mut to) = stream.into_split();
        let mut read = Vec::new();
        let sending = async {
            // A server that has heard enough may close.
            if to.write_all(bytes).await.is_ok() {
                let _ = to.flush().await;
            }
            if ends {
                let _ = to.shutdown().await;
            }
        };
        // What was read before the connection broke is what there is.
        let reading = async {
            let _ = from.read_to_end(&mut read).await;
        };
        futures::join!(sending, reading);
        read
    };
    let read =
        tokio::time::timeout(PATIENCE, conversation).await.expect("a reply, or the end of the connection");
    parsed(&read)
}

fn parsed(read: &[u8]) -> Got {
    let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Got::default() };
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let rest = &read[end + 4..];
    if head.contains("transfer-encoding: chunked") {
        let (body, whole) = dechunked(rest);
        return Got { status, body, whole };
    }
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
    let whole = length.is_none_or(|length| rest.len() == length);
    Got { status, body: rest.to_vec(), whole }
}

fn dechunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|bytes| bytes == b"\r\n") else { return (body, false) };
        let length =
            std::str::from_utf8(&rest[..line]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let (Some(length), Some(chunk)) = (length, rest.get(line + 2..)) else { return (body, false) };
        if length == 0 {
            return (body, true);
        }
        let (Some(piece), Some(next)) = (chunk.get(..length), chunk.get(length + 2..)) else {
            return (body, false);
        };
        body.extend_from_slice(piece);
        rest = next;
    }
}

impl Got {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The text of an error, which has the form of one.
    pub fn error(&self) -> Result<String, String> {
        let body: Value = serde_json::from_slice(&self.body).map_err(|error| format!("no JSON: {error}"))?;
        match (body["error"].as_str(), body["code"].as_u64()) {
            (Some(text), Some(_)) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(format!("no error with a code: {body}")),
        }
    }
}
