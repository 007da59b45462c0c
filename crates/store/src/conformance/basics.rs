//! Checks with one caller: reads, overwrites, listings, deletions.

use bytes::Bytes;

use super::report::{CheckReport, Nonconforming};
use super::suite::{Bench, expect, storage, violation};
use crate::put_once::PutOnce;
use crate::store::ObjectInfo;

/// Sizes around what buffers and pages are made of, and one that takes several packets.
const SIZES: [usize; 6] = [0, 1, 4_095, 4_096, 65_537, 1 << 20];

/// `size` bytes that differ from place to place and from `salt` to `salt`.
fn body(size: usize, salt: u8) -> Bytes {
    (0..size).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ salt).collect()
}

pub(super) async fn what_is_put_is_got_and_listed_at_once(
    bench: &Bench,
) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "what_is_put_is_got_and_listed_at_once";
    let store = &bench.store;
    for (number, size) in SIZES.into_iter().enumerate() {
        let path = format!("sizes/deep/er/{number}");
        let created = store.put_once(&path, body(size, 0)).await.map_err(storage(CHECK))?;
        expect(CHECK, matches!(created, PutOnce::Created), || {
            format!("{path} was not created: {created:?}")
        })?;
        for salt in [0, 1] {
            if salt == 1 {
                store.put(&path, body(size, 1)).await.map_err(storage(CHECK))?;
            }
            let got = store.get(&path).await.map_err(storage(CHECK))?;
            let right = got.as_ref() == Some(&body(size, salt));
            let len = got.map(|bytes| bytes.len());
            expect(CHECK, right, || format!("wrote {size} bytes to {path}, read {len:?} or other bytes"))?;
        }
        let there = store.exists(&path).await.map_err(storage(CHECK))?;
        expect(CHECK, there, || format!("{path} does not exist right after it was written"))?;
        let listed = store.list("sizes").await.map_err(storage(CHECK))?;
        let sizes: Vec<_> = listed.iter().map(|object| object.size as usize).collect();
        expect(CHECK, SIZES.get(..=number) == Some(sizes.as_slice()), || {
            format!("{listed:?} is listed after writing {path}, in sizes {SIZES:?}")
        })?;
        let sorted = listed.is_sorted_by(|one, next| one.path < next.path);
        expect(
            CHECK,
            sorted && listed.iter().all(|object| object.path.starts_with("sizes/deep/er/")),
            || format!("{listed:?} is not sorted or not relative to the root"),
        )?;
    }
    Ok(CheckReport { name: CHECK, rounds: SIZES.len() as u64, ..CheckReport::default() })
}

pub(super) async fn what_is_not_there_is_none_and_not_an_error(
    bench: &Bench,
) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "what_is_not_there_is_none_and_not_an_error";
    let store = &bench.store;
    store.put("nothing/file", body(8, 0)).await.map_err(storage(CHECK))?;
    let paths =
        ["nothing/other", "nothing/no/such/directory", "nowhere/file", "nothing", "nothing/file/below"];
    for path in paths {
        let got = store.get(path).await.map_err(storage(CHECK))?;
        expect(CHECK, got.is_none(), || format!("{path} holds {got:?}"))?;
        let there = store.exists(path).await.map_err(storage(CHECK))?;
        expect(CHECK, !there, || format!("{path} exists"))?;
    }
    for path in ["nowhere", "nothing/no/such", "nothing/fil"] {
        let listed = store.list(path).await.map_err(storage(CHECK))?;
        let dirs = store.list_dirs(path).await.map_err(storage(CHECK))?;
        expect(CHECK, listed.is_empty() && dirs.is_empty(), || {
            format!("{path} lists {listed:?} and {dirs:?}")
        })?;
    }
    Ok(CheckReport { name: CHECK, rounds: paths.len() as u64, ..CheckReport::default() })
}

pub(super) async fn listings_stop_at_their_directory(bench: &Bench) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "listings_stop_at_their_directory";
    let store = &bench.store;
    let paths = ["list/a/1", "list/a/b/2", "list/a/c/d/3", "list/ab/4", "list/5"];
    for path in paths {
        store.put(path, body(path.len(), 0)).await.map_err(storage(CHECK))?;
    }
    for (prefix, inside) in [("list/a", &paths[..3]), ("list/a/c", &paths[2..3]), ("list", &paths[..])] {
        let mut wanted: Vec<_> = inside
            .iter()
            .map(|path| ObjectInfo { path: (*path).to_owned(), size: path.len() as u64 })
            .collect();
        wanted.sort_unstable();
        let listed = store.list(prefix).await.map_err(storage(CHECK))?;
        expect(CHECK, listed == wanted, || format!("{prefix} lists {listed:?}, not {wanted:?}"))?;
    }
    for (prefix, names) in [("list", &["a", "ab"][..]), ("list/a", &["b", "c"]), ("list/a/b", &[])] {
        let dirs = store.list_dirs(prefix).await.map_err(storage(CHECK))?;
        expect(CHECK, dirs == names, || format!("{prefix} has the directories {dirs:?}, not {names:?}"))?;
    }
    Ok(CheckReport { name: CHECK, rounds: 6, ..CheckReport::default() })
}

pub(super) async fn deleting_is_idempotent_and_frees_the_name(
    bench: &Bench,
) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "deleting_is_idempotent_and_frees_the_name";
    let (store, path, rounds) = (&bench.store, "delete/me", 3);
    store.delete("delete/never/there").await.map_err(storage(CHECK))?;
    for round in 0..rounds {
        let created = store.put_once(path, body(16, round)).await.map_err(storage(CHECK))?;
        expect(CHECK, matches!(created, PutOnce::Created), || format!("in round {round}: {created:?}"))?;
        match store.put_once(path, body(16, round + 1)).await.map_err(storage(CHECK))? {
            PutOnce::Exists { found } if found == body(16, round) => {}
            other => return Err(violation(CHECK, format!("a second creator was told {other:?}"))),
        }
        for _ in 0..2 {
            store.delete(path).await.map_err(storage(CHECK))?;
            let got = store.get(path).await.map_err(storage(CHECK))?;
            expect(CHECK, got.is_none(), || format!("{path} holds {got:?} after it was deleted"))?;
        }
    }
    Ok(CheckReport { name: CHECK, rounds: u64::from(rounds), ..CheckReport::default() })
}
