//! What the kernel knows about this thread and this process.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time this thread has used: other processes do not count.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes of memory this process occupies.
pub fn resident() -> usize {
    status("VmRSS:")
}

/// The most it occupied since [`forget_peak`].
pub fn peak_resident() -> usize {
    status("VmHWM:")
}

pub fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("the kernel can forget the peak");
}

fn status(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a known field");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib * 1024
}
