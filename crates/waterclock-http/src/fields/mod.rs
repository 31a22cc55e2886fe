//! What a response says about its check.

mod draft_03;
mod ietf;
mod legacy;
mod retry;
mod round;
mod told;
mod window;

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use waterclock::{Answer, Policy};

pub use told::Told;
pub use waterclock::HeaderStyle;

const RETRY_AFTER: &str = "retry-after";
const X_LIMIT: &str = "x-ratelimit-limit";
const X_REMAINING: &str = "x-ratelimit-remaining";
const X_RESET: &str = "x-ratelimit-reset";

/// Header fields of a response, each name once.
///
/// As pairs for protocols that carry them elsewhere (gRPC), or written into a [`HeaderMap`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// The fields for a check of one charge.
    #[must_use]
    pub fn new(style: HeaderStyle, policy: &Policy, answer: &Answer) -> Self {
        fields(&[Told { style, name: policy.name(), policy, answer }])
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

    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes them into `headers`, in the place of fields of the same names.
    pub fn write_to(self, headers: &mut HeaderMap) {
        for (name, value) in self.0 {
            // Every value is made of digits and printable ASCII: none is refused here.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }

    /// Adds them to `headers` where something may stand already, from further inside: to lists they are
    /// appended, and of everything else what is there stays.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        for (name, value) in self.0 {
            let Ok(value) = HeaderValue::try_from(value) else { continue };
            let name = HeaderName::from_static(name);
            if ietf::LISTS.contains(&name.as_str()) {
                headers.append(name, value);
            } else {
                headers.entry(name).or_insert(value);
            }
        }
    }

    /// Sets a field, in the place of what was there.
    fn set(&mut self, name: &'static str, value: String) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }
}

impl IntoIterator for Fields {
    type Item = (&'static str, String);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// How long a client is told to wait, exactly; `Retry-After` rounds it up.
pub(crate) fn told_wait(charges: &[Told<'_>]) -> Option<Duration> {
    retry::longest_wait(charges.iter().filter(|told| !told.is_silent()))
}

/// The fields for a check of one or more charges, each told in its own policy's style.
///
/// Lists are joined, in the order of the charges. Where two styles share a name (`draft-03` and
/// `legacy` do), the one of `draft-03` stands. There is one `Retry-After`: the longest wait.
#[must_use]
pub fn fields(charges: &[Told<'_>]) -> Fields {
    let in_style = |style| charges.iter().filter(move |told| told.speaks(style));
    let mut fields = Fields::default();
    ietf::tell(in_style(HeaderStyle::Ietf), &mut fields);
    legacy::tell(in_style(HeaderStyle::Legacy), &mut fields);
    draft_03::tell(in_style(HeaderStyle::Draft03), &mut fields);
    if let Some(wait) = told_wait(charges) {
        fields.set(RETRY_AFTER, round::seconds_up(wait).max(1).to_string());
    }
    fields
}
