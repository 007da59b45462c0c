//! Input that comes in its own time: standard input and named pipes.
//!
//! Owns: the thread that waits for it, and what a reader is told meanwhile: that nothing more came for a
//! while ([`Flow`]), and that the command was asked to stop ([`StopReading`]). Does not own: splitting into
//! rows. Only the feeding thread waits in the operating system, where nothing can call it back; a reader
//! always comes back from here.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Bytes asked of the operating system at once.
const BLOCK: usize = 64 << 10;
/// Blocks read ahead of the reader.
const BLOCKS_AHEAD: usize = 4;
/// How long a stop may go unnoticed while nothing comes, and how long a reader that was told to stop waits
/// for what the feeding thread has in hand.
const TICK: Duration = Duration::from_millis(50);

/// Whether the command was asked to stop; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct StopReading(Arc<AtomicBool>);

impl StopReading {
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Text that may make its reader wait. Files never do.
pub trait Paced: BufRead {
    /// Whether reading gives up with [`ErrorKind::WouldBlock`] when nothing more came for a while; without
    /// that it waits as long as it takes.
    fn hurry(&mut self, _hurry: bool) {}

    /// Whether the end of the text may be no end of a record, because the input was left or its writer
    /// interrupted.
    fn is_cut(&self) -> bool {
        false
    }
}

impl Paced for BufReader<File> {}

impl Paced for &[u8] {}

/// Input that a thread of its own waits for. When the command is asked to stop, what had come by then is read
/// to its end, and nothing more.
#[derive(Debug)]
pub struct Flow {
    blocks: Receiver<io::Result<Vec<u8>>>,
    stop: StopReading,
    /// How long nothing comes before a reader in a hurry is told.
    wait: Duration,
    hurry: bool,
    ended: bool,
    block: Vec<u8>,
    /// How much of the block was taken.
    taken: usize,
}

impl Flow {
    /// Begins to read what `open` opens. It is opened by the feeding thread: a pipe that nobody writes into
    /// makes one wait for that already.
    ///
    /// # Errors
    /// What the operating system says when it has no thread to give; what it says of the input, reading does.
    pub fn start<R: Read>(
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
        wait: Duration,
        stop: StopReading,
    ) -> io::Result<Self> {
        let (sender, blocks) = sync_channel(BLOCKS_AHEAD);
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("feeder".to_owned());
        thread.spawn(move || {
            let fed = open().and_then(|input| feed(input, &sender, &stopped));
            if let Err(error) = fed {
                // Nobody listens any more: the ingest ended first.
                let _ = sender.send(Err(error));
            }
        })?;
        Ok(Self { blocks, stop, wait, hurry: false, ended: false, block: Vec::new(), taken: 0 })
    }

    /// The first bytes, as many as asked for unless there are fewer; they are read again.
    ///
    /// # Errors
    /// What the operating system says of the input.
    pub fn begin(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut begin = Vec::with_capacity(bytes);
        self.by_ref().take(bytes as u64).read_to_end(&mut begin)?;
        let mut block = begin.clone();
        block.extend_from_slice(self.block.get(self.taken..).unwrap_or_default());
        (self.block, self.taken) = (block, 0);
        Ok(begin)
    }

    /// The next block; an empty one at the end, from then on.
    fn next_block(&mut self) -> io::Result<Vec<u8>> {
        let mut quiet = Duration::ZERO;
        while !self.ended {
            // Asked before the wait: what the feeder had in hand at the stop arrives during it.
            let stopped = self.stop.is_set();
            let hurry = self.hurry && !stopped;
            let wait = if hurry { self.wait.saturating_sub(quiet).min(TICK) } else { TICK };
            match self.blocks.recv_timeout(wait) {
                Ok(block) => return block,
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
                // What comes later would begin in the middle of a record.
                Err(RecvTimeoutError::Timeout) if stopped => self.ended = true,
                Err(RecvTimeoutError::Timeout) => quiet += wait,
            }
            if hurry && !self.ended && quiet >= self.wait {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        Ok(Vec::new())
    }
}

/// Hands the input over until it ends, or until nobody wants more.
fn feed(
    mut input: impl Read,
    blocks: &SyncSender<io::Result<Vec<u8>>>,
    stop: &StopReading,
) -> io::Result<()> {
    while !stop.is_set() {
        let mut block = vec![0; BLOCK];
        match input.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                block.truncate(read);
                if blocks.send(Ok(block)).is_err() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl BufRead for Flow {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken >= self.block.len() {
            (self.block, self.taken) = (self.next_block()?, 0);
        }
        Ok(self.block.get(self.taken..).unwrap_or_default())
    }

    fn consume(&mut self, bytes: usize) {
        self.taken = (self.taken + bytes).min(self.block.len());
    }
}

impl Read for Flow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl Paced for Flow {
    fn hurry(&mut self, hurry: bool) {
        self.hurry = hurry;
    }

    /// Ctrl-c reaches all of a pipeline, so whoever wrote into the pipe may have been stopped in the middle
    /// of a line just as well.
    fn is_cut(&self) -> bool {
        self.stop.is_set()
    }
}

#[cfg(test)]
mod tests;
