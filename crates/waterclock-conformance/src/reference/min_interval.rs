//! min-interval: a gap after each admission. An algorithm, and an attribute of any other limit.

use super::meter::Meter;
use super::search::{Time, Units};

/// The end of the current gap.
#[derive(Clone, Debug)]
pub(super) struct MinInterval {
    every: Time,
    open_at: Time,
}

impl MinInterval {
    pub(super) fn new(every_ns: u64) -> Self {
        Self { every: Time::from(every_ns), open_at: 0 }
    }
}

impl Meter for MinInterval {
    fn limit(&self) -> Option<Units> {
        None
    }

    fn fits(&self, at: Time, _cost: Units) -> bool {
        at >= self.open_at
    }

    fn is_fresh(&self, at: Time) -> bool {
        at >= self.open_at
    }

    fn charge(&mut self, at: Time, _cost: Units) {
        self.open_at = at + self.every;
    }

    /// Attempts keep the gap open too, so hammering never ends it.
    fn record(&mut self, at: Time, cost: Units) {
        self.charge(at, cost);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::policy;
    use super::super::{Algorithm, LimitSpec, Mode, Model, PolicySpec, Verb};

    #[test]
    fn a_batch_is_one_event() {
        let mut model = policy(Algorithm::MinInterval { every_ns: 100 });
        let first = model.apply(0, Verb::Check, u64::MAX);
        assert_eq!((first.allowed, first.limit, first.remaining), (true, None, Some(0)));
        assert_eq!((first.next_unit_ns, first.reset_after_ns), (Some(100), 100));
        assert_eq!(model.apply(99, Verb::Check, 1).retry_after_ns, Some(1));
        assert!(model.apply(100, Verb::Check, 1).allowed);
    }

    fn with_gap(mode: Mode) -> Model {
        let algorithm = Algorithm::RollingWindow { limit: 5, per_ns: 100, buckets: None };
        let limit = LimitSpec { algorithm, min_interval_ns: Some(10), shadow: false };
        Model::new(PolicySpec { mode, shadow: false, limits: vec![limit] })
    }

    #[test]
    fn as_an_attribute_it_closes_the_limit() {
        let mut model = with_gap(Mode::Binary);
        let first = model.apply(0, Verb::Check, 1);
        assert_eq!((first.remaining, first.next_unit_ns), (Some(0), Some(10)));
        assert_eq!(model.apply(4, Verb::Check, 4).retry_after_ns, Some(6));
        assert_eq!(model.apply(5, Verb::Refund, 1).remaining, Some(0));
        assert_eq!(model.apply(10, Verb::Peek, 1).remaining, Some(5));
    }

    #[test]
    fn in_uniform_attempts_begin_the_gap() {
        let mut model = with_gap(Mode::CountRefusals);
        model.apply(0, Verb::Check, 1);
        let refused = model.apply(9, Verb::Check, 1);
        assert_eq!((refused.allowed, refused.retry_after_ns), (false, Some(10)));
        assert_eq!((refused.remaining, refused.counter), (Some(0), Some(3)));
        assert!(!model.apply(18, Verb::Check, 1).allowed);
    }
}
