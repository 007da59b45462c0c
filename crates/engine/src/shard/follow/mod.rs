//! Reading a shard that another process writes, again and again, without claiming it.
//!
//! - [`Follower`] (`follower`): when storage is asked, and for whom; one refresh serves all who wait.
//! - `start`: what of the shard a reading begins from.
//! - `tail`: the rows read so far, and their hand-over to SSTables.
//! - `catch_up`: one refresh: what is new in WAL and manifest.
//!
//! A refresh costs what is new. While nothing is, it asks for the WAL position after the last one read, and
//! now and then, in the same moment, for the manifest version after the last one known. Once a minute, and
//! when a reading begins, it makes sure that the shard is the one it was and that the WAL has no hole there.
//!
//! **When one request is enough.** A position that is missing was not written yet, or was covered by the
//! replay cursor and collected. So a refresh may take a miss for the tip only if the cursor, as it stood
//! after the miss at the earliest, is below it. The cursor moves in the manifest, and collection leaves what
//! it retires for a time; whoever knew the newest manifest at a moment can rely on every position above
//! *that* cursor for that time. `reads.epoch_confirm_ms`, for which a writer relies on its epoch, is the time
//! relied on here, counted from before the manifest was asked for to after the miss was answered. Collection
//! has to keep retired entries longer. Once the confirmation is older, the manifest is asked for too.
//!
//! **When a reading starts again.** `Seq`s are of one order while positions are read without a gap and
//! memtables become SSTables row for row. When the cursor passed over entries that are gone, or boundaries of
//! published generations are not those of the memtables here, or the shard is another one than before under
//! its old id, the reading starts from the newest manifest, under a new lineage.
//!
//! Keeps P2 (only what is on storage is shown), P5 and P12 (a generation is read from memory until the
//! manifest that is held names its SSTable, and then from there only), P6 (a lineage only grows), P8.

mod catch_up;
mod follower;
mod start;
mod tail;

pub use follower::Follower;
