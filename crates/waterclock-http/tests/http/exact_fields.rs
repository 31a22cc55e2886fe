//! Every style, letter by letter.

use std::time::Duration;

use http::HeaderMap;
use waterclock::{
    Charge, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Mode, Policy, Quota,
    RollingWindow, SlidingWindow, Verb,
};
use waterclock_http::{HeaderFields, HeaderStyle, Jitter, StyledAnswer};

use crate::scene::{Scene, fields, lines};

const NOTHING: [&str; 0] = [];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// 20 at once and 10 per second; 1000 per hour.
fn login() -> Policy {
    let burst = Gcra::new(10, seconds(1)).expect("valid").with_capacity(20).with_name("burst");
    let hourly = RollingWindow::new(1_000, seconds(3_600)).expect("valid").with_name("hourly");
    Policy::new("login", [burst, hourly]).expect("valid")
}

fn one(limit: impl Into<Limit>) -> Policy {
    Policy::new("p", [limit.into().with_name("l")]).expect("valid")
}

#[test]
fn ietf() {
    let (policy, style) = (login(), HeaderStyle::Ietf);
    let scene = Scene::new(&[&policy]);
    let rules = r#"ratelimit-policy: "login.burst";q=20;w=2, "login.hourly";q=1000;w=3600"#;
    // A fresh key: all of it, over a whole window.
    assert_eq!(
        fields(style, &policy, &scene.ask(Verb::Peek, &policy, 1)),
        [r#"ratelimit: "login.burst";r=20;t=2, "login.hourly";r=1000;t=3600"#, rules]
    );
    // 19 of 20 in 2 s are 1.9 s; of the window, units return when it ends.
    assert_eq!(
        fields(style, &policy, &scene.check(&policy, 1)),
        [r#"ratelimit: "login.burst";r=19;t=2, "login.hourly";r=999;t=3600"#, rules]
    );
    let _ = scene.check(&policy, 12);
    assert_eq!(
        fields(style, &policy, &scene.check(&policy, 1)),
        [r#"ratelimit: "login.burst";r=6;t=1, "login.hourly";r=986;t=3600"#, rules]
    );
    let _ = scene.check(&policy, 6);
    assert_eq!(
        fields(style, &policy, &scene.check(&policy, 15)),
        [
            r#"ratelimit: "login.burst";r=0;t=1, "login.hourly";r=980;t=3600"#,
            rules,
            "retry-after: 2"
        ]
    );
}

/// The ratio r/t never promises more than the limit's own q/w.
#[test]
fn ietf_promises_no_more_than_the_limit() {
    let (per, capacity) = (seconds(7), 40);
    let limits: [Limit; 6] = [
        Gcra::new(30, per).expect("valid").with_capacity(capacity).into(),
        LeakyBucket::new(capacity, 3, Duration::from_millis(1_700)).expect("valid").into(),
        FixedWindow::new(capacity, per).expect("valid").into(),
        SlidingWindow::new(capacity, per).expect("valid").into(),
        RollingWindow::new(capacity, per).expect("valid").into(),
        Quota::new(capacity, per).expect("valid").into(),
    ];
    for limit in limits {
        let policy = one(limit.clone());
        let scene = Scene::new(&[&policy]);
        let window = limit.window().map_or(0.0, |window| window.as_secs_f64());
        for _ in 0..capacity {
            let answer = scene.check(&policy, 1);
            let field = HeaderFields::new(HeaderStyle::Ietf, &policy, &answer);
            let state = field.get("ratelimit").expect("there is one").to_owned();
            let number = |name: &str| -> f64 {
                let from = state.find(&format!(";{name}=")).expect("it has it") + 3;
                state[from..].split(';').next().expect("a part").parse().expect("a number")
            };
            let (left, time) = (number("r"), number("t"));
            assert!(time >= 1.0 && left * window <= 40.0 * time + 1e-6, "{state}, w={window}");
        }
    }
}

#[test]
fn github() {
    let (policy, style) = (login(), HeaderStyle::GitHub);
    let scene = Scene::new(&[&policy]);
    let now = || waterclock::Clock::now(&waterclock::MonotonicClock::default()).as_nanos();
    let before = now() / 1_000_000_000;
    let field = HeaderFields::new(style, &policy, &scene.check(&policy, 4));
    let get = |name: &str| field.get(name).expect("it is there").parse::<u64>().expect("a number");
    assert_eq!((get("x-ratelimit-limit"), get("x-ratelimit-remaining")), (20, 16));
    assert_eq!(get("x-ratelimit-used"), 4);
    // Four of ten a second return within 400 ms, and instants round up.
    let after = now().div_ceil(1_000_000_000) + 1;
    assert!((before + 1..=after).contains(&get("x-ratelimit-reset")));
    assert_eq!(field.get("retry-after"), None);
    let refused = HeaderFields::new(style, &policy, &scene.check(&policy, 17));
    assert_eq!(refused.get("retry-after"), Some("1"));
}

#[test]
fn draft_10() {
    let (policy, style) = (login(), HeaderStyle::Draft10);
    let scene = Scene::new(&[&policy]);
    let rules = r#"ratelimit-policy: "login.burst";q=20;w=2, "login.hourly";q=1000;w=3600"#;
    assert_eq!(
        fields(style, &policy, &scene.ask(Verb::Peek, &policy, 1)),
        [r#"ratelimit: "login.burst";r=20, "login.hourly";r=1000"#, rules]
    );
    assert_eq!(
        fields(style, &policy, &scene.check(&policy, 1)),
        [r#"ratelimit: "login.burst";r=19;t=1, "login.hourly";r=999;t=3600"#, rules]
    );
    let _ = scene.check(&policy, 19);
    assert_eq!(
        fields(style, &policy, &scene.check(&policy, 15)),
        [
            r#"ratelimit: "login.burst";r=0;t=1, "login.hourly";r=980;t=3600"#,
            rules,
            "retry-after: 2"
        ]
    );
    // More than there ever is: no time at which to come back.
    assert_eq!(fields(style, &policy, &scene.check(&policy, 21)).len(), 2);
}

#[test]
fn ietf_leaves_out_what_it_cannot_say() {
    // Three per second take 7/3 of a second to return seven: no whole window. Bytes are a unit.
    let thirds = Gcra::new(3, seconds(1)).expect("valid").with_capacity(7);
    let odd = one(Limit::from(thirds).with_unit("bytes"));
    let answer = Scene::new(&[&odd]).check(&odd, 1);
    assert_eq!(
        fields(HeaderStyle::Ietf, &odd, &answer),
        [r#"ratelimit: "p.l";r=6;t=2"#, r#"ratelimit-policy: "p.l";q=7;qu="bytes""#]
    );
    // Five leave by two every 500 ms: three drips, a second and a half. Four: exactly one second.
    let half = Duration::from_millis(500);
    for (capacity, window) in [(5, ""), (4, ";w=1")] {
        let leaky = one(LeakyBucket::new(capacity, 2, half).expect("valid"));
        let fields =
            HeaderFields::new(HeaderStyle::Ietf, &leaky, &Scene::new(&[&leaky]).check(&leaky, 1));
        let expected = format!(r#""p.l";q={capacity}{window}"#);
        assert_eq!(fields.get("ratelimit-policy"), Some(&*expected));
    }
    // Limits without a number have no item, and a list without items is no field.
    let apart = MinInterval::new(seconds(5)).expect("valid");
    let events = Policy::new(
        "p",
        [Limit::from(apart), EvenSlots::new(2, seconds(1)).expect("valid").into()],
    )
    .expect("valid");
    let scene = Scene::new(&[&events]);
    assert_eq!(fields(HeaderStyle::Ietf, &events, &scene.check(&events, 1)), NOTHING);
    assert_eq!(fields(HeaderStyle::Ietf, &events, &scene.check(&events, 1)), ["retry-after: 5"]);
}

#[test]
fn ietf_numbers_and_names_fit_their_types() {
    let huge = FixedWindow::new(waterclock::MAX_UNITS, seconds(60)).expect("valid");
    let policy = Policy::new("na\"me\\", [huge.with_name("grün\n")]).expect("valid");
    assert_eq!(
        fields(HeaderStyle::Ietf, &policy, &Scene::new(&[&policy]).check(&policy, 1)),
        [
            r#"ratelimit: "na\"me\\.gr?n?";r=999999999999999;t=60"#,
            r#"ratelimit-policy: "na\"me\\.gr?n?";q=999999999999999;w=60"#
        ]
    );
}

#[test]
fn draft_03() {
    let (policy, style) = (login(), HeaderStyle::Draft03);
    let scene = Scene::new(&[&policy]);
    let burst = "x-ratelimit-limit: 20, 20;w=2, 1000;w=3600";
    let show = |answer| fields(style, &policy, &answer);
    assert_eq!(
        show(scene.ask(Verb::Peek, &policy, 1)),
        [burst, "x-ratelimit-remaining: 20", "x-ratelimit-reset: 0"]
    );
    assert_eq!(
        show(scene.check(&policy, 1)),
        [burst, "x-ratelimit-remaining: 19", "x-ratelimit-reset: 1"]
    );
    let _ = scene.check(&policy, 19);
    assert_eq!(
        show(scene.check(&policy, 1)),
        ["retry-after: 1", burst, "x-ratelimit-remaining: 0", "x-ratelimit-reset: 2"]
    );
    // Used up by and by, the hourly limit is what counts.
    for _ in 0..49 {
        scene.clock.advance(seconds(2));
        assert!(scene.check(&policy, 20).decision.is_allowed());
    }
    scene.clock.advance(seconds(2));
    assert_eq!(
        show(scene.check(&policy, 1)),
        [
            "retry-after: 3500",
            "x-ratelimit-limit: 1000, 20;w=2, 1000;w=3600",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 3598"
        ]
    );
}

#[test]
fn draft_03_where_a_limit_has_no_number() {
    let apart: Limit = MinInterval::new(seconds(5)).expect("valid").into();
    let policy = Policy::new("p", [apart.clone(), Limit::per_second(4).into()]).expect("valid");
    let answer = Scene::new(&[&policy]).check(&policy, 1);
    assert_eq!(
        fields(HeaderStyle::Draft03, &policy, &answer),
        ["x-ratelimit-limit: 4, 4;w=1", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 5"]
    );
    let policy = Policy::new("p", [apart]).expect("valid");
    let scene = Scene::new(&[&policy]);
    assert_eq!(fields(HeaderStyle::Draft03, &policy, &scene.ask(Verb::Peek, &policy, 1)), NOTHING);
    assert_eq!(
        fields(HeaderStyle::Draft03, &policy, &scene.check(&policy, 1)),
        ["x-ratelimit-remaining: 0", "x-ratelimit-reset: 5"]
    );
}

#[test]
fn legacy() {
    let policy = one(Gcra::new(3, seconds(1)).expect("valid"));
    let scene = Scene::new(&[&policy]);
    let show = |answer| fields(HeaderStyle::Legacy, &policy, &answer);
    assert_eq!(
        show(scene.ask(Verb::Peek, &policy, 1)),
        ["x-ratelimit-clear: 0.000", "x-ratelimit-remaining: 3"]
    );
    assert_eq!(
        show(scene.check(&policy, 2)),
        ["x-ratelimit-clear: 0.667", "x-ratelimit-remaining: 1"]
    );
    assert_eq!(
        show(scene.check(&policy, 2)),
        [
            "retry-after: 1",
            "x-ratelimit-clear: 0.667",
            "x-ratelimit-remaining: 1",
            "x-ratelimit-reset: 0.334"
        ]
    );
    assert_eq!(
        show(scene.check(&policy, 4)),
        ["x-ratelimit-clear: 0.667", "x-ratelimit-remaining: 1"]
    );
}

#[test]
fn retry_after_and_none() {
    let policy = one(Limit::per_minute(1));
    let scene = Scene::new(&[&policy]);
    assert_eq!(fields(HeaderStyle::default(), &policy, &scene.check(&policy, 1)), NOTHING);
    scene.clock.advance(Duration::from_nanos(1));
    let refused = scene.check(&policy, 1);
    assert_eq!(fields(HeaderStyle::RetryAfter, &policy, &refused), ["retry-after: 60"]);
    assert_eq!(fields(HeaderStyle::None, &policy, &refused), NOTHING);
    assert_eq!(fields(HeaderStyle::RetryAfter, &policy, &scene.check(&policy, 2)), NOTHING);
    scene.clock.advance(Duration::from_nanos(59_999_999_998));
    assert_eq!(
        fields(HeaderStyle::RetryAfter, &policy, &scene.check(&policy, 1)),
        ["retry-after: 1"],
        "the last nanosecond is a second, never zero"
    );
}

#[test]
fn retry_after_is_never_before_the_next_unit() {
    let policy = one(Limit::per_second(1));
    let scene = Scene::new(&[&policy]);
    let _ = scene.check(&policy, 1);
    let mut refused = scene.check(&policy, 1);
    // As a fallback might answer that knows the refusal better than the numbers.
    refused.limits[0].next_unit = Some(seconds(7));
    for style in [HeaderStyle::RetryAfter, HeaderStyle::Ietf, HeaderStyle::Draft03] {
        assert_eq!(
            HeaderFields::new(style, &policy, &refused).get("retry-after"),
            Some("7"),
            "{style}"
        );
    }
    refused.limits[0].allowed = true;
    assert_eq!(fields(HeaderStyle::RetryAfter, &policy, &refused), ["retry-after: 1"]);
}

/// Only advice to come back is spread, and only upwards.
#[test]
fn jitter_spreads_the_wait_upwards() {
    let policy = one(Gcra::new(1, seconds(100)).unwrap());
    let scene = Scene::new(&[&policy]);
    let admitted = scene.check(&policy, 1);
    let refused = scene.check(&policy, 1);
    for style in HeaderStyle::ALL.iter().copied().filter(|style| *style != HeaderStyle::None) {
        let with = |answer, percent| {
            let (name, jitter) = (policy.name(), Jitter::percent(percent));
            let answer = StyledAnswer { style, name, policy: &policy, answer, jitter };
            HeaderFields::for_check([answer])
        };
        assert_eq!(with(&refused, 0), HeaderFields::new(style, &policy, &refused), "{style}");
        assert_eq!(with(&admitted, 50), HeaderFields::new(style, &policy, &admitted), "{style}");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let fields = with(&refused, 20);
            let wait: u64 = fields.get("retry-after").unwrap().parse().unwrap();
            assert!((100..=120).contains(&wait), "{style}: {wait}");
            seen.insert(wait);
            let exact = HeaderFields::new(style, &policy, &refused);
            for (name, value) in fields.iter().filter(|(name, _)| *name != "retry-after") {
                if style == HeaderStyle::Legacy && name == "x-ratelimit-reset" {
                    let millis: u64 = value.replace('.', "").parse().unwrap();
                    assert_eq!(millis.div_ceil(1_000), wait, "both say the same");
                } else if style != HeaderStyle::GitHub {
                    assert_eq!(exact.get(name), Some(value), "{style} {name}");
                }
            }
        }
        assert!(seen.len() > 5, "{style}: {seen:?}");
    }
}

#[test]
fn shadows_are_not_mentioned() {
    let strict = Limit::per_minute(1).with_name("strict");
    let shadow = Policy::new("p", [strict.clone()]).expect("valid").with_shadow(true);
    let candidate =
        Policy::new("q", [strict.with_shadow(true), Limit::per_second(9).with_name("live")])
            .expect("valid");
    let scene = Scene::new(&[&shadow, &candidate]);
    for _ in 0..2 {
        let (hidden, half) = (scene.check(&shadow, 1), scene.check(&candidate, 1));
        for &style in HeaderStyle::ALL {
            assert_eq!(fields(style, &shadow, &hidden), NOTHING, "{style}");
            for line in fields(style, &candidate, &half) {
                assert!(!line.contains("strict") && !line.contains(";w=60"), "{style}: {line}");
                assert!(!line.starts_with("retry-after"), "{style}: {line}");
            }
        }
    }
}

#[test]
fn a_partial_grant_is_no_refusal() {
    let policy = one(Limit::per_minute(5)).with_mode(Mode::Partial).expect("valid");
    let scene = Scene::new(&[&policy]);
    let partial = scene.check(&policy, 8);
    assert_eq!(partial.decision.granted(), 5);
    for &style in HeaderStyle::ALL {
        assert_eq!(HeaderFields::new(style, &policy, &partial).get("retry-after"), None, "{style}");
    }
    let nothing = scene.check(&policy, 2);
    assert_eq!(fields(HeaderStyle::RetryAfter, &policy, &nothing), ["retry-after: 24"]);
}

#[test]
fn a_recorded_refusal_is_one() {
    let window = FixedWindow::new(1, seconds(60)).expect("valid");
    let policy = one(window).with_mode(Mode::CountRefusals).expect("valid");
    let scene = Scene::new(&[&policy]);
    let _ = scene.check(&policy, 1);
    let refused = scene.check(&policy, 1);
    assert_eq!(fields(HeaderStyle::RetryAfter, &policy, &refused), ["retry-after: 60"]);
}

#[test]
fn several_charges_share_one_response() {
    let (burst, daily) =
        (Limit::per_second(20).with_name("burst"), Limit::per_day(2).with_name("daily"));
    let user = Policy::new("user", [burst]).expect("valid");
    let team = Policy::new("team", [daily]).expect("valid");
    let scene = Scene::new(&[&user, &team]);
    let charge = |policy, key, cost: u64| Charge::new(policy, key, cost);
    let charges = [charge("user", b"alice", 1), charge("team", b"a", 1), charge("team", b"b", 2)];
    let tell = |answers: &[waterclock::Answer], styles: [HeaderStyle; 3]| {
        let policies = [&user, &team, &team];
        let charges: Vec<StyledAnswer<'_>> = (0..3)
            .map(|i| StyledAnswer {
                style: styles[i],
                name: policies[i].name(),
                policy: policies[i],
                answer: &answers[i],
                jitter: Jitter::NONE,
            })
            .collect();
        lines(&HeaderFields::for_check(charges))
    };
    let answers = scene.apply(Verb::Check, &charges);
    // Of the team's two keys the client hears of the emptier one.
    assert_eq!(
        tell(&answers, [HeaderStyle::Ietf; 3]),
        [
            r#"ratelimit: "user.burst";r=19;t=1, "team.daily";r=0;t=43200"#,
            r#"ratelimit-policy: "user.burst";q=20;w=1, "team.daily";q=2;w=86400"#
        ]
    );
    let answers = scene.apply(Verb::Check, &charges);
    assert_eq!(
        tell(&answers, [HeaderStyle::Legacy, HeaderStyle::Draft03, HeaderStyle::None]),
        [
            "retry-after: 86400",
            "x-ratelimit-clear: 0.050",
            "x-ratelimit-limit: 2, 2;w=86400",
            "x-ratelimit-remaining: 1",
            "x-ratelimit-reset: 43200"
        ]
    );
    assert_eq!(
        tell(&answers, [HeaderStyle::Legacy; 3]),
        [
            "retry-after: 86400",
            "x-ratelimit-clear: 86400.000",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 86400.000"
        ]
    );
    assert_eq!(tell(&answers, [HeaderStyle::None; 3]), NOTHING);
}

#[test]
fn fields_take_the_place_of_what_was_there() {
    let policy = one(Limit::per_second(5));
    let fields =
        HeaderFields::new(HeaderStyle::Ietf, &policy, &Scene::new(&[&policy]).check(&policy, 1));
    let mut headers = HeaderMap::new();
    headers.append("ratelimit", "stale".parse().expect("valid"));
    headers.append("ratelimit", "staler".parse().expect("valid"));
    headers.append("date", "today".parse().expect("valid"));
    fields.write_to(&mut headers);
    assert_eq!(headers.get_all("ratelimit").iter().collect::<Vec<_>>(), [r#""p.l";r=4;t=1"#]);
    assert_eq!(headers["ratelimit-policy"], r#""p.l";q=5;w=1"#);
    assert_eq!(headers["date"], "today");
}

#[test]
fn styles_have_names() {
    for &style in HeaderStyle::ALL {
        assert_eq!(HeaderStyle::parse(style.name()), Some(style));
    }
    assert_eq!(HeaderStyle::parse("IETF"), None);
    assert_eq!(HeaderStyle::default().name(), "retry-after");
}
