//! What Headwater persists, byte for byte, and how to read what the reference implementation persists.
//!
//! Owns: coordinates and ids ([`coord`]), object names ([`path`]), the storage schema ([`schema`]), keys and
//! their encodings ([`key`]), the bloom filter over key hashes ([`bloom`]), the bucket function ([`bucket`]),
//! the WAL entry ([`wal_entry`]) and the client tokens in it ([`token`]), the shard manifest
//! ([`shard_manifest`]) and its hint ([`version_hint`]).
//!
//! Does not own: where the bytes go (`headwater-store`), what they mean for a shard (`headwater-engine`),
//! Lance files (`headwater-lance`).
//!
//! Pure: no I/O, no clock, no randomness. Bytes from storage are data to be judged: every decoder returns a
//! typed error for what cannot be what its name says, and never panics (P14).

pub mod bloom;
pub mod bucket;
pub mod coord;
pub mod key;
pub mod path;
pub mod schema;
pub mod shard_manifest;
pub mod token;
pub mod version_hint;
pub mod wal_entry;
