//! error-rate: a log of all reports, and the phase of the breaker.

use super::meter::{Meter, positive};
use super::search::{Time, Units};

/// A circuit breaker over the reports that still count.
#[derive(Clone, Debug)]
pub(super) struct ErrorRate {
    /// In hundredths of a percent.
    threshold: u128,
    per: Time,
    min_samples: u128,
    cool_down: Time,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The reports since it last closed: when, and whether it was an error.
    Closed(Vec<(Time, bool)>),
    Open(Time),
    HalfOpen(Time),
}

impl ErrorRate {
    pub(super) fn new(threshold: u64, per_ns: u64, min_samples: u64, cool_down_ns: u64) -> Self {
        Self {
            threshold: positive(threshold),
            per: positive(per_ns),
            min_samples: positive(min_samples),
            cool_down: positive(cool_down_ns),
            phase: Phase::Closed(Vec::new()),
        }
    }

    /// Closes a breaker that is as good as fresh.
    fn expire(&mut self, at: Time) {
        if self.is_fresh(at) {
            self.phase = Phase::Closed(Vec::new());
        }
    }

    fn count(&mut self, at: Time, is_error: bool) {
        self.expire(at);
        match &mut self.phase {
            Phase::Closed(reports) => {
                reports.push((at, is_error));
                let recent = || reports.iter().filter(|(then, _)| then + self.per > at);
                let (all, bad) = (recent().count(), recent().filter(|(_, bad)| *bad).count());
                let (all, bad) = (all as u128, bad as u128);
                if all >= self.min_samples && bad * 10_000 >= self.threshold * all {
                    self.phase = Phase::Open(at);
                }
            }
            Phase::HalfOpen(since) if at < *since + self.cool_down => {
                self.phase = if is_error { Phase::Open(at) } else { Phase::Closed(Vec::new()) };
            }
            Phase::Open(_) | Phase::HalfOpen(_) => {}
        }
    }
}

impl Meter for ErrorRate {
    fn limit(&self) -> Option<Units> {
        None
    }

    fn fits(&self, at: Time, _cost: Units) -> bool {
        match &self.phase {
            Phase::Closed(_) => true,
            Phase::Open(since) | Phase::HalfOpen(since) => at >= since + self.cool_down,
        }
    }

    fn is_fresh(&self, at: Time) -> bool {
        match &self.phase {
            Phase::Closed(reports) => reports.iter().all(|(then, _)| then + self.per <= at),
            Phase::Open(since) | Phase::HalfOpen(since) => at >= since + self.cool_down + self.per,
        }
    }

    fn charge(&mut self, at: Time, _cost: Units) {
        self.expire(at);
        if !matches!(self.phase, Phase::Closed(_)) {
            self.phase = Phase::HalfOpen(at);
        }
    }

    fn report(&mut self, at: Time, is_error: bool, times: Units) {
        let probed = matches!(self.phase, Phase::HalfOpen(_)) && !self.is_fresh(at);
        // A probe takes one report, however many come at once.
        for _ in 0..if probed { times.min(1) } else { times } {
            self.count(at, is_error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::policy;
    use super::super::{Algorithm, Model, Verb};

    /// Half of at least four within a hundred, cooling for ten.
    fn breaker() -> Model {
        policy(Algorithm::ErrorRate {
            threshold: 5_000,
            per_ns: 100,
            min_samples: 4,
            cool_down_ns: 10,
        })
    }

    fn open_at(now: u64) -> Model {
        let mut model = breaker();
        model.apply(now, Verb::ReportOk, 2);
        assert!(model.apply(now, Verb::ReportError, 1).allowed);
        assert!(!model.apply(now, Verb::ReportError, 1).allowed);
        model
    }

    #[test]
    fn opens_at_the_report_that_is_one_too_many_and_admits_one_probe() {
        let mut model = open_at(7);
        let refused = model.apply(8, Verb::Check, 5);
        assert_eq!((refused.limit, refused.remaining), (None, Some(0)));
        assert_eq!((refused.retry_after_ns, refused.reset_after_ns), (Some(9), 109));
        assert!(model.apply(17, Verb::Peek, 1).allowed);
        assert!(model.apply(17, Verb::Check, 1).allowed);
        assert_eq!(model.apply(18, Verb::Check, 1).retry_after_ns, Some(9));
        // The probe is lost; the next one succeeds.
        assert!(model.apply(27, Verb::Check, 1).allowed);
        let closed = model.apply(30, Verb::ReportOk, 1);
        assert_eq!((closed.allowed, closed.remaining, closed.reset_after_ns), (true, None, 0));
    }

    #[test]
    fn an_error_of_the_probe_opens_it_again() {
        let mut model = open_at(0);
        model.apply(10, Verb::Check, 1);
        assert_eq!(model.apply(13, Verb::ReportError, 1).retry_after_ns, Some(10));
        // Late results of the time before are ignored.
        assert!(!model.apply(14, Verb::ReportOk, 9).allowed);
        assert!(model.apply(23, Verb::Check, 1).allowed);
    }

    #[test]
    fn reports_and_breakers_are_forgotten() {
        let mut model = breaker();
        model.apply(0, Verb::ReportError, 3);
        assert_eq!(model.apply(50, Verb::ReportOk, 0).reset_after_ns, 50);
        assert!(model.apply(100, Verb::ReportError, 3).allowed, "the first three are gone");
        let mut model = open_at(0);
        assert!(model.apply(110, Verb::ReportOk, 1).allowed);
        assert_eq!(model.apply(110, Verb::Check, 1).remaining, None, "closed, and no probe");
    }
}
