//! Planted bugs: each must be caught by the oracle that is there for it. They are planted where the layer meets the next.

/// A bug that is planted in one layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plant {
    /// None.
    #[default]
    None,
    /// Snapshot: a new one does not take the place of the old one.
    SnapshotIsNotPutInPlace,
    /// Snapshot, as it once was: a power loss brings the old one back.
    DirectoryIsNotSynced,
    /// Reload: keys start fresh.
    ReloadRefills,
    /// Reload: a file that is wrong is put in force as far as it can be read.
    WrongFileIsUsed,
    /// Line: checks do not see it.
    LineIsOvertaken,
    /// Line: a caller that has left keeps its place, and what it is charged.
    PlaceIsKept,
    /// Line: it takes longer than the caller has.
    AnswerIsLate,
    /// Reservations: what is released when its time is over is not given back.
    ExpiryIsLost,
    /// Reservations: a commit charges nothing.
    CommitIsFree,
    /// Clock: it is faster than time.
    ClockIsFast,
    /// Clock: it shows the same at each call.
    ClockStandsStill,
    /// Reload: a task keeps what was replaced for ever.
    OldPlanIsKept,
    /// Engine: a check of several keys that is refused charges the first.
    PartIsCharged,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::SnapshotIsNotPutInPlace,
        Self::DirectoryIsNotSynced,
        Self::ReloadRefills,
        Self::WrongFileIsUsed,
        Self::LineIsOvertaken,
        Self::PlaceIsKept,
        Self::AnswerIsLate,
        Self::ExpiryIsLost,
        Self::CommitIsFree,
        Self::ClockIsFast,
        Self::ClockStandsStill,
        Self::OldPlanIsKept,
        Self::PartIsCharged,
    ];

    /// The oracle that is there for it.
    #[must_use]
    pub fn oracle(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::WrongFileIsUsed | Self::ClockIsFast => "bound",
            Self::LineIsOvertaken => "turns",
            Self::ClockStandsStill => "wake-ups",
            Self::AnswerIsLate => "liveness",
            Self::OldPlanIsKept => "leaks",
            _ => "ledger",
        }
    }

    /// By the name that the command line knows it by.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plant| format!("{plant:?}") == name)
    }
}
