//! A server that is killed or stopped under load: nothing it acknowledged is lost.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::serving::{Client, Serving, UPSERT, create, enable, is_sent_again, rows, stored, table};
use crate::support::{Home, run};

const WRITERS: i64 = 4;
/// Rows of each writer that are in each of its requests, over several shards.
const ROWS: i64 = 8;
/// Each request has one row of its own besides, so that no later request hides that it was lost: its id is
/// its number, and this much for each writer.
const OWN: i64 = 1_000_000;
const SHARDS: u32 = 4;
/// LanceDB's clients ask three times in all.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

fn of(writer: i64) -> Range<i64> {
    writer * ROWS..(writer + 1) * ROWS
}

fn request(writer: i64, number: i64) -> Vec<u8> {
    rows(of(writer).chain([(writer + 1) * OWN + number]), number)
}

/// What all writers know of each other.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    acknowledged: AtomicU64,
    /// Requests of which no whole reply came.
    cut: AtomicU64,
}

impl Load {
    fn wait_for_more(&self, requests: u64) {
        let wanted = self.acknowledged.load(Ordering::SeqCst) + requests;
        while self.acknowledged.load(Ordering::SeqCst) < wanted {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The numbers a writer has sent: those acknowledged, and the newest.
#[derive(Clone, Debug, Default)]
struct Sent {
    acknowledged: Vec<i64>,
    newest: i64,
}

impl Sent {
    fn newest_acknowledged(&self) -> i64 {
        self.acknowledged.last().copied().unwrap_or(0)
    }
}

/// Writes one number after the other, each as often as clients do.
fn write(load: &Load, address: &str, writer: i64) -> Sent {
    let (mut client, mut sent) = (Client::of(address), Sent::default());
    while !load.over.load(Ordering::SeqCst) {
        sent.newest += 1;
        let body = request(writer, sent.newest);
        for attempt in 0..ATTEMPTS {
            let id = format!("{writer}-{}-{attempt}", sent.newest);
            match client.post(UPSERT, &id, &body) {
                Some((200, _)) => {
                    sent.acknowledged.push(sent.newest);
                    load.acknowledged.fetch_add(1, Ordering::SeqCst);
                    break;
                }
                Some((status, reply)) => assert!(is_sent_again(status), "{status}: {reply}"),
                None => drop(load.cut.fetch_add(1, Ordering::SeqCst)),
            }
            thread::sleep(PAUSE);
        }
    }
    sent
}

fn start(home: &Home, address: Option<&str>) -> Serving {
    // Flushes under way are part of what is killed.
    Serving::start_again(home, address, &["--set", "shard.freeze.max_rows=100"])
}

#[test]
fn a_server_that_is_killed_again_and_again_loses_nothing_it_acknowledged() {
    const KILLS: u64 = 4;
    let (home, load) = (Home::new(), Load::default());
    let mut server = start(&home, None);
    let address = server.address.clone();
    create(&mut Client::of(&address), 0..WRITERS * ROWS);
    enable(&mut Client::of(&address), SHARDS);
    let sent: Vec<Sent> = thread::scope(|scope| {
        let (load, at) = (&load, address.as_str());
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(load, at, writer))).collect();
        for _ in 0..KILLS {
            load.wait_for_more(60);
            server.kill();
            server = start(&home, Some(at));
        }
        load.wait_for_more(60);
        load.over.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    server.kill();
    assert!(load.cut.load(Ordering::SeqCst) >= KILLS, "each kill was noticed");
    let (shared, own) = split(stored(&home));
    for (id, found) in shared {
        let sent = &sent[usize::try_from(id / ROWS).unwrap()];
        assert!((sent.newest_acknowledged()..=sent.newest).contains(&found), "row {id} is {found}: {sent:?}");
    }
    for (writer, (sent, own)) in sent.iter().zip(own).enumerate() {
        let lost: Vec<&i64> = sent.acknowledged.iter().filter(|number| !own.contains(number)).collect();
        assert!(
            lost.is_empty(),
            "writer {writer}: of {} acknowledged requests {lost:?} are lost",
            sent.acknowledged.len()
        );
    }
}

/// Number by id of the rows of every request, and the numbers of each writer's own rows.
fn split(stored: Vec<(i64, i64)>) -> (Vec<(i64, i64)>, Vec<Vec<i64>>) {
    let (shared, own): (Vec<_>, Vec<_>) = stored.into_iter().partition(|(id, _)| *id < OWN);
    let ids: Vec<i64> = shared.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (0..WRITERS * ROWS).collect::<Vec<_>>());
    let of_writer = |writer: i64| {
        let own = own.iter().filter(move |(id, _)| id / OWN == writer + 1);
        own.map(|(id, number)| {
            assert_eq!(id % OWN, *number);
            *number
        })
    };
    (shared, (0..WRITERS).map(|writer| of_writer(writer).collect()).collect())
}

/// Writes until a request is not acknowledged: that one was refused so that it is sent again, or its
/// connection was closed before it was read.
fn write_until_refused(load: &Load, address: &str, writer: i64, mut sent: Sent) -> Sent {
    let mut client = Client::of(address);
    loop {
        sent.newest += 1;
        match client.post(UPSERT, &format!("{writer}-{}", sent.newest), &request(writer, sent.newest)) {
            Some((200, _)) => {
                sent.acknowledged.push(sent.newest);
                load.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Some((status, reply)) => {
                assert!(is_sent_again(status), "{status}: {reply}");
                return sent;
            }
            None => return sent,
        }
    }
}

#[test]
fn a_server_that_is_stopped_under_load_has_done_what_it_acknowledged_and_nothing_else() {
    const STOPS: usize = 3;
    let (home, load) = (Home::new(), Load::default());
    let mut sent: Vec<Sent> = (0..WRITERS).map(|_| Sent::default()).collect();
    let mut address = None;
    for round in 0..STOPS {
        let server = start(&home, address.as_deref());
        let at = server.address.clone();
        if round == 0 {
            create(&mut Client::of(&at), 0..WRITERS * ROWS);
            enable(&mut Client::of(&at), SHARDS);
        }
        let said = thread::scope(|scope| {
            let (load, at) = (&load, at.as_str());
            let writers: Vec<_> = (0..WRITERS)
                .zip(&sent)
                .map(|(writer, sent)| (writer, sent.clone()))
                .map(|(writer, sent)| scope.spawn(move || write_until_refused(load, at, writer, sent)))
                .collect();
            load.wait_for_more(60);
            let said = server.ended_by("TERM");
            sent = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            said
        });
        assert_eq!(said.0, Some(0), "{}", said.1);
        let (shared, own) = split(stored(&home));
        for (id, found) in shared {
            let sent = &sent[usize::try_from(id / ROWS).unwrap()];
            assert_eq!(found, sent.newest_acknowledged(), "row {id}");
        }
        for (sent, own) in sent.iter().zip(own) {
            assert_eq!(own, sent.acknowledged);
        }
        let told = run(&["inspect", &table(&home), "--format", "json"]).ok().stdout;
        let told: Value = serde_json::from_str(&told).unwrap();
        for shard in told["shards"].as_array().unwrap() {
            assert_eq!(shard["wal"]["unflushed_rows"], 0, "flushed on the way down: {shard}");
        }
        address = Some(at);
    }
}
