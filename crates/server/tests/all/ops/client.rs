//! A small HTTP/1.1 client that does what tests need and real clients do not: stop in the middle.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// A reply.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The code of an error's body.
    pub fn code(&self) -> u64 {
        self.json()["code"].as_u64().unwrap()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &'_ str| {
            line.split_once(':').filter(|(known, _)| known.eq_ignore_ascii_case(name)).is_some()
        };
        let line = self.head.lines().find(|line| named(line))?;
        Some(line.split_once(':')?.1.trim())
    }
}

/// A connection that is kept.
pub struct Connection<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Sends a request and reads the reply; none when the connection is closed before a reply began.
    pub async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Reply> {
        self.begin(method, path, headers, body.len()).await.ok()?;
        self.write(body).await.ok()?;
        self.reply().await
    }

    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.try_send(method, path, headers, body).await.expect("a reply")
    }

    /// Sends the head of a request with a body of `length` bytes.
    pub async fn begin(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: usize,
    ) -> std::io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.write(head.as_bytes()).await
    }

    pub async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Reads a head; its body is left.
    pub async fn head(&mut self) -> Option<Reply> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if !self.fill().await {
                return None;
            }
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Reply { status, head, body: Vec::new() })
    }

    pub async fn reply(&mut self) -> Option<Reply> {
        let mut reply = self.head().await?;
        if let Some(length) = reply.header("content-length") {
            let length: usize = length.parse().unwrap();
            reply.body = self.take(length).await;
        } else {
            loop {
                let size = self.line().await;
                let size = usize::from_str_radix(&size, 16).unwrap();
                let chunk = self.take(size + 2).await;
                reply.body.extend(&chunk[..size]);
                if size == 0 {
                    break;
                }
            }
        }
        Some(reply)
    }

    /// Waits until the other side closes.
    pub async fn closed(&mut self) {
        while self.fill().await {}
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            assert!(self.fill().await, "the connection ended within a line");
        }
    }

    async fn take(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            assert!(self.fill().await, "the connection ended within a body");
        }
        self.buffer.drain(..length).collect()
    }

    async fn fill(&mut self) -> bool {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece).await {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.buffer.extend(&piece[..read]);
                true
            }
        }
    }
}
