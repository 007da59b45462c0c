//! Requests that come again after the server crashed between making a change and answering are made once.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::serving::{Client, Serving, UPSERT, create, enable, is_sent_again, rows};
use crate::support::Home;

const UPDATE: &str = "/v1/table/t/update/";
const DELETE: &str = "/v1/table/t/delete/";
const ROWS: i64 = 8;
const PAUSE: Duration = Duration::from_millis(20);
/// Longer than a server takes to be back.
const ATTEMPTS: usize = 3_000;

fn id(number: usize) -> String {
    format!("6fa459ea-ee8a-4ca4-894e-{number:012x}")
}

fn increment() -> Vec<u8> {
    json!({ "updates": [["n", "n + 1"]], "predicate": "id < 100" }).to_string().into_bytes()
}

/// Sends a request, under one id, until it is done.
fn until_done(client: &mut Client, path: &str, id: &str, body: &[u8]) -> Value {
    for _ in 0..ATTEMPTS {
        match client.post(path, id, body) {
            Some((200, reply)) => return reply,
            Some((status, reply)) => assert!(is_sent_again(status), "{status}: {reply}"),
            None => {}
        }
        thread::sleep(PAUSE);
    }
    panic!("{path} was not done in {ATTEMPTS} attempts");
}

/// A server with a table that has a write tier of so many `shards`, or none.
fn with_table(home: &Home, shards: u32) -> Serving {
    let server = Serving::start_again(home, None, &[]);
    create(&mut Client::of(&server.address), 0..ROWS);
    if shards > 0 {
        enable(&mut Client::of(&server.address), shards);
    }
    server
}

fn incremented_over_crashes(shards: u32) {
    const KILLS: usize = 3;
    const UPDATES_EACH: usize = 8;
    let home = Home::new();
    let mut server = with_table(&home, shards);
    let address = server.address.clone();
    let (made, making) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let at = address.as_str();
        let updates = scope.spawn(move || {
            let mut client = Client::of(at);
            for number in 0..(KILLS + 1) * UPDATES_EACH {
                let reply = until_done(&mut client, UPDATE, &id(number), &increment());
                assert_eq!(reply["rows_updated"], ROWS, "{reply}");
                made.send(number).unwrap();
            }
        });
        for _ in 0..KILLS {
            for _ in 0..UPDATES_EACH {
                making.recv().unwrap();
            }
            server.kill();
            server = Serving::start_again(&home, Some(at), &[]);
        }
        updates.join().unwrap();
    });
    let all = i64::try_from((KILLS + 1) * UPDATES_EACH).unwrap();
    assert_eq!(server.rows(), (0..ROWS).map(|id| (id, all)).collect::<Vec<_>>());
    server.kill();
}

#[test]
fn updates_of_a_plain_table_are_made_once_over_crashes() {
    incremented_over_crashes(0);
}

#[test]
fn updates_of_a_table_with_a_write_tier_are_made_once_over_crashes() {
    incremented_over_crashes(4);
}

/// Files below `folder` whose path has `part` in it, and which are there for good: what is being written has
/// another name.
fn files(folder: &Path, part: &str) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let count = |path: &Path| match path.is_dir() {
        true => files(path, part),
        false => {
            let is_whole = path.extension().is_some_and(|kind| kind == "manifest" || kind == "arrow");
            usize::from(is_whole && path.to_str().unwrap().contains(part))
        }
    };
    entries.map(|entry| count(&entry.unwrap().path())).sum()
}

/// Each change becomes one file of this kind: a version of the table, an entry of the log.
fn crashes_between_commit_and_answer(shards: u32, commits: &str) {
    let home = Home::new();
    let mut server = with_table(&home, shards);
    let address = server.address.clone();
    let folder = home.path("data/db/t.lance");
    let delete = json!({ "predicate": "n = 1 AND id IN (6, 7)" }).to_string().into_bytes();
    for (number, path, body, told) in [
        (0, UPDATE, increment(), ("rows_updated", ROWS)),
        (1, DELETE, delete.clone(), ("num_deleted_rows", 2)),
    ] {
        // The writer of the log is there: its next file is the change.
        Client::of(&address).done(UPSERT, &rows(100..101, number));
        let before = files(&folder, commits);
        let mut client = Client::of(&address);
        client.send(path, &id(number as usize), &body).unwrap();
        for _ in 0..ATTEMPTS {
            if files(&folder, commits) > before {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(files(&folder, commits), before + 1, "committed");
        server.kill();
        server = Serving::start_again(&home, Some(&address), &[]);
        let committed = server.rows();
        for _ in 0..2 {
            let reply = until_done(&mut Client::of(&address), path, &id(number as usize), &body);
            assert_eq!(reply[told.0], told.1, "{path}: {reply}");
        }
        assert_eq!(server.rows(), committed, "{path} is not made again");
    }
    // What came to match since is another request's business.
    let mut client = Client::of(&address);
    client.done(UPSERT, &rows(6..8, 1));
    let again = until_done(&mut client, DELETE, &id(1), &delete);
    assert_eq!(again["num_deleted_rows"], 2);
    let mut expected: Vec<(i64, i64)> = (0..8).map(|id| (id, 1)).collect();
    expected.push((100, 1));
    assert_eq!(server.rows(), expected);
    server.kill();
}

#[test]
fn a_crash_between_a_commit_and_its_answer_makes_no_change_of_a_plain_table_twice() {
    crashes_between_commit_and_answer(0, "/_versions/");
}

#[test]
fn a_crash_between_a_log_entry_and_its_answer_makes_no_change_of_a_write_tier_twice() {
    crashes_between_commit_and_answer(1, "/wal/");
}
