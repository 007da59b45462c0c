//! Writes with options: decided on what was read, or sent again under their client tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use headwater_engine::{Ack, ReadLevel, WriteOptions};
use headwater_format::token::ClientToken;
use headwater_store::env::Env;

use super::build::World;
use super::writer::Writer;
use crate::history::{Level, OpKind, Told};

impl World {
    /// Reads what `keys` are, and puts them if they still are, all in the background.
    pub fn increment(&self, writer: &Writer, keys: Vec<u32>, level: Level) {
        let (world, teller) = (self.clone(), writer.clone());
        let in_flight = writer.in_flight.enter();
        let work = async move {
            world.increment_once(&teller, keys, level).await;
            drop(in_flight);
        };
        writer.process.spawn("increment", work.boxed()).detach();
    }

    async fn increment_once(&self, writer: &Writer, keys: Vec<u32>, level: Level) {
        let level = match level {
            Level::Durable => ReadLevel::Durable,
            Level::Pending => ReadLevel::Pending,
        };
        let snapshot = match writer.shard.snapshot(level).await {
            Ok(snapshot) => snapshot,
            Err(error) => return self.judge_error(&error, "snapshot"),
        };
        let Ok(rows) = self.collect(&writer.tables, &snapshot).await else { return };
        let seen = |key: &u32| rows.iter().find(|row| row.key == *key).and_then(|row| row.written);
        let decided_on: BTreeMap<_, _> = keys.iter().map(|key| (*key, seen(key))).collect();
        let (kind, session) = (OpKind::Put(keys), writer.session);
        let number = self.history.lock().invoke_if(session, kind.clone(), decided_on);
        self.tally.lock().writes += 1;
        let options = WriteOptions { unchanged: Some(snapshot.unchanged()), ..WriteOptions::default() };
        let result = self.send(&writer.shard, number, &kind, false, options).await;
        self.resolve(session, number, result);
    }

    /// Sends a put with a client token of its own; its outcome goes to the history.
    pub fn write_named(&self, writer: &Writer, keys: Vec<u32>, nowait: bool) -> u64 {
        let kind = OpKind::Put(keys);
        let number = self.history.lock().invoke(writer.session, kind.clone());
        self.tally.lock().writes += 1;
        let (world, shard, session) = (self.clone(), Arc::clone(&writer.shard), writer.session);
        let in_flight = writer.in_flight.enter();
        let work = async move {
            let result = world.send(&shard, number, &kind, nowait, named(number)).await;
            world.resolve(session, number, result);
            drop(in_flight);
        };
        writer.process.spawn("named write", work.boxed()).detach();
        number
    }

    /// Sends put `number` again, under its token, as a client does that has no answer, or lost it. Nothing
    /// when it was refused.
    pub fn repeat(&self, writer: &Writer, number: u64, nowait: bool) {
        let Some(kind) = self.history.lock().repeat(number) else { return };
        let (world, shard, session) = (self.clone(), Arc::clone(&writer.shard), writer.session);
        let in_flight = writer.in_flight.enter();
        let work = async move {
            let result = world.send(&shard, number, &kind, nowait, named(number)).await;
            match result {
                Ok(Ack { first, end, position }) => {
                    if !world.audit.has_entry(position) {
                        world.report("P1", format!("write {number}, repeated, is acknowledged at nothing"));
                    }
                    let told = Told { first, end, position };
                    world.machine.note(&format!("write {number} again: acknowledged at {position}"));
                    world.history.lock().retried(number, session, told, world.machine.now());
                }
                Err(error) => world.judge_error(&error, "repeated write"),
            }
            drop(in_flight);
        };
        writer.process.spawn("repeated write", work.boxed()).detach();
    }
}

fn named(number: u64) -> WriteOptions {
    WriteOptions { token: ClientToken::new(&number.to_be_bytes()).ok(), ..WriteOptions::default() }
}
