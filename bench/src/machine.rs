//! What the figures were measured on.
//!
//! Owns: [`Machine`], and the memory this process and others have resident.
//! Read from `/proc`; elsewhere left out.

use std::fs;
use std::io;

use serde::Serialize;

/// A machine, as far as a reader of figures cares.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Operating system and architecture.
    pub system: String,
    /// The model of its processors.
    pub processor: Option<String>,
    /// Threads this process may run at once.
    pub threads: usize,
    /// Kibibytes of memory.
    pub memory_kib: Option<u64>,
    /// Whether this is an optimised build. Figures of another mean nothing.
    pub release: bool,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let version = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let os = std::env::consts::OS;
        Self {
            system: format!("{os} {} {}", version.trim(), std::env::consts::ARCH),
            processor: field("/proc/cpuinfo", "model name"),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_kib: kib("/proc/meminfo", "MemTotal"),
            release: !cfg!(debug_assertions),
        }
    }
}

/// Forgets the peak, so that [`peak_resident_kib`] tells what came after.
pub fn forget_peak() {
    // Not allowed everywhere; then the peak is that of the whole process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most kibibytes the process had resident since [`forget_peak`].
pub fn peak_resident_kib() -> Option<u64> {
    kib("/proc/self/status", "VmHWM")
}

/// Memory another process has resident.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// Now.
    pub now_kib: u64,
    /// The most since [`forget_peak_of`].
    pub peak_kib: u64,
}

/// What a process has resident.
pub fn resident_of(process: u32) -> Option<Resident> {
    let file = format!("/proc/{process}/status");
    Some(Resident { now_kib: kib(&file, "VmRSS")?, peak_kib: kib(&file, "VmHWM")? })
}

/// Forgets the peak of another process.
pub fn forget_peak_of(process: u32) -> io::Result<()> {
    fs::write(format!("/proc/{process}/clear_refs"), "5")
}

fn kib(file: &str, name: &str) -> Option<u64> {
    field(file, name)?.split_whitespace().next()?.parse().ok()
}

/// The value of the first line `name: value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
