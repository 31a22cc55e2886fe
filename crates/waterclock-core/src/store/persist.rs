//! States that are kept elsewhere for a while: what to check before they count again.

use alloc::string::String;

use super::{State, View, definition};
use crate::algorithm::Meter;
use crate::{Algorithm, ErrorRate, Limit, MAX_PERIOD, MAX_UNITS, Policy, Timestamp};

/// No algorithm looks further ahead than two periods from the last instant there is.
#[expect(clippy::cast_possible_truncation, reason = "100 years are 2^62 ns")]
const LATEST: u64 = Timestamp::MAX.as_nanos() + 2 * MAX_PERIOD.as_nanos() as u64;
/// Attempts are counted up to twice a limit.
const MOST: u64 = 2 * MAX_UNITS;

/// Keeping states elsewhere, and reading them back.
pub trait Persist: super::Sealed {
    /// Which of a state's words are handles of logs.
    fn log_words(&self) -> impl Iterator<Item = usize>;

    /// Whether a state could have been written by these algorithms, so that none of them overflows.
    #[must_use]
    fn is_sound(&self, view: View<'_>) -> bool;

    /// Fills the fresh `state` of a key with what another place remembers under the same definition.
    fn adopt(&self, memory: View<'_>, state: &mut State<'_>);

    /// A state that was last written at `written`, by a clock that is only at `now` by now: what was used
    /// then is used now.
    fn rewind(&self, state: &mut State<'_>, written: Timestamp, now: Timestamp);

    /// Everything that gives the words of a state their meaning, one line per limit: its name,
    /// algorithm, gap and numbers. Two policies that read the same keep the same state, but for the
    /// edges of a calendar, which are code.
    #[must_use]
    fn definition(&self) -> String;

    /// The policy of a definition, in binary mode. A calendar's windows are read as windows that start
    /// with the first cost: what was counted in them means the same.
    #[must_use]
    fn from_definition(name: &str, text: &str) -> Option<Self>
    where
        Self: Sized;
}

impl Persist for Policy {
    fn log_words(&self) -> impl Iterator<Item = usize> {
        self.parts().filter(|(_, limit)| limit.algorithm().keeps_log()).map(|(start, _)| start)
    }

    fn is_sound(&self, view: View<'_>) -> bool {
        view.words.len() == self.state_words()
            && self.parts().all(|(start, limit)| is_sound(limit, view.part(start, limit.words())))
    }

    fn adopt(&self, memory: View<'_>, state: &mut State<'_>) {
        state.words.copy_from_slice(memory.words);
        for start in self.log_words() {
            let entries = memory.logs.entries(memory.words[start]);
            state.words[start] = state.logs.put(entries);
        }
    }

    fn rewind(&self, state: &mut State<'_>, written: Timestamp, now: Timestamp) {
        let by = written.as_nanos().saturating_sub(now.as_nanos());
        if by == 0 {
            return;
        }
        for (start, limit) in self.parts() {
            let part = state.part(start, limit.words());
            if let Algorithm::Gcra(gcra) = limit.algorithm() {
                // A debt is as deep as it was, however deep.
                let full_at = gcra.full_at(part.words);
                let by = u128::from(by) * u128::from(gcra.unit_ns().1);
                gcra.set_full_at(full_at.saturating_sub(by), part.words);
                if let Some(gap) = limit.gap() {
                    let at = gcra.words();
                    part.words[at] = part.words[at].min(now.as_nanos() + gap.every);
                }
            } else {
                limit.redate(part, now.as_nanos());
            }
        }
    }

    fn definition(&self) -> String {
        definition::write(self)
    }

    fn from_definition(name: &str, text: &str) -> Option<Self> {
        definition::read(name, text)
    }
}

fn is_sound(limit: &Limit, view: View<'_>) -> bool {
    let own = limit.algorithm().words();
    let gap_is_sound = limit.min_interval().is_none() || view.words[own] <= LATEST;
    gap_is_sound
        && match (limit.algorithm(), &view.words[..own]) {
            // Sums saturate: too much debt stays too much.
            (Algorithm::Gcra(_), _) => true,
            (Algorithm::LeakyBucket(_), &[level, anchor]) => level <= MOST && anchor <= LATEST,
            (Algorithm::FixedWindow(_) | Algorithm::Quota(_), &[end, count]) => {
                end <= LATEST && count <= MOST
            }
            (Algorithm::SlidingWindow(_), &[end, previous, current]) => {
                end <= LATEST && previous <= MOST && current <= MOST
            }
            (Algorithm::RollingWindow(_) | Algorithm::Concurrency(_), &[log]) => {
                is_sound_log(view.logs.entries(log))
            }
            (Algorithm::ErrorRate(_), &[log, tripped]) => {
                ErrorRate::is_sound(view.logs.entries(log), tripped, LATEST)
            }
            (Algorithm::EvenSlots(_) | Algorithm::MinInterval(_), &[until]) => until <= LATEST,
            _ => false,
        }
}

fn is_sound_log(mut entries: impl Iterator<Item = (u64, u64)>) -> bool {
    let (mut before, mut total) = (0, 0_u64);
    entries.all(|(stamp, size)| {
        total = total.saturating_add(size);
        let in_order = before <= stamp && stamp <= LATEST;
        before = stamp;
        in_order && total <= MOST
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::time::Duration;

    use super::*;
    use crate::store::{Decide as _, Logs};
    use crate::{
        EvenSlots, FixedWindow, Gcra, LeakyBucket, MinInterval, Outcome, Quota, RollingWindow,
        SlidingWindow,
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// A limit of each kind that admits 3 at once at most, and some of them in every second.
    fn limits() -> Vec<Limit> {
        alloc::vec![
            Gcra::new(3, SECOND).unwrap().into(),
            LeakyBucket::new(3, 3, SECOND).unwrap().into(),
            FixedWindow::new(3, SECOND).unwrap().into(),
            SlidingWindow::new(3, SECOND).unwrap().into(),
            RollingWindow::new(3, SECOND).unwrap().into(),
            Quota::new(3, SECOND).unwrap().into(),
            EvenSlots::new(3, SECOND).unwrap().into(),
            MinInterval::new(SECOND).unwrap().into(),
        ]
    }

    #[test]
    fn what_a_clock_ahead_wrote_is_used_now_and_comes_back_soon() {
        let (written, now) = (Timestamp::from_micros(1_000_000_000), Timestamp::from_micros(9));
        for limit in limits() {
            let policy = Policy::from(limit);
            let (mut words, mut logs) = (alloc::vec![0; policy.words()], Logs::new());
            let mut state = State::new(&mut words, &mut logs);
            while policy.check(&mut state, written, 1).is_allowed() {}
            policy.rewind(&mut state, written, now);
            let refused = policy.check(&mut state, now, 1);
            assert!(!refused.is_allowed(), "{policy:?}");
            let retry = refused.retry_after().unwrap();
            assert!(retry <= 2 * SECOND, "{policy:?}: {retry:?}");
            let later =
                Timestamp::from_nanos(now.as_nanos() + u64::try_from(retry.as_nanos()).unwrap());
            assert!(policy.check(&mut state, later, 1).is_allowed(), "{policy:?}");
        }
    }

    #[test]
    fn what_is_written_is_sound() {
        let now = Timestamp::from_micros(7);
        for limit in limits() {
            let policy = Policy::from(limit);
            let (mut words, mut logs) = (alloc::vec![0; policy.words()], Logs::new());
            let mut state = State::new(&mut words, &mut logs);
            while policy.check(&mut state, now, 1).is_allowed() {}
            assert!(policy.is_sound(state.view()), "{policy:?}");
        }
        for outcomes in [[Outcome::Ok; 2], [Outcome::Error; 2], [Outcome::Ok, Outcome::Error]] {
            let breaker = ErrorRate::new(5_000, SECOND, 9, SECOND).unwrap();
            let policy = Policy::from(Limit::from(breaker));
            let (mut words, mut logs) = (alloc::vec![0; policy.words()], Logs::new());
            let mut state = State::new(&mut words, &mut logs);
            for outcome in outcomes {
                policy.report(&mut state, now, outcome, &1.into());
            }
            assert!(policy.is_sound(state.view()), "{outcomes:?}");
        }
    }
}
