use std::cell::Cell;

use super::*;

const SECOND: u64 = 1_000 * MS;
/// 3 GHz.
const TICKS_PER_NS: u64 = 3;

/// Two clocks that a test moves.
struct Fake {
    ticks: Cell<u64>,
    system: Cell<u64>,
    trusted: Cell<Option<bool>>,
    looks: Cell<u64>,
    /// Nanoseconds that each reading of the system's clock takes.
    slow: Cell<u64>,
}

impl Source for Fake {
    fn ticks(&self) -> u64 {
        self.ticks.get()
    }
    fn system(&self) -> u64 {
        self.advance(self.slow.get());
        self.system.get()
    }
    fn is_trusted(&self) -> Option<bool> {
        self.looks.set(self.looks.get() + 1);
        self.trusted.get()
    }
}

impl Fake {
    fn advance(&self, ns: u64) {
        self.system.set(self.system.get() + ns);
        self.ticks.set(self.ticks.get().wrapping_add(ns * TICKS_PER_NS));
    }

    fn skip_ticks(&self, by: i64) {
        self.ticks.set(self.ticks.get().wrapping_add_signed(by));
    }
}

fn start(first_ticks: u64) -> Guard<Fake> {
    Guard::new(Fake {
        ticks: Cell::new(first_ticks),
        system: Cell::new(SECOND),
        trusted: Cell::new(Some(true)),
        looks: Cell::new(0),
        slow: Cell::new(0),
    })
}

fn is_reading(guard: &Guard<Fake>) -> bool {
    guard.window.load(Ordering::Relaxed) > 0
}

/// One that reads its counter.
fn reading(first_ticks: u64) -> Guard<Fake> {
    let guard = start(first_ticks);
    for _ in 0..200 {
        guard.now();
        guard.source.advance(100_000);
    }
    assert!(is_reading(&guard));
    guard
}

/// Reads the clock: it has not gone back, and is no further off than this.
fn read(guard: &Guard<Fake>, last: &mut u64, off: u64) {
    let (now, system) = (guard.now(), guard.source.system.get());
    assert!(now >= *last, "{now} after {last}");
    assert!(now.abs_diff(system) <= off, "{now} instead of {system}");
    *last = now;
}

#[test]
fn keeps_to_the_system_clock_and_never_goes_back() {
    for first_ticks in [0, 1 << 40, u64::MAX / 2, u64::MAX - 1_000_000] {
        let (guard, mut last) = (start(first_ticks), 0);
        for step in 0..200_000_u64 {
            read(&guard, &mut last, LAG + 1_000);
            guard.source.advance(step * 7_919 % 3_000);
            // Long pauses, too.
            if step % 9_973 == 0 {
                guard.source.advance(step * SECOND);
            }
        }
        // The last one wraps while it is measured.
        assert_eq!(is_reading(&guard), first_ticks != u64::MAX / 2);
    }
}

#[test]
fn a_counter_is_read_between_two_settings() {
    let guard = reading(5);
    guard.now();
    let before = guard.now();
    // The system's clock stands still, and the counter is believed.
    guard.source.skip_ticks(300_000);
    assert_eq!((guard.now() - before) / 1_000, 99, "0.1 ms, a little slow");
}

#[test]
fn follows_a_system_clock_that_is_slowed_or_hurried() {
    for ppm in [-500, 500_i64] {
        let (guard, mut last) = (reading(0), 0);
        for _ in 0..100_000 {
            read(&guard, &mut last, LAG + 1_000);
            guard.source.advance(20_000);
            guard
                .source
                .system
                .set(guard.source.system.get().wrapping_add_signed(20 * ppm / 1_000));
        }
        assert!(is_reading(&guard));
    }
}

#[test]
fn a_jump_is_the_end_of_the_counter() {
    let ms = i64::try_from(MS * TICKS_PER_NS).unwrap();
    for jump in [ms + ms / 9, 4 * ms, 3_600_000 * ms, -ms - ms / 9, -4 * ms, i64::MIN / 2] {
        let (guard, mut last) = (reading(1 << 50), 0);
        read(&guard, &mut last, LAG);
        guard.source.skip_ticks(jump);
        for _ in 0..1_000 {
            read(&guard, &mut last, MS);
            guard.source.advance(10_000);
        }
        assert!(!is_reading(&guard), "{jump}");
        guard.source.skip_ticks(-jump);
        for _ in 0..1_000 {
            read(&guard, &mut last, MS);
            guard.source.advance(10_000);
        }
        assert!(!is_reading(&guard), "for good");
    }
}

#[test]
fn small_jumps_are_borne_and_never_add_up() {
    let (guard, mut last) = (reading(0), 0);
    guard.now();
    guard.source.skip_ticks(1_200_000);
    for _ in 0..1_000 {
        read(&guard, &mut last, MS);
        guard.source.advance(10_000);
    }
    assert!(is_reading(&guard));
    for _ in 0..3 {
        guard.now();
        guard.source.skip_ticks(1_200_000);
        for _ in 0..1_000 {
            read(&guard, &mut last, MS);
            guard.source.advance(1_000);
        }
    }
    assert!(!is_reading(&guard));
}

#[test]
fn a_system_clock_that_jumps_is_followed_at_once() {
    let (guard, mut last) = (reading(0), 0);
    read(&guard, &mut last, LAG);
    guard.source.system.set(guard.source.system.get() + SECOND);
    guard.source.advance(WINDOW_NS + 1_000);
    read(&guard, &mut last, LAG);
    assert!(!is_reading(&guard));
}

#[test]
fn what_the_kernel_does_not_trust_is_not_read() {
    let guard = start(0);
    guard.source.trusted.set(Some(false));
    let mut last = 0;
    for _ in 0..1_000 {
        read(&guard, &mut last, LAG);
        guard.source.advance(100_000);
    }
    assert!(!is_reading(&guard));
    guard.source.trusted.set(Some(true));
    guard.source.advance(SECOND);
    read(&guard, &mut last, LAG);
    assert!(!is_reading(&guard), "for good");
    assert_eq!(guard.source.looks.get(), 1, "asked once");
}

#[test]
fn what_the_kernel_stops_trusting_is_read_no_more() {
    let (guard, mut last) = (reading(0), 0);
    let looks = guard.source.looks.get();
    for _ in 0..10_000 {
        read(&guard, &mut last, LAG);
        guard.source.advance(100_000);
    }
    let looks = guard.source.looks.get() - looks;
    assert!((5..=10).contains(&looks), "about ten times in a second: {looks}");

    guard.source.trusted.set(Some(false));
    for _ in 0..2_000 {
        read(&guard, &mut last, LAG);
        guard.source.advance(100_000);
    }
    assert!(!is_reading(&guard));
    guard.source.trusted.set(Some(true));
    guard.source.advance(SECOND);
    read(&guard, &mut last, LAG);
    assert!(!is_reading(&guard), "for good");
}

#[test]
fn a_slow_counter_is_not_read() {
    let (guard, mut last) = (start(0), 0);
    for _ in 0..1_000 {
        read(&guard, &mut last, LAG);
        guard.source.system.set(guard.source.system.get() + 100_000);
        guard.source.skip_ticks(90_000);
    }
    assert!(!is_reading(&guard));
}

/// Reading the system's clock takes long: under an emulator, or because the thread was interrupted.
#[test]
fn slow_readings_are_neither_measured_nor_set_by() {
    let (guard, mut last) = (start(0), 0);
    guard.source.slow.set(5_000);
    for _ in 0..1_000 {
        read(&guard, &mut last, 3 * LAG);
        guard.source.advance(100_000);
    }
    assert!(is_reading(&guard));
    guard.source.slow.set(100_000);
    let set_at = guard.set_at.load(Ordering::Relaxed);
    for _ in 0..10 {
        guard.source.advance(SECOND);
        read(&guard, &mut last, LAG);
    }
    assert_eq!(guard.set_at.load(Ordering::Relaxed), set_at);
    guard.source.slow.set(0);
    guard.source.advance(SECOND);
    read(&guard, &mut last, LAG);
    assert!(guard.set_at.load(Ordering::Relaxed) > set_at);
    assert!(is_reading(&guard));
}

/// Without a file descriptor, the kernel cannot be asked; that is no reason to give up.
#[test]
fn a_kernel_that_cannot_be_asked_has_not_said_no() {
    let (guard, mut last) = (reading(0), 0);
    guard.source.trusted.set(None);
    for _ in 0..1_000 {
        guard.source.advance(MS);
        read(&guard, &mut last, LAG);
    }
    assert!(is_reading(&guard));
    guard.source.trusted.set(Some(false));
    guard.source.advance(LOOK_NS);
    guard.now();
    assert!(!is_reading(&guard));
}

/// While one thread sets the counter, others read the system's clock, and none of them sees time go back.
#[test]
fn while_another_thread_sets_it() {
    let (guard, mut last) = (reading(0), 0);
    for step in 0..10_000 {
        let other = (step % 3 == 0).then(|| guard.state.lock().unwrap());
        for _ in 0..7 {
            guard.source.advance(WINDOW_NS / 5);
            read(&guard, &mut last, 2 * LAG);
        }
        drop(other);
    }
    assert!(is_reading(&guard));
}
