//! The fields of a limit in text, and the core's `Limit` that they make.
//!
//! TOML, shorthand, old limits and JSON all become [`LimitFields`], so that one function makes a `Limit` of
//! text, and one makes text of a `Limit`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use waterclock::calendar::{self, CalendarError};
use waterclock::{
    Align, CalendarUnit, Concurrency, Decimal, ErrorRate, EvenSlots, FixedWindow, Gcra,
    LeakyBucket, Limit, LimitError, MinInterval, Quota, RollingWindow, SlidingWindow,
};

use super::duration::Micros;
use super::suggest::quoted;

/// The unit of limits that name none.
const REQUESTS: &str = "requests";

/// Every field of a limit, in the order in which JSON has them. Durations are in microseconds; what the
/// algorithm does not take is absent, and switches are there when they are on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitFields {
    pub(crate) name: String,
    pub(crate) algorithm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per_us: Option<u64>,
    /// The unit of a calendar window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drip: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) every_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) buckets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threshold: Option<Percent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cool_down_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease_us: Option<u64>,
    /// Absent for windows that start with the first admitted cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) align: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timezone: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) overdraft: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_interval_us: Option<u64>,
    /// Absent for requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shadow: bool,
}

/// Why fields do not make a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitFieldsError {
    /// A field that the algorithm needs is absent.
    Missing(&'static str),
    /// A field has a word that is not known here.
    Unknown {
        /// The field.
        field: &'static str,
        /// Its value.
        word: String,
    },
    /// The numbers do not work together.
    Limit(LimitError),
    /// The calendar window cannot be made.
    Calendar(CalendarError),
}

impl fmt::Display for LimitFieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(field) => write!(f, "`{field}` is missing"),
            Self::Unknown { field, word } => write!(f, "unknown `{field}` {}", quoted(word)),
            Self::Limit(error) => error.fmt(f),
            Self::Calendar(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LimitFieldsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Limit(error) => Some(error),
            Self::Calendar(error) => Some(error),
            Self::Missing(_) | Self::Unknown { .. } => None,
        }
    }
}

impl From<LimitError> for LimitFieldsError {
    fn from(error: LimitError) -> Self {
        Self::Limit(error)
    }
}

impl LimitFieldsError {
    /// The key of the file to point at.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Missing(field) | Self::Unknown { field, .. } => field,
            Self::Calendar(CalendarError::UnknownTimeZone(_)) => "timezone",
            Self::Limit(LimitError::SlowRefill)
            | Self::Calendar(CalendarError::Limit(LimitError::SlowRefill)) => "capacity",
            Self::Limit(_) | Self::Calendar(_) => "limit",
        }
    }
}

impl From<&Limit> for LimitFields {
    fn from(limit: &Limit) -> LimitFields {
        let micros = |time: Option<Duration>| time.map(|time| Micros::from(time).0);
        let calendar = limit.calendar();
        LimitFields {
            name: limit.name().to_owned(),
            algorithm: limit.algorithm().name().to_owned(),
            limit: limit.limit(),
            per_us: micros(limit.period()),
            per: calendar.and_then(|calendar| Some(calendar.unit()?.name().to_owned())),
            capacity: limit.capacity(),
            drip: limit.drip(),
            every_us: micros(limit.every()),
            buckets: limit.buckets(),
            threshold: limit.threshold().map(Percent),
            min_samples: limit.min_samples(),
            cool_down_us: micros(limit.cool_down()),
            lease_us: micros(limit.lease()),
            align: limit
                .align()
                .map(Align::name)
                .filter(|align| *align != "first")
                .map(str::to_owned),
            timezone: calendar.and_then(|calendar| calendar.time_zone()).map(str::to_owned),
            overdraft: limit.overdraft(),
            min_interval_us: micros(limit.min_interval()),
            unit: Some(limit.unit()).filter(|unit| *unit != REQUESTS).map(str::to_owned),
            shadow: limit.is_shadow(),
        }
    }
}

impl LimitFields {
    /// The limit that the fields describe.
    pub fn limit(&self) -> Result<Limit, LimitFieldsError> {
        let limit = self.algorithm()?.with_shadow(self.shadow);
        let limit = limit.with_unit(self.unit.as_deref().unwrap_or(REQUESTS));
        let limit = if self.name.is_empty() { limit } else { limit.with_name(&self.name) };
        Ok(match self.min_interval_us {
            Some(micros) => limit.with_min_interval(Duration::from_micros(micros))?,
            None => limit,
        })
    }

    fn algorithm(&self) -> Result<Limit, LimitFieldsError> {
        let limit = || self.limit.ok_or(LimitFieldsError::Missing("limit"));
        let per = || time("per", self.per_us);
        let every = || time("every", self.every_us);
        Ok(match self.algorithm.as_str() {
            "gcra" | "token-bucket" => {
                let gcra = Gcra::new(limit()?, per()?)?;
                let capacity = self.capacity.unwrap_or(limit()?);
                let gcra = gcra.with_capacity(capacity).with_overdraft(self.overdraft);
                // The library clamps such a capacity; text should say what it does.
                if gcra.capacity() < capacity {
                    return Err(LimitError::SlowRefill.into());
                }
                gcra.into()
            }
            "leaky-bucket" => {
                let capacity = self.capacity.ok_or(LimitFieldsError::Missing("capacity"))?;
                let leaky = LeakyBucket::new(capacity, self.drip.unwrap_or(1), every()?)?;
                leaky.with_overdraft(self.overdraft).into()
            }
            "fixed-window" => match self.align.as_deref() {
                None | Some("first") => FixedWindow::new(limit()?, per()?)?.into(),
                Some("epoch") => FixedWindow::aligned(limit()?, per()?)?.into(),
                Some("calendar") => self.on_calendar(limit()?)?.into(),
                Some(other) => return Err(unknown_word("align", other)),
            },
            "sliding-window" => SlidingWindow::new(limit()?, per()?)?.into(),
            "rolling-window" => match self.buckets {
                None => RollingWindow::new(limit()?, per()?)?.into(),
                Some(buckets) => RollingWindow::bucketed(limit()?, per()?, buckets)?.into(),
            },
            "quota" => Quota::new(limit()?, per()?)?.into(),
            "even-slots" => EvenSlots::new(limit()?, per()?)?.into(),
            "min-interval" => MinInterval::new(every()?)?.into(),
            "error-rate" => {
                let Percent(threshold) =
                    self.threshold.ok_or(LimitFieldsError::Missing("threshold"))?;
                let samples = self.min_samples.ok_or(LimitFieldsError::Missing("min_samples"))?;
                let cool_down = time("cool_down", self.cool_down_us)?;
                ErrorRate::new(threshold, per()?, samples, cool_down)?.into()
            }
            "concurrency" => Concurrency::new(limit()?, time("lease", self.lease_us)?)?.into(),
            other => return Err(unknown_word("algorithm", other)),
        })
    }

    fn on_calendar(&self, limit: u64) -> Result<FixedWindow, LimitFieldsError> {
        let unit = self.per.as_deref().ok_or(LimitFieldsError::Missing("per"))?;
        let unit = CalendarUnit::parse(unit).ok_or_else(|| unknown_word("per", unit))?;
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        calendar::fixed_window(limit, unit, zone).map_err(LimitFieldsError::Calendar)
    }
}

fn time(name: &'static str, micros: Option<u64>) -> Result<Duration, LimitFieldsError> {
    micros.map(Duration::from_micros).ok_or(LimitFieldsError::Missing(name))
}

fn unknown_word(field: &'static str, word: &str) -> LimitFieldsError {
    LimitFieldsError::Unknown { field, word: word.to_owned() }
}

/// A share in hundredths of a percent. Text has it as `"12.5%"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percent(pub(crate) u64);

impl Percent {
    /// At most two decimals.
    pub(crate) fn parse(text: &str) -> Option<Percent> {
        let percent = Decimal::parse_scientific(text.strip_suffix('%')?)?;
        Some(Percent(percent.times(100.into())?.to_whole()?))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => write!(f, "{whole}%"),
            _ => write!(f, "{}%", format!("{whole}.{rest:02}").trim_end_matches('0')),
        }
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Percent::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{} is not a percentage such as \"12.5%\"",
                quoted(&text)
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_what_its_fields_say() {
        let text = r#"{"name":"x","algorithm":"leaky-bucket","capacity":10,"drip":2,"every_us":1000000,"unit":"bytes"}"#;
        let fields: LimitFields = serde_json::from_str(text).unwrap();
        let limit = fields.limit().unwrap();
        assert_eq!((limit.name(), limit.unit(), limit.drip()), ("x", "bytes", Some(2)));
        assert_eq!(serde_json::to_string(&LimitFields::from(&limit)).unwrap(), text);
    }

    #[test]
    fn errors_name_the_field() {
        let error = |text| serde_json::from_str::<LimitFields>(text).unwrap().limit().unwrap_err();
        assert_eq!(error(r#"{"algorithm":"quota","limit":5}"#), LimitFieldsError::Missing("per"));
        assert_eq!(error(r#"{"algorithm":"guess"}"#).to_string(), "unknown `algorithm` \"guess\"");
    }

    #[test]
    fn percentages_have_two_decimals() {
        for text in ["0%", "100%", "12.5%", "0.01%"] {
            assert_eq!(Percent::parse(text).unwrap().to_string(), text);
        }
        for text in ["12.345%", "12", "%", "-1%"] {
            assert_eq!(Percent::parse(text), None, "{text}");
        }
    }
}
