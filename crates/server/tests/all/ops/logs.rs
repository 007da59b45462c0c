//! Every request has a line with its id; no line has a secret.

use std::io;
use std::sync::Arc;

use headwater_server::auth::{self, Auth, Keys};
use headwater_server::config::{Log, LogFormat};
use headwater_server::logs;
use parking_lot::Mutex;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use super::toy::{Running, config, env};

/// Where lines are caught.
#[derive(Clone, Default)]
pub struct Caught(Arc<Mutex<Vec<u8>>>);

impl Caught {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl io::Write for Caught {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Caught {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// What is logged at that level until the guard is dropped.
pub fn caught(format: LogFormat, level: &str) -> (Caught, tracing::subscriber::DefaultGuard) {
    let lines = Caught::default();
    let log = Log { format, level: level.to_owned() };
    let subscriber = logs::subscriber(&log, None, false, lines.clone()).unwrap();
    (lines, tracing::subscriber::set_default(subscriber))
}

#[tokio::test]
async fn a_request_leaves_one_line_with_its_id_its_route_and_its_end() {
    let (lines, _caught) = caught(LogFormat::Json, "info");
    let running = Running::start(config(|_| {}), Auth::Open).await;
    let mut connection = running.connect().await;
    let headers = [("x-request-id", "abc-123"), ("x-lancedb-database", "demo")];
    let reply = connection.send("POST", "/v1/table/flights/insert", &headers, b"rows").await;
    assert_eq!(reply.header("x-request-id"), Some("abc-123"));
    let text = lines.text();
    let line = text.lines().find(|line| line.contains("abc-123")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["span"]["id"], "abc-123");
    assert_eq!(line["span"]["path"], "\"/v1/table/flights/insert\"");
    assert_eq!(line["span"]["database"], "\"demo\"");
    assert_eq!((&line["method"], &line["status"]), (&"POST".into(), &200.into()));
    assert_eq!(line["route"], "/v1/table/{id}/insert");
    assert!(line["ms"].as_f64().unwrap() >= 0.0);
    assert_eq!(text.matches("answered").count(), 1, "{text}");
}

#[tokio::test]
async fn an_id_that_is_none_is_replaced() {
    let running = Running::start(config(|_| {}), Auth::Open).await;
    let mut connection = running.connect().await;
    let long = "x".repeat(129);
    for given in
        [vec![], vec![("x-request-id", "a b")], vec![("x-request-id", "é")], vec![("x-request-id", &*long)]]
    {
        let reply = connection.send("GET", "/v1/table/", &given, b"").await;
        let id = reply.header("x-request-id").unwrap();
        assert_eq!((id.len(), id.matches('-').count()), (36, 4), "{id}");
    }
}

#[tokio::test]
async fn a_panic_is_in_the_log_under_its_request() {
    let (lines, _caught) = caught(LogFormat::Text, "info");
    let running = Running::start(config(|_| {}), Auth::Open).await;
    let headers = [("x-request-id", "the-one-that-panics")];
    running.connect().await.send("POST", "/v1/table/t/panic/", &headers, b"").await;
    let text = lines.text();
    let line = text.lines().find(|line| line.contains("a text for the log only")).unwrap();
    assert!(line.contains("ERROR") && line.contains("the-one-that-panics"), "{line}");
}

#[tokio::test]
async fn no_secret_is_in_any_line_at_any_level() {
    for format in [LogFormat::Text, LogFormat::Json] {
        let (lines, _caught) = caught(format, "trace");
        let home = tempfile::tempdir().unwrap();
        let opened = auth::open(&home.path().join("keys.toml"), &env()).unwrap();
        let key = opened.first.unwrap();
        let running = Running::start(config(|_| {}), Auth::Keys(Keys::fixed(opened.keyring))).await;
        let mut connection = running.connect().await;
        let bearer = format!("Bearer {}", key.reveal());
        let wrong = "hw_thewrongkeyofsomebody";
        let (path, body) = ("/v1/table/t/insert/?secret=inthequery", b"rows-of-the-body".as_slice());
        for header in [("x-api-key", key.reveal()), ("authorization", &bearer), ("x-api-key", wrong)] {
            connection.send("POST", path, &[header], body).await;
        }
        let text = lines.text();
        assert!(text.contains("/v1/table/t/insert/") && text.contains("first"), "{text}");
        for secret in [&key.reveal()[3..], &wrong[3..], "inthequery", "rows-of-the-body"] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret}");
        }
    }
}

#[test]
fn a_level_that_is_none_is_refused() {
    let log = Log { format: LogFormat::Text, level: "headwater=loud".to_owned() };
    let refused = logs::subscriber(&log, None, false, io::sink).err().unwrap().to_string();
    assert!(refused.starts_with("log.level: ") && refused.contains("loud"), "{refused}");
}
