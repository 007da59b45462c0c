//! Keys: made once, kept as hashes, asked for with every request.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use headwater_server::auth::{self, ApiKey, Auth, Databases, Keyring, Keys};
use headwater_server::config::LogFormat;
use tempfile::TempDir;

use super::logs::caught;
use super::toy::{Running, config, env};
use super::wait::eventually;

fn file(home: &TempDir) -> PathBuf {
    home.path().join("data/keys.toml")
}

#[test]
fn the_first_start_makes_a_key_and_keeps_its_hash_only() {
    let home = tempfile::tempdir().unwrap();
    let opened = auth::open(&file(&home), &env()).unwrap();
    let key = opened.first.unwrap();
    assert!(opened.keyring.identify(key.reveal().as_bytes()).is_some());
    let text = fs::read_to_string(file(&home)).unwrap();
    assert!(!text.contains(&key.reveal()["hw_".len()..]), "{text}");
    assert_eq!(fs::metadata(file(&home)).unwrap().permissions().mode() & 0o777, 0o600);
    let again = auth::open(&file(&home), &env()).unwrap();
    assert!(again.first.is_none());
    assert_eq!(again.keyring.identify(key.reveal().as_bytes()).unwrap().name, "first");
    let beside = fs::read_dir(file(&home).parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "nothing is left of the writing");
}

#[test]
fn servers_that_start_at_once_make_one_first_key() {
    let home = tempfile::tempdir().unwrap();
    let start = std::sync::Barrier::new(8);
    let opened: Vec<_> = std::thread::scope(|scope| {
        let open = || {
            start.wait();
            auth::open(&file(&home), &env()).unwrap()
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let made: Vec<&ApiKey> = opened.iter().filter_map(|opened| opened.first.as_ref()).collect();
    assert_eq!(made.len(), 1);
    for one in &opened {
        assert!(one.keyring.identify(made[0].reveal().as_bytes()).is_some());
    }
}

#[test]
fn added_keys_work_beside_the_first_and_each_name_is_used_once() {
    let home = tempfile::tempdir().unwrap();
    let first = auth::open(&file(&home), &env()).unwrap().first.unwrap();
    let some = Databases::List(["demo".to_owned()].into());
    let key = auth::add(&file(&home), "reader", some.clone(), false, &env()).unwrap();
    let text = auth::add(&file(&home), "reader", Databases::All, true, &env()).unwrap_err().to_string();
    assert!(text.contains("reader"), "{text}");
    let keyring = auth::list(&file(&home)).unwrap();
    let found = keyring.identify(key.reveal().as_bytes()).unwrap();
    assert_eq!((found.name.as_str(), found.databases, found.may_write), ("reader", some, false));
    assert!(keyring.identify(first.reveal().as_bytes()).is_some());
    assert_eq!(fs::metadata(file(&home)).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_keys_file_that_is_none_stops_the_start_and_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(file(&home).parent().unwrap()).unwrap();
    for text in [
        "[[keys]]\nname = 'x'\n",
        "keys = 3",
        "[[keys]]\nname='x'\nsha256='zz'\ndatabases='all'\nwrite=true\n",
    ] {
        fs::write(file(&home), text).unwrap();
        let error = auth::open(&file(&home), &env()).unwrap_err().to_string();
        assert!(error.contains("keys.toml"), "{error}");
        assert_eq!(fs::read_to_string(file(&home)).unwrap(), text);
    }
}

/// A server with one key for everything, and one for reading one database.
async fn guarded() -> (Running, ApiKey, ApiKey) {
    let home = tempfile::tempdir().unwrap();
    let all = auth::open(&file(&home), &env()).unwrap().first.unwrap();
    let some = Databases::List(["demo".to_owned()].into());
    let reader = auth::add(&file(&home), "reader", some, false, &env()).unwrap();
    let keyring = auth::list(&file(&home)).unwrap();
    let running =
        Running::start(config(|config| config.no_auth = false), Auth::Keys(Keys::fixed(keyring))).await;
    (running, all, reader)
}

#[tokio::test]
async fn without_a_known_key_nothing_is_answered_but_health() {
    let (running, all, _) = guarded().await;
    let mut connection = running.connect().await;
    let (rest, last) = all.reveal().split_at(all.reveal().len() - 1);
    let almost = format!("{rest}{}", if last == "0" { "1" } else { "0" });
    for headers in [
        vec![],
        vec![("x-api-key", "")],
        vec![("x-api-key", "hw_wrong")],
        vec![("x-api-key", almost.as_str())],
        vec![("authorization", "Bearer hw_wrong")],
        vec![("authorization", "Basic dXNlcjpwYXNz")],
    ] {
        for (method, path) in [("GET", "/v1/table/"), ("POST", "/v1/table/t/insert/"), ("GET", "/metrics")] {
            let reply = connection.send(method, path, &headers, b"").await;
            assert_eq!((reply.status, reply.code()), (401, 16), "{path} {headers:?}");
        }
    }
    assert_eq!(connection.send("GET", "/nowhere", &[], b"").await.status, 401);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(connection.send("GET", path, &[], b"").await.status, 200, "{path}");
    }
    assert_eq!(running.toy.written.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_key_is_taken_from_either_header_and_goes_no_further() {
    let (running, all, _) = guarded().await;
    let mut connection = running.connect().await;
    let bearer = format!("Bearer {}", all.reveal());
    for header in [("x-api-key", all.reveal()), ("authorization", bearer.as_str())] {
        let reply = connection.send("POST", "/v1/table/t/describe/", &[header], b"").await;
        assert_eq!(reply.status, 200);
        assert!(reply.text().contains("name: \"first\""), "{}", reply.text());
        assert!(!reply.text().contains(&all.reveal()[3..]), "the route sees no key: {}", reply.text());
    }
    assert_eq!(connection.send("GET", "/metrics", &[("x-api-key", all.reveal())], b"").await.status, 200);
}

#[tokio::test]
async fn a_key_does_what_it_is_for_and_no_more() {
    let (running, _, reader) = guarded().await;
    let mut connection = running.connect().await;
    let key = ("x-api-key", reader.reveal());
    let demo = ("x-lancedb-database", "demo");
    let read = connection.send("POST", "/v1/table/t/describe/", &[key, demo], b"").await;
    assert_eq!(read.status, 200);
    for (headers, path) in [
        (vec![key, ("x-lancedb-database", "other")], "/v1/table/t/describe/"),
        (vec![key, ("x-lancedb-database", "Demo")], "/v1/table/t/describe/"),
        (vec![key], "/v1/table/t/describe/"),
        (vec![key, demo], "/v1/table/t/insert/"),
        (vec![key, demo], "/v1/table/query/insert"),
        (vec![key, demo], "/v1/table/t/a_route_of_tomorrow/"),
    ] {
        let reply = connection.send("POST", path, &headers, b"").await;
        assert_eq!((reply.status, reply.code()), (403, 15), "{path} {headers:?}");
    }
    let metrics = connection.send("GET", "/metrics", &[key, demo], b"").await;
    assert_eq!((metrics.status, metrics.code()), (403, 15));
    assert_eq!(running.toy.written.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_without_any_key_lets_nobody_in() {
    let running = Running::start(config(|_| {}), Auth::Keys(Keys::fixed(Keyring::default()))).await;
    let reply = running.connect().await.send("GET", "/v1/table/", &[("x-api-key", "")], b"").await;
    assert_eq!(reply.status, 401);
}

/// The status of a request with this key.
async fn status(running: &Running, key: &ApiKey) -> u16 {
    running.connect().await.send("GET", "/v1/table/", &[("x-api-key", key.reveal())], b"").await.status
}

#[tokio::test]
async fn keys_are_added_and_removed_while_a_server_runs() {
    let home = tempfile::tempdir().unwrap();
    let opened = auth::open(&file(&home), &env()).unwrap();
    let first = opened.first.unwrap();
    let keys = Keys::watched(file(&home), opened.keyring, &env());
    let running = Running::start(config(|config| config.no_auth = false), Auth::Keys(keys)).await;
    assert_eq!(status(&running, &first).await, 200);
    let second = auth::add(&file(&home), "second", Databases::All, true, &env()).unwrap();
    eventually("the new key is known", async || status(&running, &second).await == 200).await;
    auth::remove(&file(&home), "first", &env()).unwrap();
    eventually("the old one no more", async || status(&running, &first).await == 401).await;
    assert_eq!(status(&running, &second).await, 200);
    let text = auth::remove(&file(&home), "first", &env()).unwrap_err().to_string();
    assert!(text.contains("holds no key first") && text.contains("keys.toml"), "{text}");
    auth::remove(&file(&home), "second", &env()).unwrap();
    eventually("nor this one", async || status(&running, &second).await == 401).await;
}

#[tokio::test]
async fn a_keys_file_that_breaks_or_goes_away_leaves_the_keys_as_they_were() {
    let (lines, _caught) = caught(LogFormat::Text, "error");
    let home = tempfile::tempdir().unwrap();
    let opened = auth::open(&file(&home), &env()).unwrap();
    let first = opened.first.unwrap();
    let keys = Keys::watched(file(&home), opened.keyring, &env());
    let running = Running::start(config(|config| config.no_auth = false), Auth::Keys(keys)).await;
    let whole = fs::read_to_string(file(&home)).unwrap();
    let told = |times| lines.text().matches("the keys stay as they were").count() == times;
    fs::write(file(&home), "[[keys]]\nname = 'half").unwrap();
    eventually("the log tells of the broken file", async || told(1)).await;
    assert_eq!(status(&running, &first).await, 200);
    fs::remove_file(file(&home)).unwrap();
    eventually("and of the missing one", async || told(2)).await;
    assert_eq!(status(&running, &first).await, 200);
    fs::write(file(&home), whole).unwrap();
    let second = auth::add(&file(&home), "second", Databases::All, true, &env()).unwrap();
    eventually("it is read when it is back", async || status(&running, &second).await == 200).await;
    assert_eq!(status(&running, &first).await, 200);
    assert!(told(2), "said once each: {}", lines.text());
}

#[test]
fn of_changes_of_one_file_at_once_none_undoes_another() {
    let home = tempfile::tempdir().unwrap();
    auth::open(&file(&home), &env()).unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let file = file(&home);
            scope.spawn(move || {
                let name = format!("key{number}");
                auth::add(&file, &name, Databases::All, true, &env()).unwrap();
                if number % 2 == 0 {
                    auth::remove(&file, &name, &env()).unwrap();
                }
            });
        }
    });
    let mut names: Vec<String> =
        auth::list(&file(&home)).unwrap().keys.into_iter().map(|key| key.name).collect();
    names.sort();
    assert_eq!(names, ["first", "key1", "key3", "key5", "key7"]);
}
