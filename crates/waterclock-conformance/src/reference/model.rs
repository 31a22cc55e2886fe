//! One key under one policy: which limits are asked, which are charged, and the answer.

use super::meter::{self, Meter};
use super::min_interval::MinInterval;
use super::search::{MeterSet, Time, Units, narrow};
use super::spec::{Answer, LimitSpec, Mode, PolicySpec, Verb};

/// The naive model of one key.
#[derive(Clone, Debug)]
pub struct Model {
    spec: PolicySpec,
    limits: Vec<Limit>,
    /// The latest instant seen: a clock that steps back stands still.
    now: Time,
}

/// Whether an admitted cost is spent, or held until an instant.
#[derive(Clone, Copy, Debug)]
enum ChargeKind {
    Charge,
    Hold { until: Time },
}

impl Model {
    /// A fresh key.
    #[must_use]
    pub fn new(spec: PolicySpec) -> Self {
        let limits = spec.limits.iter().map(Limit::fresh).collect();
        Self { spec, limits, now: 0 }
    }

    /// Applies `verb` with `cost` at `now_ns`. Debits, refunds, reports and resets answer like a peek after them.
    pub fn apply(&mut self, now_ns: u64, verb: Verb, cost: u64) -> Answer {
        self.advance_to(now_ns);
        let cost = Units::from(cost);
        match verb {
            Verb::Check => return self.decide(cost, Some(ChargeKind::Charge)),
            Verb::Peek => {}
            Verb::Debit => self.debit(cost),
            Verb::ReportOk => self.report(false, cost),
            Verb::ReportError => self.report(true, cost),
            Verb::Refund => self.refund(cost),
            Verb::Reset => self.limits = self.spec.limits.iter().map(Limit::fresh).collect(),
        }
        self.decide(cost, None)
    }

    /// Moves time to `now_ns`, never back.
    fn advance_to(&mut self, now_ns: u64) -> Time {
        self.now = self.now.max(Time::from(now_ns));
        self.now
    }

    /// Whether a check is an error, because a limit can only be held by a reservation.
    pub fn reserves_only(&self) -> bool {
        let held = |limit: &Limit| limit.meters.iter().any(|meter| meter.reserve_only());
        !self.spec.shadow && self.limits.iter().any(|limit| !limit.shadow && held(limit))
    }

    fn decide(&mut self, cost: Units, how: Option<ChargeKind>) -> Answer {
        let (mode, now) = (self.spec.mode, self.now);
        let judge = |limit: &Limit| Verdict::of(&limit.at(now), mode, cost);
        let each: Vec<_> = self.limits.iter().map(judge).collect();
        let live = Verdict::of(&self.live(), mode, cost);
        if let Some(how) = how
            && cost > 0
        {
            self.charge(cost, live, &each, how);
        }
        let answer = self.answer(cost, live, &each);
        if self.spec.shadow { in_shadow(answer, cost) } else { answer }
    }

    /// Charges live limits what they grant together, and each shadow limit what it grants alone.
    fn charge(&mut self, cost: Units, live: Verdict, each: &[Verdict], how: ChargeKind) {
        for (limit, own) in self.limits.iter_mut().zip(each) {
            let granted = if limit.shadow { own.granted } else { live.granted };
            for meter in &mut limit.meters {
                match (self.spec.mode, how) {
                    (Mode::CountRefusals, _) => meter.record(self.now, cost),
                    _ if granted == 0 => {}
                    (_, ChargeKind::Charge) => meter.charge(self.now, granted),
                    (_, ChargeKind::Hold { until }) => meter.hold(self.now, granted, until),
                }
            }
        }
    }

    fn debit(&mut self, units: Units) {
        for meter in self.limits.iter_mut().flat_map(|limit| &mut limit.meters) {
            if units > 0 {
                meter.debit(self.now, units);
            }
        }
    }

    fn report(&mut self, is_error: bool, times: Units) {
        for meter in self.limits.iter_mut().flat_map(|limit| &mut limit.meters) {
            meter.report(self.now, is_error, times.min(65_536));
        }
    }

    fn refund(&mut self, units: Units) {
        for meter in self.limits.iter_mut().flat_map(|limit| &mut limit.meters) {
            meter.refund(self.now, units);
        }
    }

    fn answer(&self, cost: Units, live: Verdict, each: &[Verdict]) -> Answer {
        let (mut limits, mut refused_by, mut shadow_refused_by) = (vec![], vec![], vec![]);
        for (index, (limit, own)) in self.limits.iter().zip(each).enumerate() {
            limits.push(limit.at(self.now).answer(cost, own.allowed));
            if limit.shadow && own.refused {
                shadow_refused_by.push(index);
            } else if !limit.shadow && live.refused && !own.allowed {
                refused_by.push(index);
            }
        }
        let all = match (&*self.limits, &*limits) {
            // A single live limit has the policy's numbers: no need to search twice.
            ([Limit { shadow: false, .. }], [own]) => *own,
            _ => self.live().answer(cost, live.allowed),
        };
        Answer {
            allowed: live.allowed,
            granted: narrow(live.granted),
            limit: all.limit,
            remaining: all.remaining,
            retry_after_ns: all.retry_after_ns,
            next_unit_ns: all.next_unit_ns,
            reset_after_ns: all.reset_after_ns,
            refused_by,
            shadow_refused_by,
            counter: self.counter(),
            next_same_ns: if cost == 0 { Some(0) } else { self.live().retry(cost) },
            limits,
        }
    }

    fn counter(&self) -> Option<i64> {
        let uniform = self.spec.mode == Mode::CountRefusals;
        let counters = self.live().meters.into_iter().filter_map(|meter| meter.counter(self.now));
        counters.min().filter(|_| uniform)
    }

    fn live(&self) -> MeterSet<'_> {
        let limits = self.limits.iter().filter(|limit| !limit.shadow);
        let meters = limits.flat_map(|limit| &limit.meters).map(|meter| &**meter).collect();
        MeterSet { meters, now: self.now }
    }
}

/// The answer of a shadow policy: its limits are charged, but it never refuses.
fn in_shadow(answer: Answer, cost: Units) -> Answer {
    let mut shadow_refused_by = [answer.refused_by, answer.shadow_refused_by].concat();
    shadow_refused_by.sort_unstable();
    Answer {
        allowed: true,
        granted: narrow(cost),
        retry_after_ns: Some(0),
        next_same_ns: Some(0),
        refused_by: Vec::new(),
        shadow_refused_by,
        ..answer
    }
}

/// A reservation: what each limit was charged, and when.
#[derive(Clone, Debug)]
pub struct Reservation {
    at: Time,
    until: Time,
    /// Per limit; none for a shadow limit that refused.
    parts: Vec<Option<Units>>,
    /// How much it holds of the limits that can refuse.
    pub held: u64,
}

impl Model {
    /// A check that can be settled later. In partial mode it may hold a part of the cost.
    pub fn reserve(
        &mut self,
        now_ns: u64,
        cost: u64,
        ttl_ns: u64,
    ) -> (Answer, Option<Reservation>) {
        let now = self.advance_to(now_ns);
        let each: Vec<Units> = self
            .limits
            .iter()
            .map(|limit| Verdict::of(&limit.at(now), self.spec.mode, cost.into()).granted)
            .collect();
        let live = Verdict::of(&self.live(), self.spec.mode, cost.into());
        let until = now + Time::from(ttl_ns);
        let answer = self.decide(cost.into(), Some(ChargeKind::Hold { until }));
        let holds = answer.allowed || self.spec.mode == Mode::Partial && answer.granted > 0;
        let parts = self.limits.iter().zip(each).map(|(limit, own)| {
            let units = if limit.shadow { own } else { live.granted };
            (units > 0 || cost == 0).then_some(units)
        });
        let reservation =
            Reservation { at: now, until, parts: parts.collect(), held: answer.granted };
        (answer, holds.then_some(reservation))
    }

    /// Replaces what was held by what was used.
    pub fn settle(&mut self, now_ns: u64, reservation: &Reservation, actual: u64) {
        let (now, actual) = (self.advance_to(now_ns), Units::from(actual));
        for (limit, part) in self.limits.iter_mut().zip(&reservation.parts) {
            let Some(units) = part else { continue };
            for meter in &mut limit.meters {
                meter.settle(now, (reservation.at, reservation.until), *units, actual);
            }
        }
    }
}

/// A limit's algorithm and, if it has one, its gap.
#[derive(Clone, Debug)]
struct Limit {
    meters: Vec<Box<dyn Meter>>,
    shadow: bool,
}

impl Limit {
    fn fresh(spec: &LimitSpec) -> Self {
        let gap = spec.min_interval_ns.map(|every| Box::new(MinInterval::new(every)) as Box<_>);
        let meters = [Some(meter::fresh(&spec.algorithm)), gap];
        Self { meters: meters.into_iter().flatten().collect(), shadow: spec.shadow }
    }

    fn at(&self, now: Time) -> MeterSet<'_> {
        MeterSet { meters: self.meters.iter().map(|meter| &**meter).collect(), now }
    }
}

/// What one limit, or all live limits together, would do.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    /// Admit the whole cost.
    allowed: bool,
    /// Admit this much; in count-refusals mode, record it.
    granted: Units,
    /// Admit nothing. A partial grant is not a refusal.
    refused: bool,
}

impl Verdict {
    fn of(meters: &MeterSet<'_>, mode: Mode, cost: Units) -> Self {
        if meters.admit(cost) {
            return Self { allowed: true, granted: cost, refused: false };
        }
        let granted = match mode {
            Mode::CountRefusals => cost,
            Mode::Binary => 0,
            Mode::Partial => meters.remaining().map_or(0, |remaining| cost.min(remaining)),
        };
        Self { allowed: false, granted, refused: mode != Mode::Partial || granted == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, live};
    use super::super::{Algorithm, Align, LimitSpec, Mode, Model, PolicySpec, Verb};

    fn window(limit: u64, shadow: bool) -> LimitSpec {
        let align = Align::First;
        let algorithm = Algorithm::FixedWindow { limit, per_ns: 100 * MS, align };
        LimitSpec { algorithm, min_interval_ns: None, shadow }
    }

    fn windows(mode: Mode, shadow: bool, limits: [LimitSpec; 2]) -> Model {
        Model::new(PolicySpec { mode, shadow, limits: limits.into() })
    }

    #[test]
    fn limits_admit_together_or_not_at_all() {
        let mut model = windows(Mode::Binary, false, [window(5, false), window(3, false)]);
        let refused = model.apply(0, Verb::Check, 4);
        assert_eq!((refused.granted, refused.remaining), (0, Some(3)));
        assert_eq!((refused.refused_by, refused.retry_after_ns), (vec![1], None));
        let allowed: Vec<_> = refused.limits.iter().map(|limit| limit.allowed).collect();
        assert_eq!(allowed, [true, false]);
        assert_eq!(refused.limits[0].remaining, Some(5));
    }

    #[test]
    fn partial_mode_grants_what_fits() {
        let mut model = windows(Mode::Partial, false, [window(5, false), window(3, false)]);
        model.apply(0, Verb::Check, 1);
        let partial = model.apply(0, Verb::Check, 3);
        assert_eq!((partial.allowed, partial.granted), (false, 2));
        assert_eq!((&*partial.refused_by, partial.retry_after_ns), (&[][..], Some(100 * MS)));
        let refused = model.apply(0, Verb::Check, 3);
        assert_eq!((refused.granted, refused.refused_by), (0, vec![0, 1]));
    }

    #[test]
    fn a_shadow_limit_has_its_own_usage() {
        let mut model = windows(Mode::Binary, false, [window(3, false), window(5, true)]);
        let refused = model.apply(0, Verb::Check, 4);
        assert_eq!((refused.allowed, refused.limit), (false, Some(3)));
        assert_eq!(refused.limits[1].remaining, Some(1));
        let allowed = model.apply(0, Verb::Check, 3);
        assert!(allowed.allowed && allowed.refused_by.is_empty());
        assert_eq!((allowed.shadow_refused_by, allowed.remaining), (vec![1], Some(0)));

        let mut nary = windows(Mode::Partial, false, [window(9, false), window(2, true)]);
        let partial = nary.apply(0, Verb::Check, 3);
        assert!(partial.allowed && partial.shadow_refused_by.is_empty());
        assert_eq!(nary.apply(0, Verb::Check, 3).shadow_refused_by, [1]);
    }

    #[test]
    fn a_shadow_policy_never_refuses() {
        let mut model = windows(Mode::Binary, true, [window(1, true), window(3, false)]);
        let over = model.apply(0, Verb::Check, 4);
        assert_eq!((over.allowed, over.granted, over.retry_after_ns), (true, 4, Some(0)));
        assert_eq!((over.refused_by, over.shadow_refused_by), (vec![], vec![0, 1]));
        assert_eq!(over.remaining, Some(3));
    }

    #[test]
    fn waits_follow_limits_that_close_again() {
        let quota = live(Algorithm::Quota { limit: 4, per_ns: 100 });
        let slots = live(Algorithm::EvenSlots { limit: 1, per_ns: 120 });
        let spec = PolicySpec { mode: Mode::Binary, shadow: false, limits: vec![quota, slots] };
        // Four units pass in 0..25 of each hundred, and in the first 60 of each 120.
        let alone = |d: u64| d % 100 < 25 && d % 120 < 60;
        let refused = Model::new(spec).apply(70, Verb::Check, 4);
        assert_eq!(refused.retry_after_ns, (0..1_000).find(|d| alone(70 + d)));
    }
}
