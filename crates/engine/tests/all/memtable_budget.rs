//! B2: one budget for all memtables of a process.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::task::{ArcWake, waker};
use headwater_engine::budget::MemoryBudget;
use headwater_engine::memtable::Memtable;
use headwater_format::coord::{Generation, Seq};

use crate::memtable_support::{Key, Table};

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl ArcWake for CountWakes {
    fn wake_by_ref(arc_self: &Arc<Self>) {
        arc_self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn charges_add_up_and_are_given_back() {
    let budget = MemoryBudget::new(100);
    let one = budget.charge(30);
    let two = budget.charge(0);
    two.grow(50);
    assert_eq!((budget.used(), budget.over(), budget.limit()), (80, false, 100));
    two.set(70);
    assert!(budget.over(), "at the limit is over: the next byte does not fit");
    two.set(10);
    assert_eq!((budget.used(), two.bytes()), (40, 10));
    drop(one);
    drop(two);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_waiter_is_woken_by_the_charge_that_brings_usage_under_the_limit() {
    let budget = MemoryBudget::new(100);
    let (large, small) = (budget.charge(120), budget.charge(10));
    let wakes = Arc::new(CountWakes::default());
    let waker = waker(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut below = pin!(budget.below());
    assert_eq!(below.as_mut().poll(&mut cx), Poll::Pending);
    drop(small);
    assert_eq!(below.as_mut().poll(&mut cx), Poll::Pending, "120 of 100 are still used");
    large.set(99);
    assert!(wakes.0.load(Ordering::SeqCst) > 0, "nobody else would poll it again");
    assert_eq!(below.as_mut().poll(&mut cx), Poll::Ready(()));
}

#[test]
fn under_the_limit_nobody_waits() {
    let budget = MemoryBudget::new(10);
    let _charge = budget.charge(9);
    futures::executor::block_on(budget.below());
}

#[test]
fn a_memtable_is_charged_until_its_last_view_is_gone() {
    let table = Table::new(Key::Text);
    let budget = MemoryBudget::new(1 << 30);
    let (schema, key) = (table.ingest.schema().clone(), table.ingest.key().cloned());
    let mut memtable =
        Memtable::new(Generation::new(1), schema, key, Seq::new(1), Vec::new(), budget.charge(0));
    memtable.append(&table.rows(&[(1, "a"), (2, "b")])).unwrap();
    assert_eq!(budget.used(), memtable.resident_bytes());
    assert!(budget.used() > 0);
    let early = memtable.view();
    memtable.append(&table.rows(&[(3, "c")])).unwrap();
    let frozen = memtable.freeze();
    assert_eq!(budget.used(), frozen.resident_bytes());
    drop(frozen);
    assert!(budget.used() > 0, "the view still holds its rows");
    drop(early);
    assert_eq!(budget.used(), 0, "L5");
}
