//! Whatever the policy and its state: the fields are well-formed, and mean what the decision says.

use std::time::Duration;

use fastrand::Rng;
use sfv::{BareItem, List, ListEntry, Parser};
use waterclock::{Answer, Mode, Verb};
use waterclock_http::{HeaderFields, HeaderStyle};

use crate::random_policy::{Case, case};
use crate::scene::Scene;

const POLICIES: usize = 12_000;
const MOST: u64 = 999_999_999_999_999;

#[test]
fn fields_parse_back_and_mean_what_was_decided() {
    let seed = 0x7011;
    let mut rng = Rng::with_seed(seed);
    let mut seen = Seen::default();
    for round in 0..POLICIES {
        let case = case(&mut rng);
        let scene = Scene::new(&[&case.policy]);
        for step in 0..rng.usize(1..12) {
            let verb = if rng.u8(..6) == 0 { Verb::Peek } else { Verb::Check };
            let most = if rng.bool() { 3 } else { 45 };
            let cost = rng.u64(..most);
            let answer = scene.ask(verb, &case.policy, cost);
            let context = format!("policy {round}, step {step}: {:?}, {answer:?}", case.policy);
            for style in [HeaderStyle::Ietf, HeaderStyle::Draft10] {
                ietf(&case, style, &answer, &mut seen, &context);
            }
            draft_03(&case, &answer, &context);
            legacy(&case, &answer, &context);
            let wait = refused_for(&case, &answer, &mut seen, &context);
            if let (Some(wait), Verb::Check, 0) = (wait, verb, rng.u8(..4)) {
                passes_later(&case, &scene, cost, wait, &context);
            } else {
                scene.clock.advance(Duration::from_millis(rng.u64(..1_500)));
            }
        }
    }
    seen.everything();
}

fn ietf(case: &Case, style: HeaderStyle, answer: &Answer, seen: &mut Seen, context: &str) {
    let fields = HeaderFields::new(style, &case.policy, answer);
    let rules = list(&fields, "ratelimit-policy", context);
    let states = list(&fields, "ratelimit", context);
    let expected = if case.policy.is_shadow() { &[][..] } else { &case.expected[..] };
    assert_eq!((rules.len(), states.len()), (expected.len(), expected.len()), "{context}");
    for ((expected, (rule_name, rule)), (state_name, state)) in
        expected.iter().zip(&rules).zip(&states)
    {
        let decision = &answer.limits[expected.at];
        assert_eq!(*rule_name, printable(&expected.name), "{context}");
        assert_eq!(rule_name, state_name, "{context}");
        assert_eq!(number(rule, "q"), Some(expected.quota.min(MOST)), "{context}");
        assert_eq!(number(rule, "w"), expected.window, "{context}");
        let unit = (expected.unit != "requests").then(|| printable(&expected.unit));
        assert_eq!(text(rule, "qu"), unit, "{context}");
        assert_eq!(number(state, "r"), decision.remaining.map(|left| left.min(MOST)), "{context}");
        let more_in = decision.next_unit.map(|wait| up(wait.as_nanos(), 1_000_000_000));
        let (time, left) = (number(state, "t"), decision.remaining.unwrap_or(0));
        if style == HeaderStyle::Draft10 || left == 0 {
            assert_eq!(time, more_in, "{context}");
        } else {
            // What is left, over this time, is no more than the limit's own pace.
            let limit = &case.policy.limits()[expected.at];
            let window = limit.window().map_or(0, |window| window.as_nanos());
            let (time, quota) = (u128::from(time.unwrap_or(0)), u128::from(expected.quota));
            let promised = u128::from(left) * window <= quota * time * 1_000_000_000;
            assert!(promised && (window == 0 || time >= 1), "t={time}, {context}");
            assert!(limit.refills() || more_in.is_none_or(|more| time >= more.into()), "{context}");
        }
        assert!(rule.iter().all(|(name, _)| ["q", "qu", "w"].contains(&&**name)), "{context}");
        assert!(state.iter().all(|(name, _)| ["r", "t"].contains(&&**name)), "{context}");
        seen.windows[usize::from(expected.window.is_some())] += 1;
        seen.full[usize::from(more_in.is_none())] += 1;
    }
}

fn draft_03(case: &Case, answer: &Answer, context: &str) {
    let fields = HeaderFields::new(HeaderStyle::Draft03, &case.policy, answer);
    let remaining = fields.get("x-ratelimit-remaining").map(digits);
    let decided = answer.decision.remaining().filter(|_| !case.policy.is_shadow());
    assert_eq!(remaining, decided, "{context}");
    assert_eq!(fields.get("x-ratelimit-reset").is_some(), remaining.is_some(), "{context}");
    let Some(remaining) = remaining else { return };
    let live = case.policy.limits().iter().zip(&answer.limits).filter(|(l, _)| !l.is_shadow());
    let tightest = live.filter(|(_, decision)| decision.remaining == Some(remaining));
    let reset = tightest.map(|(_, decision)| decision.reset_after).max().expect("one is");
    let shown = fields.get("x-ratelimit-reset").map(digits);
    assert_eq!(shown, Some(up(reset.as_nanos(), 1_000_000_000)), "{context}");

    let listed = fields.get("x-ratelimit-limit");
    assert_eq!(listed.is_some(), !case.expected.is_empty(), "{context}");
    let mut parts = listed.into_iter().flat_map(|list| list.split(", "));
    if let Some(first) = parts.next().map(digits) {
        assert!(case.expected.iter().any(|expected| expected.quota == first), "{context}");
    }
    let windows: Vec<String> = parts.map(str::to_owned).collect();
    let expected: Vec<String> = case
        .expected
        .iter()
        .filter_map(|expected| Some(format!("{};w={}", expected.quota, expected.window?)))
        .collect();
    assert_eq!(windows, expected, "{context}");
}

fn legacy(case: &Case, answer: &Answer, context: &str) {
    let fields = HeaderFields::new(HeaderStyle::Legacy, &case.policy, answer);
    if case.policy.is_shadow() {
        return assert!(fields.is_empty(), "{context}");
    }
    let decision = &answer.decision;
    let remaining = fields.get("x-ratelimit-remaining").map(digits);
    assert_eq!(remaining, decision.remaining(), "{context}");
    let thousandths = |name| fields.get(name).map(|value: &str| digits(&value.replace('.', "")));
    let clear = up(decision.reset_after().as_nanos(), 1_000_000);
    assert_eq!(thousandths("x-ratelimit-clear"), Some(clear), "{context}");
    let retry = decision.retry_after().filter(|_| is_refusal(case, answer));
    let retry = retry.map(|wait| up(wait.as_nanos(), 1_000_000));
    assert_eq!(thousandths("x-ratelimit-reset"), retry, "{context}");
}

/// The same `Retry-After` in all styles that have one.
fn refused_for(case: &Case, answer: &Answer, seen: &mut Seen, context: &str) -> Option<Duration> {
    let retry_after = |style: HeaderStyle| {
        let fields = HeaderFields::new(style, &case.policy, answer);
        fields.get("retry-after").map(digits)
    };
    assert!(HeaderFields::new(HeaderStyle::None, &case.policy, answer).is_empty(), "{context}");
    let wait = retry_after(HeaderStyle::RetryAfter);
    for style in [HeaderStyle::Ietf, HeaderStyle::Draft03, HeaderStyle::Legacy] {
        assert_eq!(retry_after(style), wait, "{context}");
    }
    let retry = answer.decision.retry_after().filter(|_| is_refusal(case, answer));
    assert_eq!(wait, retry.map(|wait| up(wait.as_nanos(), 1_000_000_000).max(1)), "{context}");
    for (limit, decision) in case.policy.limits().iter().zip(&answer.limits) {
        if let (Some(wait), Some(more), false) = (wait, decision.next_unit, limit.is_shadow()) {
            let earlier = Duration::from_secs(wait) < more;
            assert!(decision.allowed || !earlier, "{context}");
        }
    }
    seen.refusals[usize::from(wait.is_some())] += usize::from(is_refusal(case, answer));
    wait.map(Duration::from_secs)
}

/// A client that returns after `Retry-After` is admitted.
fn passes_later(case: &Case, scene: &Scene, cost: u64, wait: Duration, context: &str) {
    let later = scene.foresee(&case.policy, cost, wait);
    assert!(case.recurs || later.decision.is_allowed(), "{context}, then {later:?}");
}

fn is_refusal(case: &Case, answer: &Answer) -> bool {
    let partial = case.policy.mode() == Mode::Partial && answer.decision.granted() > 0;
    !answer.decision.is_allowed() && !partial
}

/// The items of a list of Strings, with their parameters.
fn list(
    fields: &HeaderFields,
    name: &str,
    context: &str,
) -> Vec<(String, Vec<(String, BareItem)>)> {
    let Some(value) = fields.get(name) else { return Vec::new() };
    let list: List =
        Parser::new(value).parse().unwrap_or_else(|e| panic!("{e}: {value} {context}"));
    let item = |entry: ListEntry| match entry {
        ListEntry::Item(item) => {
            let name = item.bare_item.as_string().expect("a String").as_str().to_owned();
            let parameters = item.params.into_iter();
            (name, parameters.map(|(name, value)| (name.as_str().to_owned(), value)).collect())
        }
        ListEntry::InnerList(_) => panic!("an item, not a list: {value} {context}"),
    };
    list.into_iter().map(item).collect()
}

fn number(parameters: &[(String, BareItem)], name: &str) -> Option<u64> {
    let (_, value) = parameters.iter().find(|(known, _)| known == name)?;
    Some(u64::try_from(i64::from(value.as_integer().expect("an Integer"))).expect("not negative"))
}

fn text(parameters: &[(String, BareItem)], name: &str) -> Option<String> {
    let (_, value) = parameters.iter().find(|(known, _)| known == name)?;
    Some(value.as_string().expect("a String").as_str().to_owned())
}

fn printable(name: &str) -> String {
    let shown = |c: char| if c.is_ascii() && !c.is_ascii_control() { c } else { '?' };
    name.chars().map(shown).collect()
}

fn digits(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

fn up(nanos: u128, unit: u128) -> u64 {
    u64::try_from(nanos.div_ceil(unit)).expect("fits")
}

/// That the random cases were not all alike.
#[derive(Debug, Default)]
struct Seen {
    windows: [usize; 2],
    full: [usize; 2],
    /// Never, and after a while.
    refusals: [usize; 2],
}

impl Seen {
    fn everything(&self) {
        let all = [self.windows, self.full, self.refusals];
        assert!(all.as_flattened().iter().all(|seen| *seen > 1_000), "{self:?}");
    }
}
