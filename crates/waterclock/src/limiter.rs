use waterclock_core::store::{Decide as _, Logs, Migrate as _, Reserve as _, State, View};
use waterclock_core::{Decision, Outcome, Policy, Timestamp};

use crate::clock::{Clock, TscClock};
use crate::reservation::{HeldUnder, Reservation, Settle};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::table::copied;
use crate::wait::{Gate, Line, Place, Wait, WaitError, stand_back};

/// All waiters share one queue.
const ONLY_KEY: u64 = 0;

/// One policy, one budget, in this process.
///
/// ```
/// use waterclock::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::per_second(50));
/// if limiter.check().is_allowed() { /* serve */ }
/// ```
#[derive(Debug)]
pub struct Limiter<C = TscClock> {
    policy: Policy,
    memory: Memory,
    clock: C,
    line: Line,
}

/// What the limiter remembers. One word needs no lock.
#[derive(Debug)]
enum Memory {
    Word(AtomicU64),
    Words(Mutex<Words>),
}

#[derive(Debug)]
struct Words {
    latest: Timestamp,
    words: Vec<u64>,
    logs: Logs,
}

impl Memory {
    fn new(policy: &Policy) -> Self {
        if policy.words() == 1 && !policy.keeps_logs() {
            return Self::Word(AtomicU64::new(0));
        }
        let words = vec![0; policy.words()];
        Self::Words(Mutex::new(Words { latest: Timestamp::ZERO, words, logs: Logs::new() }))
    }
}

impl Limiter {
    /// A limiter on the [default clock](TscClock).
    pub fn new(policy: impl Into<Policy>) -> Self {
        Self::with_clock(policy, TscClock::default())
    }
}

impl<C: Clock> Limiter<C> {
    /// A limiter on another source of time.
    pub fn with_clock(policy: impl Into<Policy>, clock: C) -> Self {
        let policy = policy.into();
        Self { memory: Memory::new(&policy), policy, clock, line: Line::default() }
    }

    /// Decides about one unit, and charges it if it is allowed.
    #[inline(always)]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Decides about `cost` units, and charges what is allowed. Where limits count different units, about so many
    /// of each.
    #[inline(always)]
    pub fn check_n(&self, cost: u64) -> Decision {
        if self.line.is_empty() {
            return self.check_first(cost);
        }
        copied(&self.check_behind(cost))
    }

    /// A check while others wait.
    #[cold]
    fn check_behind(&self, cost: u64) -> Decision {
        match self.line.backlog(ONLY_KEY) {
            0 => self.check_first(cost),
            backlog => stand_back(cost, backlog, |cost| self.peek_n(cost)),
        }
    }

    #[inline(always)]
    pub(crate) fn check_first(&self, cost: u64) -> Decision {
        if let Memory::Word(word) = &self.memory
            && let Some(policy) = self.policy.one_word()
        {
            let now = self.clock.now();
            return swap_until_kept(word, |word| policy.check(word, now, cost));
        }
        copied(&self.check_by_any(cost))
    }

    #[inline(never)]
    fn check_by_any(&self, cost: u64) -> Decision {
        self.apply(|policy, state, now| policy.check(state, now, cost))
    }

    /// Holds one unit, to be settled later.
    pub fn reserve(&self) -> Result<Reservation<'_>, Decision> {
        self.reserve_n(1)
    }

    /// Holds `estimate` units, to be settled later; the error is the refusal. In partial mode it holds what
    /// fits.
    pub fn reserve_n(&self, estimate: u64) -> Result<Reservation<'_>, Decision> {
        let backlog = if self.line.is_empty() { 0 } else { self.line.backlog(ONLY_KEY) };
        if backlog > 0 && estimate > 0 {
            return Err(stand_back(estimate, backlog, |cost| self.peek_n(cost)));
        }
        let (decision, held) =
            self.apply(|policy, state, now| policy.reserve(state, now, &estimate.into()));
        let held = held.ok_or(decision)?;
        let held = HeldUnder { policy: None, held };
        Ok(Reservation::new(self, ONLY_KEY, decision, held))
    }

    /// Waits until one unit is admitted.
    pub fn wait(&self) -> Wait<'_> {
        self.wait_n(1)
    }

    /// Waits until `cost` units are admitted.
    pub fn wait_n(&self, cost: u64) -> Wait<'_> {
        Wait::new(self, cost)
    }

    /// Decides about one unit and charges nothing.
    pub fn peek(&self) -> Decision {
        self.peek_n(1)
    }

    /// Decides about `cost` units and charges nothing.
    pub fn peek_n(&self, cost: u64) -> Decision {
        self.apply(|policy, state, now| policy.peek(state.view(), now, &cost.into()))
    }

    /// Charges `cost` units that were used already, whatever there is room for and into debt if need be:
    /// for a cost that is only known afterwards.
    pub fn debit(&self, cost: u64) {
        self.apply(|policy, state, now| policy.debit(state, now, &cost.into()));
    }

    /// Tells how something that was admitted ended: true, or [`Outcome::Ok`], if well. Only limits by the
    /// share of errors care.
    pub fn report(&self, outcome: impl Into<Outcome>) {
        let outcome = outcome.into();
        self.apply(|policy, state, now| policy.report(state, now, outcome, &1.into()));
        self.line.nudge(ONLY_KEY);
    }

    /// Gives back up to `cost` units that were charged before.
    pub fn refund(&self, cost: u64) {
        self.apply(|policy, state, now| policy.refund(state, now, &cost.into()));
        self.line.nudge(ONLY_KEY);
    }

    /// Clears the state.
    pub fn reset(&self) {
        self.apply(|policy, state, _| policy.clear(state));
        self.line.nudge(ONLY_KEY);
    }

    /// The policy it applies.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Applies another policy from now on. Limits with the same name and algorithm keep what was
    /// spent; others start fresh. A limiter that is shared changes its policy as a
    /// [`KeyedLimiter`](crate::KeyedLimiter) with one key does: under `&self`.
    pub fn set_policy(&mut self, policy: impl Into<Policy>) {
        let policy = policy.into();
        let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
        let mut now = self.clock.now();
        let mut state = State::new(&mut words, &mut logs);
        match &self.memory {
            Memory::Word(word) => {
                let memory = [word.load(Ordering::Acquire)];
                policy.migrate(&self.policy, View::new(&memory, &Logs::new()), &mut state, now);
            }
            Memory::Words(old) => {
                let old = lock(old);
                now = now.max(old.latest);
                policy.migrate(&self.policy, View::new(&old.words, &old.logs), &mut state, now);
            }
        }
        self.memory = match Memory::new(&policy) {
            Memory::Word(_) => Memory::Word(AtomicU64::new(words[0])),
            Memory::Words(_) => Memory::Words(Mutex::new(Words { latest: now, words, logs })),
        };
        self.policy = policy;
    }

    /// Applies a pure function to the state, atomically.
    fn apply<R>(&self, decide: impl Fn(&Policy, &mut State<'_>, Timestamp) -> R) -> R {
        let now = self.clock.now();
        match &self.memory {
            Memory::Word(word) => swap_until_kept(word, |word| {
                let words = std::slice::from_mut(word);
                decide(&self.policy, &mut State::new(words, &mut Logs::new()), now)
            }),
            Memory::Words(memory) => {
                let mut memory = lock(memory);
                let Words { latest, words, logs } = &mut *memory;
                *latest = (*latest).max(now);
                decide(&self.policy, &mut State::new(words, logs), *latest)
            }
        }
    }
}

/// Applies a pure function to the word, again if another thread changed it meanwhile.
#[inline(always)]
fn swap_until_kept<R>(word: &AtomicU64, decide: impl Fn(&mut u64) -> R) -> R {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let mut next = seen;
        let answer = decide(&mut next);
        if next == seen {
            return answer;
        }
        // Nothing else is published through the word: its own order is enough.
        match word.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return answer,
            Err(newer) => seen = newer,
        }
    }
}

impl<C: Clock> Settle for Limiter<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn settle(&self, _key: u64, held: &HeldUnder, used: u64) {
        // The policy cannot have changed: changing it takes `&mut self`.
        self.apply(|policy, state, now| policy.settle(state, now, &held.held, &used.into()));
        self.line.nudge(ONLY_KEY);
    }

    fn release(&self, _key: u64, held: &HeldUnder) {
        self.apply(|policy, state, now| policy.release(state, now, &held.held));
        self.line.nudge(ONLY_KEY);
    }
}

impl<C: Clock> Gate for &Limiter<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn peek(&self, cost: u64) -> Decision {
        self.peek_n(cost)
    }

    fn check(&self, cost: u64) -> Decision {
        self.check_first(cost)
    }

    fn refund(&self, cost: u64) {
        Limiter::refund(self, cost);
    }

    fn join(&self, cost: u64, most: usize) -> Result<Place<'_>, WaitError> {
        self.line.join(ONLY_KEY, cost, most)
    }
}
