//! What a client sends beside its key, in little memory: how many different user agents and paths, and which of them most.

use super::keys::hash_of;

/// Who a client seems to be, by its user agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Few agents, or mostly one: a program, or a person.
    OneAgent,
    /// Several do, as where many users share one address. A program that changes its name looks the same.
    ManyAgents,
}

/// Fewer different agents may well be one user.
const MANY: u64 = 4;

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::OneAgent => "one-agent",
            Kind::ManyAgents => "many-agents",
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::OneAgent => "few user agents, or mostly one: one program, or one person",
            Kind::ManyAgents => "many user agents, as of many users behind one address",
        }
    }
}

/// The user agents of a client in 16 bytes: about how many, and whether one of them sends most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agents {
    distinct: Different<1>,
    /// The one that would win a majority vote, by its hash, and how far it is ahead.
    ahead: u32,
    by: u32,
}

impl Agents {
    pub(crate) fn add(&mut self, agent: &str) {
        let hash = hash_of(agent);
        self.distinct.add_hash(hash);
        #[allow(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = (hash >> 16) as u32;
        match (self.ahead == half, self.by) {
            (_, 0) => (self.ahead, self.by) = (half, 1),
            (true, _) => self.by = self.by.saturating_add(1),
            (false, _) => self.by -= 1,
        }
    }

    /// After so many checks; none if no agent was seen.
    pub(crate) fn kind(&self, checks: u64) -> Option<Kind> {
        match self.distinct.estimate() {
            0 => None,
            // Half the checks ahead of all others: a majority, and certainly if it has three quarters.
            count if count < MANY || u64::from(self.by) * 2 > checks => Some(Kind::OneAgent),
            _ => Some(Kind::ManyAgents),
        }
    }
}

/// About how many different texts: one bit for each of their hashes (linear counting). 32 words estimate
/// up to about ten thousand, and never more than 15,615; one word a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Different<const WORDS: usize> {
    bits: [u64; WORDS],
}

impl<const WORDS: usize> Default for Different<WORDS> {
    fn default() -> Self {
        Different { bits: [0; WORDS] }
    }
}

impl<const WORDS: usize> Different<WORDS> {
    pub(crate) fn add(&mut self, text: &str) {
        self.add_hash(hash_of(text));
    }

    fn add_hash(&mut self, hash: u64) {
        let place = usize::try_from(hash % (WORDS as u64 * 64)).unwrap_or(0);
        self.bits[place / 64] |= 1 << (place % 64);
    }

    pub(crate) fn estimate(&self) -> u64 {
        let all = (WORDS * 64) as f64;
        let zeros: u32 = self.bits.iter().map(|word| word.count_zeros()).sum();
        let estimate = all * (all / f64::from(zeros.max(1))).ln();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate of a count"
        )]
        let rounded = estimate.round() as u64;
        rounded
    }
}

/// Texts that are counted at a time.
const SLOTS: usize = 10;
/// How many are reported.
const SHOWN: usize = 5;

/// The most frequent texts. Up to ten different ones are counted exactly; with more, counts are too low rather than too
/// high, and frequent texts stay (Misra and Gries).
#[derive(Clone, Debug, Default)]
pub(crate) struct Frequent {
    counts: Vec<(Box<str>, u64)>,
}

impl Frequent {
    pub(crate) fn add(&mut self, text: &str) {
        if let Some((_, count)) = self.counts.iter_mut().find(|(known, _)| **known == *text) {
            *count += 1;
        } else if self.counts.len() < SLOTS {
            self.counts.push((text.into(), 1));
        } else {
            self.counts.retain_mut(|(_, count)| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// The most frequent first.
    pub(crate) fn top(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> =
            self.counts.iter().map(|(text, count)| (&**text, *count)).collect();
        all.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        all.truncate(SHOWN);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_texts_are_estimated() {
        for count in [0, 1, 3, 10, 100, 1_000, 5_000] {
            let mut many = Different::<32>::default();
            (0..count).chain(0..count).for_each(|number| many.add(&format!("/items/{number}")));
            let estimate = many.estimate();
            assert!(estimate.abs_diff(count) * 12 <= count.max(8), "{count}: {estimate}");
        }
    }

    #[test]
    fn one_program_or_many_users() {
        let kind = |agents: &[(&str, u64)]| {
            let (mut seen, mut checks) = (Agents::default(), 0);
            // In turn, as requests come.
            for round in 0..100 {
                for (agent, share) in agents.iter().filter(|(_, share)| round % 10 < *share) {
                    seen.add(agent);
                    checks += u64::from(*share > 0);
                }
            }
            seen.kind(checks)
        };
        assert_eq!(kind(&[]), None);
        assert_eq!(kind(&[("curl", 10)]), Some(Kind::OneAgent));
        assert_eq!(kind(&[("chrome", 5), ("firefox", 5)]), Some(Kind::OneAgent));
        let users = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 5));
        assert_eq!(kind(&users), Some(Kind::ManyAgents));
        // A program among a few others still sends most of it.
        let bot = [("bot", 10), ("a", 1), ("b", 1), ("c", 0), ("d", 1)];
        assert_eq!(kind(&bot), Some(Kind::OneAgent));
    }

    #[test]
    fn frequent_texts_stay_and_are_never_counted_too_high() {
        let mut frequent = Frequent::default();
        for number in 0..1_000 {
            frequent.add("/login");
            frequent.add(&format!("/items/{number}"));
        }
        assert!(frequent.counts.len() <= SLOTS);
        let (text, count) = frequent.top()[0];
        assert!(text == "/login" && (800..=1_000).contains(&count), "{text} {count}");
        let mut few = Frequent::default();
        ["b", "a", "b", "c", "a", "b"].iter().for_each(|text| few.add(text));
        assert_eq!(few.top(), [("b", 3), ("a", 2), ("c", 1)]);
    }
}
