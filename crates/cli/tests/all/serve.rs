//! A server as people start and stop it.

use crate::serving::Serving;
use crate::support::{Home, run};

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
