//! The fields of responses to admitted requests, as far as they are known beforehand.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use waterclock::{Answer, Policy};

use super::{HeaderFields, HeaderStyle, ietf};

static POLICY: HeaderName = HeaderName::from_static(ietf::POLICY);
static STATE: HeaderName = HeaderName::from_static(ietf::STATE);

/// The longest list that is written without an allocation for it alone, in bytes.
const SHORT: usize = 256;
/// The longest that follows an item's name, and the separator before the next: `999999999999999;t=999999999999999, `.
const MOST_NUMBERS: usize = 35;

/// What the layer adds to a response.
#[derive(Default)]
pub(crate) enum ResponseFields {
    #[default]
    None,
    /// `RateLimit-Policy` and `RateLimit`.
    Lists {
        policy: HeaderValue,
        state: HeaderValue,
    },
    Any(HeaderFields),
}

impl ResponseFields {
    /// Adds them as [`HeaderFields::add_to`] does.
    #[inline]
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        match self {
            Self::None => {}
            Self::Lists { policy, state } => {
                headers.append(&POLICY, policy);
                headers.append(&STATE, state);
            }
            Self::Any(fields) => fields.add_to(headers),
        }
    }
}

/// What the lists of the IETF's draft say of a policy, whatever the decision.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    policy: HeaderValue,
    /// Of each limit the start of its item, `"login.burst";r=`; `None` if it has no item.
    starts: Box<[Option<Box<str>>]>,
}

impl Prepared {
    /// `None` if the policy has no items, or if they are too long to be prepared.
    pub(crate) fn new(policy: &Policy) -> Option<Self> {
        let (list, starts) = ietf::prepare(policy);
        let lengths = starts.iter().flatten().map(|start| start.len() + MOST_NUMBERS);
        if list.is_empty() || lengths.sum::<usize>() > SHORT {
            return None;
        }
        let policy = HeaderValue::from_maybe_shared(Bytes::from(list)).ok()?;
        Some(Self { policy, starts })
    }

    /// The fields for a decision of this policy alone, which admitted; `None` if the answer does not fit.
    pub(crate) fn fields(
        &self,
        policy: &Policy,
        answer: &Answer,
        style: HeaderStyle,
    ) -> Option<ResponseFields> {
        if answer.limits.len() != self.starts.len() {
            return None;
        }
        let mut list = ShortText::default();
        let limits = policy.limits().iter().zip(&answer.limits).zip(&self.starts);
        for ((limit, decision), start) in limits {
            let Some(start) = start else { continue };
            let remaining = decision.remaining?;
            if list.len > 0 {
                list.push(b", ");
            }
            list.push(start.as_bytes());
            list.push_integer(remaining);
            if let Some(seconds) = ietf::time(style, limit, decision, remaining) {
                list.push(ietf::TIME.as_bytes());
                list.push_integer(seconds);
            }
        }
        let state = HeaderValue::from_bytes(list.as_bytes()?).ok()?;
        Some(ResponseFields::Lists { policy: self.policy.clone(), state })
    }
}

/// A text of bounded length.
struct ShortText {
    bytes: [u8; SHORT],
    /// What was written; beyond the bound, what was not written is counted, too.
    len: usize,
}

impl Default for ShortText {
    #[inline]
    fn default() -> Self {
        Self { bytes: [0; SHORT], len: 0 }
    }
}

impl ShortText {
    #[inline]
    fn push(&mut self, text: &[u8]) {
        let end = self.len + text.len();
        if let Some(free) = self.bytes.get_mut(self.len..end) {
            free.copy_from_slice(text);
        }
        self.len = end;
    }

    #[inline]
    fn push_integer(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number.min(ietf::MAX_INTEGER)).as_bytes());
    }

    /// `None` if it did not fit.
    fn as_bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..self.len)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;
    use waterclock::{FixedWindow, Gcra, Limit, ManualClock, MemoryStore, MinInterval, Policy};
    use waterclock::{SlidingWindow, Store, store::now_or_never};

    use super::{HeaderFields, HeaderStyle, Prepared};

    const SECOND: Duration = Duration::from_secs(1);

    fn policies() -> [Policy; 4] {
        let gcra = |name: &str| Gcra::new(3, SECOND).unwrap().with_capacity(9).with_name(name);
        let several = [
            gcra("burst"),
            FixedWindow::new(1_000_000, 60 * SECOND).unwrap().into(),
            Limit::from(FixedWindow::new(1, SECOND).unwrap()).with_name("new").with_shadow(true),
            MinInterval::new(SECOND / 9).unwrap().into(),
            SlidingWindow::new(12, 10 * SECOND).unwrap().into(),
        ];
        let long = "x".repeat(60);
        [
            Policy::new("one", [gcra(r#"a "quoted" \ é"#)]).unwrap(),
            Policy::new("several", several).unwrap(),
            Policy::new("gap", [MinInterval::new(SECOND).unwrap()]).unwrap(),
            Policy::new("long", ["a", "b", "c"].map(|name| gcra(&format!("{long}{name}"))))
                .unwrap(),
        ]
    }

    /// Prepared or not, a response has the same fields.
    #[test]
    fn prepared_fields_are_those_that_are_written_at_length() {
        let mut admitted = 0;
        for policy in policies() {
            let prepared = Prepared::new(&policy);
            // One limit has no number, and three names are too long.
            assert_eq!(prepared.is_some(), ["one", "several"].contains(&policy.name()));
            let Some(prepared) = prepared else { continue };
            let clock = ManualClock::default();
            let store = MemoryStore::new(10, clock.clone());
            now_or_never(store.set_policy(policy.clone())).unwrap().unwrap();
            for step in 0..2_000 {
                clock.advance(Duration::from_millis(step * 37 % 400));
                let answer = store.check_in_full(policy.name(), b"key", step % 4).unwrap();
                if !answer.decision.is_allowed() {
                    continue;
                }
                for style in [HeaderStyle::Ietf, HeaderStyle::Draft10] {
                    let (mut short, mut long) = (HeaderMap::new(), HeaderMap::new());
                    prepared.fields(&policy, &answer, style).unwrap().add_to(&mut short);
                    HeaderFields::new(style, &policy, &answer).add_to(&mut long);
                    assert_eq!(short, long);
                    assert_eq!(short.len(), 2);
                }
                admitted += 1;
            }
        }
        assert!(admitted > 1_000, "{admitted}");
    }
}
