//! What to change, in one sentence under the headline.

use super::advice::{Advice, Point, words};
use super::units::counted;
use super::{Report, grouped};

impl Advice {
    /// What it refuses at the limit to start with.
    pub(super) fn at_start(&self) -> Option<&Point> {
        self.curve.points.get(self.start_place()?)
    }

    /// The place of the limit to start with among the points of the curve.
    pub(super) fn start_place(&self) -> Option<usize> {
        let number = self.start_number()?;
        self.curve.points.iter().position(|point| point.number == number)
    }

    /// At its own number.
    fn at_own(&self) -> Option<&Point> {
        self.curve.points.get(self.curve.current?)
    }

    /// `burst from 30/min to 60/min: refuses 4 of 1,000 clients, not 60`. None if a looser number spares nobody
    /// but those that stand out.
    fn change(&self) -> Option<String> {
        let (own, start) = (self.at_own()?, self.at_start()?);
        (start.clients_refused < own.clients_refused).then(|| {
            format!(
                "{} from {} to {}: refuses {} of {} clients, not {}",
                self.limit,
                words(&own.limit),
                words(&start.limit),
                grouped(start.clients_refused),
                grouped(self.curve.clients),
                grouped(own.clients_refused)
            )
        })
    }
}

impl Report<'_> {
    /// What a reader can do about the headline. None if nothing is refused, or nothing is known.
    pub(super) fn suggestion(&self) -> Option<String> {
        if self.ledger.refused + self.ledger.in_shadow == 0 {
            return None;
        }
        let known = || self.advice.iter().filter(|advice| advice.at_start().is_some());
        let changes: Vec<String> = known().filter_map(Advice::change).collect();
        if !changes.is_empty() {
            return Some(changes.join("; "));
        }
        // Of a limit without a number nothing is promised.
        let is_known = known().count() == self.policy.limits().len() && known().count() > 0;
        let aside = known().map(|advice| advice.outliers).max().unwrap_or(0);
        let what = if self.policy.limits().len() == 1 { "it" } else { "each limit alone" };
        let apart = match usize::try_from(aside).unwrap_or(usize::MAX) {
            0 => String::new(),
            outliers => format!("apart from {}, ", counted(outliers, "outlier")),
        };
        let many = match known().map(|advice| advice.many_agents).max().unwrap_or(0) {
            0 => String::new(),
            1 => "; one outlier looks like many users behind one address".to_owned(),
            many => {
                format!("; {} outliers look like many users behind one address", grouped(many))
            }
        };
        is_known.then(|| format!("nothing; {apart}{what} refuses at most 0.1 % of clients{many}"))
    }
}
