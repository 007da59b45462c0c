//! A read that proves more than that an object is there: that it stays.
//!
//! Owns: [`DurableRead`], the mark such a read carries. Does not own: making anything durable. A backend on
//! which an object can be seen before it is on stable storage, as on a local disk, and whose acknowledged
//! writes are to survive a power cut, honours the mark (P1): it syncs the object before it hands it out.
//! Everywhere else what can be read is durable, and the mark is ignored. Set by `put_once` when it reads
//! back; honoured by `local` and by the store of the simulator.

use object_store::GetOptions;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct DurableRead;

impl DurableRead {
    /// A read of a whole object with the mark.
    pub fn options() -> GetOptions {
        let mut options = GetOptions::default();
        options.extensions.insert(Self);
        options
    }

    /// Whether a read carries the mark.
    pub fn is_asked(options: &GetOptions) -> bool {
        options.extensions.get::<Self>().is_some()
    }
}
