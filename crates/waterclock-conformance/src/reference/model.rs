//! One key under one policy: who is asked, who is charged, what is reported.

use super::answer::Answer;
use super::limit::{Limit, Verdict};
use super::search::{Time, Units, narrow};
use super::spec::{Mode, PolicySpec, Verb};
use super::together::Together;

/// The naive model of one key.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) spec: PolicySpec,
    pub(super) limits: Vec<Limit>,
    /// The latest instant seen: a clock that steps back stands still.
    now: Time,
}

/// How an admitted cost is spent.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Charge,
    Hold { until: Time },
}

impl Model {
    /// A key that was never seen.
    #[must_use]
    pub fn new(spec: PolicySpec) -> Self {
        let limits = spec.limits.iter().map(Limit::fresh).collect();
        Self { spec, limits, now: 0 }
    }

    /// Does `verb` with `cost` at `now_ns`. A debit, a refund and a reset then answer as a peek
    /// would.
    pub fn apply(&mut self, now_ns: u64, verb: Verb, cost: u64) -> Answer {
        self.arrive(now_ns);
        let cost = Units::from(cost);
        match verb {
            Verb::Check => return self.decide(cost, Some(How::Charge)),
            Verb::Peek => {}
            Verb::Debit => self.debit(cost),
            Verb::ReportOk => self.hear(false, cost),
            Verb::ReportError => self.hear(true, cost),
            Verb::Refund => self.refund(cost),
            Verb::Reset => self.limits = self.spec.limits.iter().map(Limit::fresh).collect(),
        }
        self.decide(cost, None)
    }

    /// The instant, or the latest one seen if that is later.
    pub(super) fn arrive(&mut self, now_ns: u64) -> Time {
        self.now = self.now.max(Time::from(now_ns));
        self.now
    }

    /// Whether a check is an error: somebody must be able to give back what it would take.
    pub fn reserves_only(&self) -> bool {
        let held = |limit: &Limit| limit.meters.iter().any(|meter| meter.only_held());
        !self.spec.shadow && self.limits.iter().any(|limit| !limit.shadow && held(limit))
    }

    pub(super) fn decide(&mut self, cost: Units, how: Option<How>) -> Answer {
        let (mode, now) = (self.spec.mode, self.now);
        let judge = |limit: &Limit| Verdict::of(&limit.at(now), mode, cost);
        let each: Vec<_> = self.limits.iter().map(judge).collect();
        let live = Verdict::of(&self.live(), mode, cost);
        if let Some(how) = how
            && cost > 0
        {
            self.charge(cost, live, &each, how);
        }
        let answer = self.report(cost, live, &each);
        if self.spec.shadow { in_shadow(answer, cost) } else { answer }
    }

    /// Live limits are charged what they grant together, a shadow limit what it grants alone.
    fn charge(&mut self, cost: Units, live: Verdict, each: &[Verdict], how: How) {
        for (limit, own) in self.limits.iter_mut().zip(each) {
            let granted = if limit.shadow { own.granted } else { live.granted };
            for meter in &mut limit.meters {
                match (self.spec.mode, how) {
                    (Mode::CountRefusals, _) => meter.record(self.now, cost),
                    _ if granted == 0 => {}
                    (_, How::Charge) => meter.charge(self.now, granted),
                    (_, How::Hold { until }) => meter.hold(self.now, granted, until),
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

    fn hear(&mut self, is_error: bool, times: Units) {
        for meter in self.limits.iter_mut().flat_map(|limit| &mut limit.meters) {
            meter.report(self.now, is_error, times.min(65_536));
        }
    }

    fn refund(&mut self, units: Units) {
        for meter in self.limits.iter_mut().flat_map(|limit| &mut limit.meters) {
            meter.refund(self.now, units);
        }
    }

    fn report(&self, cost: Units, live: Verdict, each: &[Verdict]) -> Answer {
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
            // Alone, a live limit's own numbers are the policy's: no need to search twice.
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
            limits,
        }
    }

    fn counter(&self) -> Option<i64> {
        let uniform = self.spec.mode == Mode::CountRefusals;
        let counters = self.live().meters.into_iter().filter_map(|meter| meter.counter(self.now));
        counters.min().filter(|_| uniform)
    }

    pub(super) fn live(&self) -> Together<'_> {
        let limits = self.limits.iter().filter(|limit| !limit.shadow);
        let meters = limits.flat_map(|limit| &limit.meters).map(|meter| &**meter).collect();
        Together { meters, now: self.now }
    }
}

/// What a shadow policy says: what happened to its limits, but never a refusal.
fn in_shadow(answer: Answer, cost: Units) -> Answer {
    let mut shadow_refused_by = [answer.refused_by, answer.shadow_refused_by].concat();
    shadow_refused_by.sort_unstable();
    Answer {
        allowed: true,
        granted: narrow(cost),
        retry_after_ns: Some(0),
        refused_by: Vec::new(),
        shadow_refused_by,
        ..answer
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
    fn nary_grants_what_fits() {
        let mut model = windows(Mode::Partial, false, [window(5, false), window(3, false)]);
        model.apply(0, Verb::Check, 1);
        let partial = model.apply(0, Verb::Check, 3);
        assert_eq!((partial.allowed, partial.granted), (false, 2));
        assert_eq!((&*partial.refused_by, partial.retry_after_ns), (&[][..], Some(100 * MS)));
        let refused = model.apply(0, Verb::Check, 3);
        assert_eq!((refused.granted, refused.refused_by), (0, vec![0, 1]));
    }

    #[test]
    fn a_shadow_limit_lives_its_own_life() {
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
    fn what_closes_again_is_waited_for_together() {
        let quota = live(Algorithm::Quota { limit: 4, per_ns: 100 });
        let slots = live(Algorithm::EvenSlots { limit: 1, per_ns: 120 });
        let spec = PolicySpec { mode: Mode::Binary, shadow: false, limits: vec![quota, slots] };
        // Four units pass in 0..25 of each hundred, and in the first 60 of each 120.
        let alone = |d: u64| d % 100 < 25 && d % 120 < 60;
        let refused = Model::new(spec).apply(70, Verb::Check, 4);
        assert_eq!(refused.retry_after_ns, (0..1_000).find(|d| alone(70 + d)));
    }
}
