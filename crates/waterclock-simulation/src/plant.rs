//! Planted bugs: each must be caught by the oracle that is there for it.

/// A bug that is planted in one layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plant {
    /// None.
    #[default]
    None,
    /// Script: one unit more than the limit is admitted.
    ShortAdmitsOneMore,
    /// Script: records are written without a time to live.
    NoTimeToLive,
    /// Script: a check is not charged.
    ChargeIsLost,
    /// Script: a clock that stepped back is believed.
    NoRedating,
    /// Link: a call that may have been made is made again.
    Repeats,
    /// Fallback: each node serves the whole limit.
    WholeLimitPerNode,
    /// Lease: units that were not spent are not returned.
    LeaseIsKept,
    /// Reservations: a settlement is answered and not made.
    SettlementIsLost,
    /// Reservations: what is released when its time is over is not given back.
    ReleaseIsLost,
    /// Reservations in a cluster, as it once was: the record says settled before the keys are, so that what fails in
    /// between is never made.
    SettledBeforeItIs,
    /// Reservations in a cluster, as it once was: where a slot's clock has ended one early, nothing is charged.
    EndedIsNotCharged,
    /// Undo, as it once was: what is taken back is given back to the window that is open now.
    UndoneInLaterWindow,
    /// Undo, as it once was: charges behind one that is taken back do not move up.
    NothingMovesUp,
    /// Undo: a charge that another slot refused is not taken back.
    UndoIsLost,
    /// Cluster: a server serves slots that were its own once, as if the store did not follow where they move.
    MovedIsServed,
    /// Sentinels: some nodes are told of no failover, as if the store did not follow the primary.
    FailoverIsMissed,
    /// The store never falls back, and waits for as long as it takes.
    NoDeadline,
}

impl Plant {
    /// All that are found within a few thousand seeds. [`Self::EndedIsNotCharged`] is found by a story of its own.
    pub const ALL: [Self; 16] = [
        Self::ShortAdmitsOneMore,
        Self::NoTimeToLive,
        Self::ChargeIsLost,
        Self::NoRedating,
        Self::Repeats,
        Self::WholeLimitPerNode,
        Self::LeaseIsKept,
        Self::SettlementIsLost,
        Self::ReleaseIsLost,
        Self::SettledBeforeItIs,
        Self::UndoneInLaterWindow,
        Self::NothingMovesUp,
        Self::UndoIsLost,
        Self::MovedIsServed,
        Self::FailoverIsMissed,
        Self::NoDeadline,
    ];

    /// By the name that the command line knows it by.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().chain([Self::EndedIsNotCharged]);
        all.find(|plant| format!("{plant:?}") == name)
    }

    /// The text that it puts in another's place in the scripts. A script without that text is as it was.
    fn change(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::ShortAdmitsOneMore => {
                ("now + tonumber(ARGV[i + 1])", "now + tonumber(ARGV[i + 1]) + tonumber(ARGV[i])")
            }
            Self::NoTimeToLive => (
                "if ttl then call('SET', charge.key, record, 'PX', ttl) else",
                "if false then call('SET', charge.key, record, 'PX', ttl) else",
            ),
            Self::ChargeIsLost => (
                "if writes or charge.tidied and not charge.translated then save(charge) end\n  return state",
                "return state",
            ),
            Self::NoRedating => (
                "if redated then full_at = latest elseif",
                "if redated then redated = false elseif",
            ),
            Self::LeaseIsKept => ("limit.does.refund(limit.numbers, limit.state, limit.cost)", ""),
            Self::SettlementIsLost => ("if back > 0 then", "if false then"),
            Self::ReleaseIsLost => ("if n > 0 and how == RELEASE then", "if false then"),
            Self::EndedIsNotCharged => {
                ("if known == 'settled' then", "if not known or known == 'settled' then")
            }
            Self::NothingMovesUp => ("if not moved or not charge.due", "if true or not charge.due"),
            Self::UndoneInLaterWindow => {
                ("if s.closes == closes then fixed.refund(p, s, n) end", "fixed.refund(p, s, n)")
            }
            Self::UndoIsLost => ("if undoes and n > 0 then", "if false then"),
            _ => return None,
        })
    }

    /// The script with this bug in it, if it is one of those.
    #[must_use]
    pub fn script(self, source: &str) -> Option<String> {
        let (from, to) = self.change()?;
        source.contains(from).then(|| source.replacen(from, to, 1))
    }

    /// What a command becomes, if it is one that this bug changes.
    pub(crate) fn tampers(self, words: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
        let [_, _, keys, _, _, _, expected, record, _] = words else { return None };
        if self != Self::SettledBeforeItIs || keys != b"1" {
            return None;
        }
        // One record in another's place: behind it, how it is settled, and a cost of each charge.
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let at = 14 + 7 * number(record.get(7..14)?);
        let charges = number(record.get(at..at + 4)?);
        let behind = 1 + 12 * charges;
        if record.len() != expected.len() + behind {
            return None;
        }
        let mut words = words.to_vec();
        let how = record.len() - behind;
        words[7][how] &= 1;
        Some(words)
    }

    /// Whether a command is executed twice.
    pub(crate) fn repeats(self, words: &[Vec<u8>], random: &mut fastrand::Rng) -> bool {
        self == Self::Repeats && words.len() > 4 && random.u8(..) < 8
    }
}
