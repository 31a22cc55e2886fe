//! Faults of our own, each of which its oracle must notice: an oracle that cannot complain proves nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Each admission counts twice.
    CountedTwice,
    /// What was used is not committed.
    LostSettlement,
    /// An override is cleared behind the back of the one who set it.
    LostBlock,
    /// A place is held that no client gives back.
    LostSlot,
    /// A server hangs for longer than callers are patient.
    Mute,
}
