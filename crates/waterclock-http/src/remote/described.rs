//! Policies as the server describes them, made into policies again.

use std::time::Duration;

use serde::Deserialize;
use waterclock::calendar::{self, CalendarUnit};
use waterclock::{
    Concurrency, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, LimitError,
    MinInterval, Mode, Policy, Quota, RollingWindow, SlidingWindow,
};

/// What `/v1/policies` answers.
#[derive(Debug, Deserialize)]
pub(super) struct Described {
    policies: Vec<DescribedPolicy>,
}

#[derive(Debug, Deserialize)]
struct DescribedPolicy {
    name: String,
    mode: String,
    #[serde(default)]
    shadow: bool,
    limits: Vec<DescribedLimit>,
}

/// Only what the limit's algorithm has; times in microseconds.
#[derive(Debug, Deserialize)]
struct DescribedLimit {
    name: String,
    algorithm: String,
    limit: Option<u64>,
    per_us: Option<u64>,
    per: Option<String>,
    capacity: Option<u64>,
    drip: Option<u64>,
    every_us: Option<u64>,
    buckets: Option<u64>,
    threshold: Option<String>,
    min_samples: Option<u64>,
    cool_down_us: Option<u64>,
    lease_us: Option<u64>,
    align: Option<String>,
    timezone: Option<String>,
    #[serde(default)]
    overdraft: bool,
    min_interval_us: Option<u64>,
    unit: Option<String>,
    #[serde(default)]
    shadow: bool,
}

impl Described {
    /// Each policy's name, and the policy, or why it cannot be one here.
    pub(super) fn policies(self) -> impl Iterator<Item = (String, Result<Policy, String>)> {
        self.policies.into_iter().map(|described| {
            let policy = described.policy().map_err(|reason| {
                format!(
                    "the server's policy `{}` cannot be used by this client: {reason}",
                    described.name
                )
            });
            (described.name, policy)
        })
    }
}

impl DescribedPolicy {
    fn policy(&self) -> Result<Policy, String> {
        let mode = match &*self.mode {
            "binary" => Mode::Binary,
            "nary" => Mode::Partial,
            "uniform" => Mode::CountRefusals,
            other => return Err(format!("it does not know the mode `{other}`")),
        };
        let limits =
            self.limits.iter().map(DescribedLimit::read).collect::<Result<Vec<Limit>, String>>()?;
        let policy = Policy::new(&self.name, limits).and_then(|policy| policy.with_mode(mode));
        policy.map(|policy| policy.with_shadow(self.shadow)).map_err(|error| error.to_string())
    }
}

impl DescribedLimit {
    fn read(&self) -> Result<Limit, String> {
        let limit = self.algorithm()?.with_name(&self.name).with_shadow(self.shadow);
        let limit = match &self.unit {
            Some(unit) => limit.with_unit(unit),
            None => limit,
        };
        match self.min_interval_us {
            Some(interval) => limit
                .with_min_interval(Duration::from_micros(interval))
                .map_err(|error| error.to_string()),
            None => Ok(limit),
        }
    }

    fn algorithm(&self) -> Result<Limit, String> {
        let units = || self.number("limit", self.limit);
        let per = || self.number("per_us", self.per_us).map(Duration::from_micros);
        let every = || self.number("every_us", self.every_us).map(Duration::from_micros);
        let capacity = || self.number("capacity", self.capacity);
        let unsound = |error: LimitError| error.to_string();
        Ok(match &*self.algorithm {
            "gcra" => {
                let gcra = Gcra::new(units()?, per()?).map_err(unsound)?;
                gcra.with_capacity(capacity()?).with_overdraft(self.overdraft).into()
            }
            "leaky-bucket" => {
                let drip = self.number("drip", self.drip)?;
                let leaky = LeakyBucket::new(capacity()?, drip, every()?).map_err(unsound)?;
                leaky.with_overdraft(self.overdraft).into()
            }
            "fixed-window" => match self.align.as_deref() {
                None => FixedWindow::new(units()?, per()?).map_err(unsound)?.into(),
                Some("epoch") => FixedWindow::aligned(units()?, per()?).map_err(unsound)?.into(),
                Some("calendar") => self.on_calendar(units()?)?.into(),
                Some(other) => {
                    return Err(format!("it does not know windows aligned to `{other}`"));
                }
            },
            "sliding-window" => SlidingWindow::new(units()?, per()?).map_err(unsound)?.into(),
            "rolling-window" => match self.buckets {
                None => RollingWindow::new(units()?, per()?).map_err(unsound)?.into(),
                Some(buckets) => {
                    RollingWindow::bucketed(units()?, per()?, buckets).map_err(unsound)?.into()
                }
            },
            "quota" => Quota::new(units()?, per()?).map_err(unsound)?.into(),
            "even-slots" => EvenSlots::new(units()?, per()?).map_err(unsound)?.into(),
            "min-interval" => MinInterval::new(every()?).map_err(unsound)?.into(),
            "error-rate" => {
                let cool_down = self.number("cool_down_us", self.cool_down_us)?;
                let least = self.number("min_samples", self.min_samples)?;
                let cool_down = Duration::from_micros(cool_down);
                ErrorRate::new(self.threshold()?, per()?, least, cool_down).map_err(unsound)?.into()
            }
            "concurrency" => {
                let lease = Duration::from_micros(self.number("lease_us", self.lease_us)?);
                Concurrency::new(units()?, lease).map_err(unsound)?.into()
            }
            other => return Err(format!("it does not know the algorithm `{other}`")),
        })
    }

    /// A percentage with at most two decimals, in hundredths of a percent.
    fn threshold(&self) -> Result<u64, String> {
        let read = |text: &str| {
            let percent = text.strip_suffix('%')?;
            let (whole, decimals) = percent.split_once('.').unwrap_or((percent, ""));
            let hundredths = format!("{decimals:0<2}");
            let is_fine = hundredths.len() == 2;
            let whole: u64 = whole.parse().ok()?;
            is_fine.then_some(whole.checked_mul(100)? + hundredths.parse::<u64>().ok()?)
        };
        let found = self.threshold.as_deref().and_then(read);
        found.ok_or_else(|| format!("limit `{}` has no `threshold`", self.name))
    }

    fn on_calendar(&self, limit: u64) -> Result<FixedWindow, String> {
        let unit = match self.per.as_deref() {
            Some("day") => CalendarUnit::Day,
            Some("week") => CalendarUnit::Week,
            Some("month") => CalendarUnit::Month,
            Some("year") => CalendarUnit::Year,
            _ => return Err(format!("limit `{}` has no unit of the calendar", self.name)),
        };
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        calendar::fixed_window(limit, unit, zone).map_err(|error| error.to_string())
    }

    fn number(&self, name: &str, number: Option<u64>) -> Result<u64, String> {
        number.ok_or_else(|| format!("limit `{}` has no `{name}`", self.name))
    }
}
