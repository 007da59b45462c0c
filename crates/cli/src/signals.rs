//! Signals that ask a command to stop.
//!
//! Owns: which they are, and listening to them. A signal that the process was started to ignore (`nohup` does
//! that with SIGHUP, a shell with SIGINT of what it runs in the background) stays ignored.

use std::fmt;
use std::fs;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Where Linux says which signals a process ignores.
const STATUS: &str = "/proc/self/status";
/// The line there: a mask in hex, the lowest bit being signal 1.
const IGNORED: &str = "SigIgn:";

/// A signal that asks to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-c.
    Interrupt,
    /// From service managers and container runtimes.
    Terminate,
    /// The terminal is gone.
    Hangup,
}

impl Stop {
    const ALL: [Self; 3] = [Self::Interrupt, Self::Terminate, Self::Hangup];

    fn kind(self) -> SignalKind {
        match self {
            Self::Interrupt => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
            Self::Hangup => SignalKind::hangup(),
        }
    }

    /// What shells report for a process that a signal ended.
    pub fn exit_code(self) -> u8 {
        128 + u8::try_from(self.kind().as_raw_value()).unwrap_or(0)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
        })
    }
}

/// Listens for signals that ask to stop, in place of being ended by them.
#[derive(Debug)]
pub struct Stops {
    listening: Vec<(Stop, Signal)>,
}

impl Stops {
    /// Begins to listen.
    ///
    /// # Errors
    /// What the operating system said.
    pub fn listen() -> io::Result<Self> {
        // Elsewhere than on Linux there is no such file, and nothing is taken for ignored.
        let ignored = ignored(&fs::read_to_string(STATUS).unwrap_or_default());
        let wanted = Stop::ALL.into_iter().filter(|stop| !is_in(ignored, stop.kind()));
        let listening = wanted.map(|stop| Ok((stop, signal(stop.kind())?))).collect::<io::Result<_>>()?;
        Ok(Self { listening })
    }

    /// The next signal. Losing interest before it comes loses no signal.
    pub async fn next(&mut self) -> Stop {
        std::future::poll_fn(|context| {
            let came = self.listening.iter_mut().find_map(|(stop, signal)| {
                matches!(signal.poll_recv(context), std::task::Poll::Ready(Some(()))).then_some(*stop)
            });
            came.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }
}

/// The mask of ignored signals in the text of [`STATUS`].
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix(IGNORED));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, kind: SignalKind) -> bool {
    u32::try_from(kind.as_raw_value() - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read_from_its_line() {
        let status = "Name:\theadwater\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000000003\n";
        let mask = ignored(status);
        let is_ignored = |stop: Stop| is_in(mask, stop.kind());
        assert_eq!(Stop::ALL.map(is_ignored), [true, false, true]);
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn the_exit_code_tells_the_signal() {
        assert_eq!(Stop::ALL.map(Stop::exit_code), [130, 143, 129]);
    }
}
