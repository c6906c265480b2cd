//! What the kernel says of a process.

/// Which memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What is resident now.
    Now,
    /// The most that was ever resident.
    Peak,
}

/// Resident memory of a process in bytes; 0 once the process has ended.
pub fn memory(process: u32, which: Memory) -> u64 {
    let name = match which {
        Memory::Now => "VmRSS:",
        Memory::Peak => "VmHWM:",
    };
    status(process, name).unwrap_or(0) << 10
}

/// The process that started it; `None` once it has ended.
pub fn parent(process: u32) -> Option<u32> {
    status(process, "PPid:")?.try_into().ok()
}

/// A number in the status of a process.
fn status(process: u32, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
