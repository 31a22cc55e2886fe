//! Units that are held now and settled later, told plainly: by what each limit was charged,
//! and when.

use super::Answer;
use super::limit::Verdict;
use super::model::{How, Model};
use super::search::{Time, Units};
use super::spec::Mode;

/// What one reservation was charged.
#[derive(Clone, Debug)]
pub struct Reservation {
    at: Time,
    until: Time,
    /// Per limit. None for a shadow limit that said no.
    parts: Vec<Option<Units>>,
    /// How much it holds of the limits that can refuse.
    pub held: u64,
}

impl Model {
    /// A check that can be settled, if it is admitted; in nary, in part.
    pub fn reserve(
        &mut self,
        now_ns: u64,
        cost: u64,
        ttl_ns: u64,
    ) -> (Answer, Option<Reservation>) {
        let now = self.arrive(now_ns);
        let each: Vec<Units> = self
            .limits
            .iter()
            .map(|limit| Verdict::of(&limit.at(now), self.spec.mode, cost.into()).granted)
            .collect();
        let live = Verdict::of(&self.live(), self.spec.mode, cost.into());
        let until = now + Time::from(ttl_ns);
        let answer = self.decide(cost.into(), Some(How::Hold { until }));
        let holds = answer.allowed || self.spec.mode == Mode::Partial && answer.granted > 0;
        let parts = self.limits.iter().zip(each).map(|(limit, own)| {
            let units = if limit.shadow { own } else { live.granted };
            (units > 0 || cost == 0).then_some(units)
        });
        let reservation =
            Reservation { at: now, until, parts: parts.collect(), held: answer.granted };
        (answer, holds.then_some(reservation))
    }

    /// What was held becomes what was used.
    pub fn settle(&mut self, now_ns: u64, reservation: &Reservation, actual: u64) {
        let (now, actual) = (self.arrive(now_ns), Units::from(actual));
        for (limit, part) in self.limits.iter_mut().zip(&reservation.parts) {
            let Some(units) = part else { continue };
            for meter in &mut limit.meters {
                meter.settle(now, (reservation.at, reservation.until), *units, actual);
            }
        }
    }
}
