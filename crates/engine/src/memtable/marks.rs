//! Who replaced whom: per row `superseded_by` and predecessor.
//!
//! Owns: [`Marks`], shared by the writer and every view. Does not own: which rows have one key (`key_index`,
//! and the conductor across memtables). A mark is written once and never overwritten (P4), with `Release`;
//! readers use `Acquire`. A reader at S only asks whether a mark is < S, and marks written after its view was
//! taken are ≥ S, so it reads the same for ever (P6). Segments of rows nobody replaced take no memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_buffer::BooleanBuffer;
use headwater_format::coord::{RowOffset, Seq};

/// Rows of one segment.
const SEGMENT_ROWS: usize = 1024;
/// Stands for "nobody".
const NO_ROW: u32 = u32::MAX;
/// Stands for "never".
const NEVER: u64 = u64::MAX;

/// Marks of one memtable's rows. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    segments: Arc<Vec<Arc<Segment>>>,
    bytes: Arc<AtomicU64>,
}

/// Marks of [`SEGMENT_ROWS`] neighbouring rows, allocated at the first mark.
#[derive(Debug, Default)]
struct Segment {
    superseded_by: OnceLock<Box<[AtomicU64]>>,
    predecessor: OnceLock<Box<[AtomicU32]>>,
}

impl Marks {
    /// Makes room for `rows` rows in all. Called by the writer before it marks or publishes them.
    pub(crate) fn grow(&mut self, rows: u32) {
        let wanted = (rows as usize).div_ceil(SEGMENT_ROWS);
        if wanted <= self.segments.len() {
            return;
        }
        let segments = Arc::make_mut(&mut self.segments);
        let before = segments.len();
        segments.resize_with(wanted, Arc::default);
        let more = (wanted - before) * (size_of::<Segment>() + 3 * size_of::<usize>());
        self.bytes.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Says that the row at `offset` was replaced by the row with Seq `by`, unless that is said already;
    /// whether it was written now. False, too, for a row there is not.
    pub(crate) fn supersede(&self, offset: u32, by: Seq) -> bool {
        let Some((segment, row)) = self.locate(offset) else { return false };
        let marks = segment.superseded_by.get_or_init(|| self.allocate(|| AtomicU64::new(NEVER)));
        marks.get(row).is_some_and(|mark| {
            mark.compare_exchange(NEVER, by.get(), Ordering::Release, Ordering::Relaxed).is_ok()
        })
    }

    /// Says that the row at `offset` replaced the row at `older`.
    pub(crate) fn set_predecessor(&self, offset: u32, older: u32) {
        let Some((segment, row)) = self.locate(offset) else { return };
        let rows = segment.predecessor.get_or_init(|| self.allocate(|| AtomicU32::new(NO_ROW)));
        if let Some(predecessor) = rows.get(row) {
            predecessor.store(older, Ordering::Release);
        }
    }

    /// Seq of the first later row of the key of `offset`; `Seq::MAX` when there is none.
    pub(crate) fn superseded_by(&self, offset: u32) -> Seq {
        let mark = self.locate(offset).and_then(|(segment, row)| segment.superseded_by.get()?.get(row));
        Seq::new(mark.map_or(NEVER, |mark| mark.load(Ordering::Acquire)))
    }

    /// The row that `offset` replaced in this memtable.
    pub(crate) fn predecessor(&self, offset: u32) -> Option<RowOffset> {
        let (segment, row) = self.locate(offset)?;
        let older = segment.predecessor.get()?.get(row)?.load(Ordering::Acquire);
        (older != NO_ROW).then(|| RowOffset::new(older))
    }

    /// Which of the `rows` rows from `first` nobody had replaced at `at`; none when that is all of them.
    pub(crate) fn unreplaced(&self, first: u32, rows: usize, at: Seq) -> Option<BooleanBuffer> {
        let end = first as usize + rows;
        let segments = first as usize / SEGMENT_ROWS..end.div_ceil(SEGMENT_ROWS);
        let touched =
            self.segments.get(segments)?.iter().any(|segment| segment.superseded_by.get().is_some());
        if !touched {
            return None;
        }
        let mut every = true;
        let kept = BooleanBuffer::collect_bool(rows, |row| {
            let keep = self.superseded_by(first + row as u32) >= at;
            every &= keep;
            keep
        });
        (!every).then_some(kept)
    }

    /// Offsets below `rows` of rows replaced before `end`, ascending.
    pub(crate) fn replaced_before(&self, rows: u32, end: Seq) -> impl Iterator<Item = u32> + '_ {
        let marked = self.segments.iter().enumerate().filter_map(|(number, segment)| {
            let marks = segment.superseded_by.get()?;
            Some(((number * SEGMENT_ROWS) as u32, marks))
        });
        marked
            .flat_map(|(first, marks)| (first..).zip(marks.iter()))
            .take_while(move |(offset, _)| *offset < rows)
            .filter(move |(_, mark)| mark.load(Ordering::Acquire) < end.get())
            .map(|(offset, _)| offset)
    }

    /// Resident bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn locate(&self, offset: u32) -> Option<(&Segment, usize)> {
        let offset = offset as usize;
        Some((self.segments.get(offset / SEGMENT_ROWS)?, offset % SEGMENT_ROWS))
    }

    fn allocate<T>(&self, empty: impl Fn() -> T) -> Box<[T]> {
        self.bytes.fetch_add((SEGMENT_ROWS * size_of::<T>()) as u64, Ordering::Relaxed);
        std::iter::repeat_with(empty).take(SEGMENT_ROWS).collect()
    }
}
