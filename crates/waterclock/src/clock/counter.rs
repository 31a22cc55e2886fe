//! The processor's time stamp counter, and whether the kernel itself keeps time by it.

/// The counter. Zero where there is none that we read: [`is_trusted`] is false there.
///
/// Unsafe by its signature only: RDTSC takes no pointer and changes no memory, and every x86-64 processor has it. Where
/// a process was denied it (`PR_SET_TSC`), it raises a signal; Linux's own `clock_gettime`, which [`is_trusted`] says
/// reads the counter, would then do the same. What the value means is [`Guard`](super::guard::Guard)'s business.
///
/// It is worth an `unsafe`: the safe crate `quanta` blocks for up to 200 ms to measure the counter when the first clock is
/// made, and a guarded read with it takes 34 instructions, with this one 14.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#[inline(always)]
#[allow(unsafe_code)]
pub(super) fn ticks() -> u64 {
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
#[inline(always)]
pub(super) fn ticks() -> u64 {
    0
}

/// Whether the kernel keeps time by the counter. It stops if its watchdog finds the counter unstable. `None` if it does
/// not say: a process that has no file descriptor left cannot ask.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
pub(super) fn is_trusted() -> Option<bool> {
    is_tsc("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
pub(super) fn is_trusted() -> Option<bool> {
    Some(false)
}

/// Whether the file says `tsc`. Without allocating: a check may be what reads it.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
fn is_tsc(path: &str) -> Option<bool> {
    use std::io::Read as _;

    let mut source = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut source));
    read.ok().map(|len| source[..len].trim_ascii() == b"tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_tsc_is_trusted() {
        let path = std::env::temp_dir().join(format!("clocksource-{}", std::process::id()));
        let path = path.to_str().unwrap();
        let says = |text: &str| {
            std::fs::write(path, text).unwrap();
            is_tsc(path)
        };
        assert_eq!(says("tsc\n"), Some(true));
        assert_eq!(says("tsc"), Some(true));
        for other in ["hpet\n", "kvm-clock\n", "tsc-early\n", "", "a long name of a clock source\n"]
        {
            assert_eq!(says(other), Some(false), "{other:?}");
        }
        std::fs::remove_file(path).unwrap();
        assert_eq!(is_tsc(path), None, "a file that is not there");
    }
}
