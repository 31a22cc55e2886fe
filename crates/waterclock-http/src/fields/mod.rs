//! The header fields by which a response tells a client about its limits.

mod ietf;
mod prepared;
mod x_ratelimit;

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use waterclock::{Answer, Limit, LimitDecision, Policy};
pub use waterclock::{HeaderStyle, Jitter};

pub(crate) use self::prepared::{Prepared, ResponseFields};

const RETRY_AFTER: &str = "retry-after";

/// Header fields of a response, each name once.
///
/// Iterate over them for protocols that carry them elsewhere (gRPC), or write them into a [`HeaderMap`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderFields(Vec<(&'static str, String)>);

impl HeaderFields {
    /// The fields for a check of one charge.
    #[must_use]
    pub fn new(style: HeaderStyle, policy: &Policy, answer: &Answer) -> Self {
        let (name, jitter) = (policy.name(), Jitter::NONE);
        Self::for_check([StyledAnswer { style, name, policy, answer, jitter }])
    }

    /// The fields for a check of one or more charges, each in its own policy's style.
    ///
    /// Lists are joined, in the order of the charges. If two styles share a name (`draft-03`, `github` and `legacy`
    /// do), the value of `draft-03` is used, and of `github` before `legacy`. There is one `Retry-After`: the longest wait,
    /// each made longer by its own jitter.
    #[must_use]
    pub fn for_check<'a, I>(answers: I) -> Self
    where
        I: IntoIterator<Item = StyledAnswer<'a>>,
        I::IntoIter: Clone,
    {
        let answers = answers.into_iter();
        if answers.clone().all(|answer| answer.is_hidden()) {
            return Self::default();
        }
        // One draw for all fields of the response, so that they say the same.
        let has_jitter = answers.clone().any(|answer| !answer.jitter.is_none());
        let drawn = if has_jitter { fastrand::u32(..) } else { 0 };
        let in_style = |style| {
            answers.clone().filter(move |answer| answer.style == style && !answer.is_hidden())
        };
        let mut fields = Self::default();
        let is_ietf = |style| matches!(style, HeaderStyle::Ietf | HeaderStyle::Draft10);
        let shown = answers.clone().filter(|answer| !answer.is_hidden());
        ietf::write(shown.filter(|answer| is_ietf(answer.style)), &mut fields);
        x_ratelimit::write_legacy(in_style(HeaderStyle::Legacy), drawn, &mut fields);
        x_ratelimit::write_github(in_style(HeaderStyle::GitHub), &mut fields);
        x_ratelimit::write_draft_03(in_style(HeaderStyle::Draft03), &mut fields);
        let shown = answers.filter(|answer| !answer.is_hidden());
        if let Some(wait) = longest_wait(shown, drawn) {
            fields.set(RETRY_AFTER, seconds_up(wait).max(1).to_string());
        }
        fields
    }

    /// The fields as (name in lower case, value); values are printable ASCII.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The value of the field with this name, in lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes them into `headers`, replacing fields of the same names.
    pub fn write_to(self, headers: &mut HeaderMap) {
        for (name, value) in self.into_headers() {
            headers.insert(name, value);
        }
    }

    /// Adds them to `headers` that an inner layer may have written to: lists are extended, and all other
    /// fields keep the value they have.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        for (name, value) in self.into_headers() {
            if ietf::LISTS.contains(&name.as_str()) {
                headers.append(name, value);
            } else {
                headers.entry(name).or_insert(value);
            }
        }
    }

    fn into_headers(self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        // Every value is printable ASCII, so none is dropped here.
        self.0.into_iter().filter_map(|(name, value)| {
            Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
        })
    }

    /// Sets a field, replacing its value.
    fn set(&mut self, name: &'static str, value: String) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }
}

impl IntoIterator for HeaderFields {
    type Item = (&'static str, String);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The answer to one charge of a check, and the style in which a client sees it.
#[derive(Clone, Copy, Debug)]
pub struct StyledAnswer<'a> {
    /// The style.
    pub style: HeaderStyle,
    /// The name by which clients know the policy.
    pub name: &'a str,
    /// The policy that decided.
    pub policy: &'a Policy,
    /// What it answered.
    pub answer: &'a Answer,
    /// By how much the advised wait is spread.
    pub jitter: Jitter,
}

impl<'a> StyledAnswer<'a> {
    /// Whether clients never see it. Shadow policies are always hidden.
    pub(crate) fn is_hidden(&self) -> bool {
        self.style == HeaderStyle::None || self.policy.is_shadow()
    }

    fn is_refused(&self) -> bool {
        self.policy.refuses(&self.answer.decision)
    }

    /// The limits that can refuse, with their numbers, in policy order.
    fn limits(&self) -> impl Iterator<Item = (&'a Limit, &'a LimitDecision)> + use<'a> {
        let numbered = self.policy.limits().iter().zip(&self.answer.limits);
        numbered.filter(|(limit, _)| !limit.is_shadow())
    }

    /// How long to wait after a refusal; at least until every refusing limit has a unit again.
    fn wait(&self) -> Option<Duration> {
        let wait = self.answer.decision.retry_after()?;
        let refusing = self.limits().filter(|(_, decision)| !decision.allowed);
        Some(refusing.filter_map(|(_, decision)| decision.next_unit).fold(wait, Duration::max))
    }
}

/// The exact wait that clients may know; `Retry-After` rounds it up.
pub(crate) fn disclosed_wait<'a>(
    answers: impl Iterator<Item = StyledAnswer<'a>>,
) -> Option<Duration> {
    longest_wait(answers.filter(|answer| !answer.is_hidden()), 0)
}

/// The longest wait of the refused answers, spread as it was drawn; `None` if none was refused or one of them can never
/// pass.
fn longest_wait<'a>(
    answers: impl Iterator<Item = StyledAnswer<'a>>,
    drawn: u32,
) -> Option<Duration> {
    answers
        .filter(StyledAnswer::is_refused)
        .map(|answer| Some(answer.jitter.spread(answer.wait()?, drawn)))
        .try_fold(None, |longest: Option<Duration>, wait| Some(longest.max(Some(wait?))))
        .flatten()
}

/// A limit's window in whole seconds: the period of a window, or the time a bucket takes to refill from
/// empty. `None` if that is not a whole number, or if the limit has no window.
fn window_seconds(limit: &Limit) -> Option<u64> {
    let window = limit.window().filter(|window| window.subsec_nanos() == 0)?;
    Some(window.as_secs()).filter(|seconds| *seconds > 0)
}

/// Whole seconds, rounded up, so that no client comes back too early.
fn seconds_up(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

/// Seconds with three decimals, rounded up.
fn millis_up(wait: Duration) -> String {
    let millis = wait.as_nanos().div_ceil(1_000_000);
    format!("{}.{:03}", millis / 1_000, millis % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up() {
        let ns = Duration::from_nanos;
        assert_eq!(seconds_up(ns(0)), 0);
        assert_eq!(seconds_up(ns(1)), 1);
        assert_eq!(seconds_up(ns(2_000_000_000)), 2);
        assert_eq!(seconds_up(ns(2_000_000_001)), 3);
        assert_eq!(seconds_up(Duration::MAX), u64::MAX);
        assert_eq!(millis_up(ns(0)), "0.000");
        assert_eq!(millis_up(ns(1)), "0.001");
        assert_eq!(millis_up(ns(61_050_000_000)), "61.050");
        assert_eq!(millis_up(ns(61_050_000_001)), "61.051");
        assert_eq!(millis_up(ns(999_999_999)), "1.000");
    }
}
