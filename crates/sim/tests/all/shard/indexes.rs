//! A memtable index that does what a test asks of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use headwater_engine::index::{IndexDescription, IndexError, MemIndex, MemIndexFactory};
use headwater_format::coord::{Generation, RowOffset};

/// What its indexes do. Shared by all of them.
#[derive(Debug, Default)]
pub struct Oddities {
    /// The next call of `apply` panics: in the task that indexes.
    pub panic_in_apply: AtomicBool,
    /// The next question for memory panics: in the conductor.
    pub panic_in_memory: AtomicBool,
    /// Resident bytes of each row applied.
    pub bytes_a_row: AtomicUsize,
}

impl Oddities {
    pub fn factory(self: &Arc<Self>) -> Arc<dyn MemIndexFactory> {
        Arc::new(Factory(Arc::clone(self)))
    }
}

#[derive(Debug)]
struct Factory(Arc<Oddities>);

impl MemIndexFactory for Factory {
    fn create(&self, _generation: Generation, _schema: &SchemaRef) -> Result<Arc<dyn MemIndex>, IndexError> {
        Ok(Arc::new(OddIndex { oddities: Arc::clone(&self.0), applied: AtomicU32::new(0) }))
    }
}

#[derive(Debug)]
struct OddIndex {
    oddities: Arc<Oddities>,
    applied: AtomicU32,
}

#[async_trait]
impl MemIndex for OddIndex {
    fn describe(&self) -> IndexDescription {
        IndexDescription { name: "odd".into(), kind: "model".into(), columns: vec!["op".into()] }
    }

    async fn apply(&self, first: RowOffset, batch: &RecordBatch) -> Result<(), IndexError> {
        assert!(!self.oddities.panic_in_apply.swap(false, Ordering::SeqCst), "planned by a test");
        self.applied.store(first.get() + batch.num_rows() as u32, Ordering::SeqCst);
        Ok(())
    }

    fn applied(&self) -> RowOffset {
        RowOffset::new(self.applied.load(Ordering::SeqCst))
    }

    fn memory(&self) -> usize {
        assert!(!self.oddities.panic_in_memory.swap(false, Ordering::SeqCst), "planned by a test");
        let rows = self.applied.load(Ordering::SeqCst) as usize;
        rows * self.oddities.bytes_a_row.load(Ordering::SeqCst)
    }
}
