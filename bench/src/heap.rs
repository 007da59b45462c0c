//! The heap, counted while somebody watches.
//!
//! Owns: the global allocator and [`Watch`]. Does not own: what the operating system keeps resident
//! (`machine`). Counting is off except inside a watch, so that timed runs pay one relaxed load for each
//! allocation.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The system's allocator with counters in front.
pub struct Counting;

static WATCHED: AtomicBool = AtomicBool::new(false);
static HELD: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

fn changed(by: i64) {
    if WATCHED.load(Ordering::Relaxed) {
        let now = HELD.fetch_add(by, Ordering::Relaxed) + by;
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
}

fn size(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: every call is handed to `System` unchanged, and its answer is handed back unchanged; the counters
// are atomics in statics and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        changed(size(layout.size()));
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        changed(size(layout.size()));
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        changed(-size(layout.size()));
        // SAFETY: the pointer came from `System` through this allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        changed(size(new_size) - size(layout.size()));
        // SAFETY: as in `dealloc`; the caller answers for `new_size`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Counts what is allocated from here on, minus what is freed. One at a time.
pub struct Watch;

impl Watch {
    /// Starts at zero.
    pub fn start() -> Self {
        HELD.store(0, Ordering::Relaxed);
        PEAK.store(0, Ordering::Relaxed);
        WATCHED.store(true, Ordering::Relaxed);
        Self
    }

    /// Bytes allocated since the start and not freed; what was allocated before and freed since counts
    /// against it.
    pub fn held(&self) -> i64 {
        HELD.load(Ordering::Relaxed)
    }

    /// The most that was held at once.
    pub fn peak(&self) -> u64 {
        u64::try_from(PEAK.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.store(false, Ordering::Relaxed);
    }
}
