//! A server as people start and stop it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::{HEADWATER, Home, run};

/// A server that runs.
struct Serving {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
    /// What was printed before it said where it listens.
    before: Vec<String>,
}

impl Serving {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut child = Command::new(HEADWATER)
            .args(["serve", "--port", "0"])
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
    fn get(&self, path: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
        (status, reply.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Sends a signal, and tells the exit code and everything it has said since it began to serve.
    fn ended_by(mut self, signal: &str) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).unwrap();
        let output = self.child.wait_with_output().unwrap();
        said.push_str(&String::from_utf8(output.stderr).unwrap());
        (output.status.code(), said)
    }
}

#[test]
fn with_no_configuration_at_all_a_server_starts_shows_a_key_once_and_ends_in_order() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let key = server.before.iter().find_map(|line| line.strip_prefix("API key, shown this once: ")).unwrap();
    let key = key.to_owned();
    assert!(home.path("data/headwater-keys.toml").exists());
    assert_eq!(server.get("/healthz", "").0, 200);
    assert_eq!(server.get("/v1/table/", "").0, 401);
    let header = format!("x-api-key: {key}\r\n");
    assert_ne!(server.get("/v1/table/", &header).0, 401);
    assert_eq!(server.get("/metrics", &header).0, 200);
    let (code, said) = server.ended_by("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("SIGTERM: going down"), "{said}");
    assert!(!said.contains(&key[3..]), "not in the log");

    let again = Serving::start(&home, &[]);
    assert!(again.before.is_empty(), "the key is not shown again: {:?}", again.before);
    assert_ne!(again.get("/v1/table/", &header).0, 401);
    assert_eq!(again.ended_by("INT").0, Some(0));
}

#[test]
fn keys_are_added_and_listed() {
    let home = Home::new();
    let file = home.name("keys.toml");
    let all = run(&["key", "add", "--keys", &file, "all"]).ok().stdout;
    let some = run(&["key", "add", "--keys", &file, "dash", "--database", "demo", "--read-only"]).ok().stdout;
    run(&["key", "add", "--keys", &file, "dash"]).failed(1, &["dash", "another name"]);
    let list = run(&["key", "list", "--keys", &file]).ok().stdout;
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1..], [vec!["all", "all", "read", "and", "write"], vec!["dash", "demo", "read"]]);
    let server = Serving::start(&home, &["--keys", &file]);
    for key in [&all, &some] {
        let headers = format!("x-api-key: {}\r\nx-lancedb-database: demo\r\n", key.trim());
        assert!(![401, 403].contains(&server.get("/v1/table/", &headers).0));
    }
    let headers = format!("x-api-key: {}\r\nx-lancedb-database: other\r\n", some.trim());
    assert_eq!(server.get("/v1/table/", &headers).0, 403);
    assert_eq!(server.ended_by("TERM").0, Some(0));
}

#[test]
fn settings_come_from_file_and_flags_and_are_refused_by_name() {
    let home = Home::new();
    home.write("headwater.toml", "no_auth = true\ndata = 'from-the-file'\n");
    let server = Serving::start(&home, &["--set", "log.format=json", "--verbose"]);
    assert_eq!(server.get("/metrics", "").0, 200, "no key is needed");
    let (code, said) = server.ended_by("TERM");
    assert_eq!(code, Some(0));
    assert!(said.lines().any(|line| line.starts_with('{') && line.contains("/metrics")), "{said}");
    assert!(!home.path("from-the-file/headwater-keys.toml").exists());

    let config = home.write("broken.toml", "prot = 1\n");
    run(&["serve", "--config", &config]).failed(2, &["broken.toml", "prot", "near it are port"]);
    run(&["serve", "--config", &home.name("missing.toml")]).failed(1, &["missing.toml"]);
    run(&["serve", "--set", "limits.writes"]).failed(2, &["limits.writes", "NAME=VALUE"]);
    run(&["serve", "--no-auth", "--listen", "0.0.0.0"]).failed(2, &["no_auth", "0.0.0.0"]);
}
