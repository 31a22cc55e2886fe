//! Which key is asked about next.

use fastrand::Rng;

/// Any of so many keys, each as likely as the others; the same sequence in every run.
pub(super) struct Keys {
    random: Rng,
    many: u64,
}

impl Keys {
    pub(super) fn new(many: u64, connection: u64) -> Keys {
        Keys { random: Rng::with_seed(connection), many }
    }

    /// The next one's number.
    pub(super) fn next(&mut self) -> u64 {
        self.random.u64(0..self.many.max(1))
    }

    /// The next one's name.
    pub(super) fn next_name(&mut self) -> String {
        format!("bench-{}", self.next())
    }
}
