//! Spans: one for a decision whose caller is sampled.

use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use waterclock::{Clock, Timestamp};

use crate::observe::{Face, Metrics};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
}

impl Parent {
    /// That of a caller that is sampled; `None` for others, and where the header field is not as it should be.
    fn sampled(headers: &HeaderMap) -> Option<Parent> {
        let mut values = headers.get_all(&TRACEPARENT).iter();
        let (value, None) = (values.next()?, values.next()) else { return None };
        Parent::parse(value.as_bytes())
    }

    /// `00-<32 digits>-<16 digits>-<flags>`; versions to come may have more after another dash.
    fn parse(text: &[u8]) -> Option<Parent> {
        const LENGTH: usize = 55;
        let (fixed, rest) = text.split_at_checked(LENGTH)?;
        let [version] = hexadecimal::<1>(&fixed[..2])?;
        let is_long = !rest.is_empty();
        let dashes = fixed[2] == b'-' && fixed[35] == b'-' && fixed[52] == b'-';
        if version == 0xff || !dashes || (is_long && (version == 0 || rest[0] != b'-')) {
            return None;
        }
        let (trace, span) = (hexadecimal(&fixed[3..35])?, hexadecimal(&fixed[36..52])?);
        let [flags] = hexadecimal::<1>(&fixed[53..])?;
        let is_valid = trace != [0; 16] && span != [0; 8];
        (is_valid && flags & 1 == 1).then_some(Parent { trace, span })
    }
}

fn hexadecimal<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

pub(crate) fn in_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) trace: [u8; 16],
    pub(super) parent: [u8; 8],
    pub(super) id: [u8; 8],
    pub(super) name: &'static str,
    pub(super) face: Face,
    pub(super) started: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) outcome: Option<&'static str>,
}

/// Where spans go that have ended.
pub(crate) struct Tracer {
    queue: mpsc::Sender<Ended>,
    dropped: Counter,
    ids: RandomState,
    next: AtomicU64,
}

impl Tracer {
    pub(super) fn new(most: usize, dropped: Counter) -> (Tracer, mpsc::Receiver<Ended>) {
        let (queue, ended) = mpsc::channel(most);
        (Tracer { queue, dropped, ids: RandomState::new(), next: AtomicU64::new(0) }, ended)
    }

    fn id(&self) -> [u8; 8] {
        let id = self.ids.hash_one(self.next.fetch_add(1, Ordering::Relaxed));
        id.max(1).to_be_bytes()
    }
}

/// A span that has begun. It ends when it is dropped: also where the caller goes away.
pub(crate) struct Span<'m> {
    metrics: &'m Metrics,
    tracer: &'m Tracer,
    parent: Parent,
    id: [u8; 8],
    name: &'static str,
    face: Face,
    started: Timestamp,
    outcome: Option<&'static str>,
}

impl<'m> Span<'m> {
    /// Begins one if spans are exported and the caller is sampled. Boxed, because it is rare.
    #[inline]
    pub(crate) fn begin(
        metrics: &'m Metrics,
        face: Face,
        name: &'static str,
        headers: &HeaderMap,
    ) -> Option<Box<Span<'m>>> {
        let tracer = metrics.tracer()?;
        let parent = Parent::sampled(headers)?;
        let (id, started) = (tracer.id(), metrics.clock().now());
        Some(Box::new(Span { metrics, tracer, parent, id, name, face, started, outcome: None }))
    }

    /// What came of it: `allow`, `deny` or `error`, as in the metrics.
    pub(crate) fn set_outcome(&mut self, outcome: &'static str) {
        self.outcome = Some(outcome);
    }

    /// Tells the caller the id of this span.
    pub(crate) fn write_to(&self, headers: &mut HeaderMap) {
        let (trace, id) = (in_digits(&self.parent.trace), in_digits(&self.id));
        if let Ok(value) = HeaderValue::try_from(format!("00-{trace}-{id}-01")) {
            headers.insert(TRACEPARENT.clone(), value);
        }
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        let ended = self.metrics.clock().now();
        self.metrics.note_exemplar(self.face, ended.since(self.started), self.parent.trace);
        let span = Ended {
            trace: self.parent.trace,
            parent: self.parent.span,
            id: self.id,
            name: self.name,
            face: self.face,
            started: self.started,
            ended,
            outcome: self.outcome,
        };
        if self.tracer.queue.try_send(span).is_err() {
            self.tracer.dropped.inc();
        }
    }
}

/// An answer over HTTP within a span, if there is one to be.
#[inline]
pub(crate) async fn traced<B, E>(
    span: Option<Box<Span<'_>>>,
    answer: impl Future<Output = Result<Response<B>, E>>,
) -> Result<Response<B>, E> {
    let mut answer = answer.await;
    if let Some(mut span) = span {
        span.set_outcome(match &answer {
            Ok(answer) if answer.status() == http::StatusCode::TOO_MANY_REQUESTS => "deny",
            Ok(_) => "allow",
            Err(_) => "error",
        });
        if let Ok(answer) = &mut answer {
            span.write_to(answer.headers_mut());
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_and_sampled_callers_have_a_parent() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = Parent::parse(good.as_bytes()).unwrap();
        assert_eq!(in_digits(&parent.trace), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(in_digits(&parent.span), "b7ad6b7169203331");
        assert!(Parent::parse(format!("01{}-more", &good[2..]).as_bytes()).is_some());
        assert!(Parent::parse(good.replace("-01", "-03").as_bytes()).is_some());
        for wrong in [
            String::new(),
            good.replace("-01", "-00"),
            good.replace("-01", "-02"),
            good.replace("-01", "-0x"),
            good.to_uppercase(),
            format!("ff{}", &good[2..]),
            format!("{good}-more"),
            format!("01{}more", &good[2..]),
            good[..54].to_owned(),
            good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            good.replace("b7ad6b7169203331", &"0".repeat(16)),
            good.replace('-', "_"),
        ] {
            assert_eq!(Parent::parse(wrong.as_bytes()), None, "{wrong}");
        }
        let mut twice = HeaderMap::new();
        twice.append(&TRACEPARENT, HeaderValue::from_static(good));
        assert!(Parent::sampled(&twice).is_some());
        twice.append(&TRACEPARENT, HeaderValue::from_static(good));
        assert_eq!(Parent::sampled(&twice), None);
    }
}
