use waterclock_core::Cost;

use super::*;
use crate::Limit;

fn policy(name: &str, limit: u64) -> Policy {
    Policy::new(name, [Limit::per_minute(limit).with_name("one")]).unwrap()
}

fn free(name: &str) -> Policy {
    Policy::new(name, Vec::<Limit>::new()).unwrap()
}

fn scope() -> Scope {
    Scope::new(policy("p", 10))
        .with_tier("pro", policy("p@pro", 100))
        .with_tier("staff", free("p@staff"))
        .with_tier("same", policy("p", 10))
        .with_block(["both", "blocked", "192.0.2.0/24", "::ffff:198.51.100.7"])
        .with_exempt(["both", "exempt", "own-exempt", "10.0.0.0/8", "2001:db8::1"])
        .with_exempt(["::ffff:203.0.113.0/120"])
        .with_override("own", policy("p@own", 1))
        .with_override("own-exempt", policy("p@own-exempt", 1))
}

/// Every row of the table, and every pair of rows that can meet.
#[test]
fn precedence() {
    use Action::{Block, Enforce, Exempt, Shadow, Unlimited};
    use Origin::{Call, Key, Tier};
    let own = Origin::Policy;
    // key, tier, own numbers -> when enrolled, when not, policy, origin
    let rows = [
        ("alice", None, false, Enforce, Shadow, "p", own),
        ("alice", Some("nobody"), false, Enforce, Shadow, "p", own),
        ("alice", Some("same"), false, Enforce, Shadow, "p", own),
        ("alice", Some("pro"), false, Enforce, Shadow, "p@pro", Tier),
        ("alice", Some("staff"), false, Unlimited, Unlimited, "p@staff", Tier),
        ("alice", None, true, Enforce, Shadow, "p", Call),
        ("alice", Some("pro"), true, Enforce, Shadow, "p", Call),
        ("alice", Some("staff"), true, Enforce, Shadow, "p", Call),
        ("own", None, false, Enforce, Enforce, "p@own", Key),
        ("own", Some("pro"), true, Enforce, Enforce, "p@own", Key),
        ("own", Some("staff"), false, Enforce, Enforce, "p@own", Key),
        ("exempt", Some("pro"), true, Exempt, Exempt, "p", Key),
        ("own-exempt", None, false, Exempt, Exempt, "p", Key),
        ("blocked", Some("staff"), true, Block, Block, "p", Key),
        ("both", None, false, Block, Block, "p", Key),
    ];
    let unenrolled = scope().with_rollout(Rollout::NOBODY);
    for (key, tier, has_own_numbers, enrolled, not_enrolled, name, origin) in rows {
        for (scope, action) in [(&scope(), enrolled), (&unenrolled, not_enrolled)] {
            let subject = Subject::new(key.as_bytes()).with_tier(tier);
            let found = scope.resolve(&subject.has_own_numbers(has_own_numbers));
            let expected = (action, name, origin);
            let found = (found.action, found.policy.name(), found.origin);
            assert_eq!(found, expected, "{key} {tier:?} {has_own_numbers}");
        }
    }
}

#[test]
fn lists_know_addresses_and_other_names() {
    let scope = scope();
    let action = |subject: Subject<'_>| scope.resolve(&subject).action;
    let at = |text: &str| Subject::new(b"k").with_address(text.parse().ok());
    assert_eq!(action(at("10.1.2.3")), Action::Exempt);
    assert_eq!(action(at("2001:db8::1")), Action::Exempt);
    assert_eq!(action(at("192.0.2.9")), Action::Block);
    assert_eq!(action(at("::ffff:192.0.2.9")), Action::Block);
    assert_eq!(action(at("198.51.100.7")), Action::Block, "listed as ::ffff:198.51.100.7");
    assert_eq!(action(at("203.0.113.9")), Action::Exempt, "listed as ::ffff:203.0.113.0/120");
    assert_eq!(action(at("11.1.2.3")), Action::Enforce);
    assert_eq!(action(Subject::new(b"k").listed_as(b"blocked")), Action::Block);
    assert_eq!(scope.address_in(b"::ffff:10.1.2.3"), "10.1.2.3".parse().ok());
    assert_eq!(scope.address_in(b"2001:db8::/64"), "2001:db8::".parse().ok());
    assert_eq!(scope.address_in(b"alice"), None);
    assert_eq!(Scope::new(policy("p", 1)).address_in(b"10.1.2.3"), None);
}

#[test]
fn variants_that_the_store_lost_are_skipped() {
    let scope = scope();
    let found = |subject: Subject<'_>| {
        let found = scope.resolve(&subject.skips_variants(true));
        (found.policy.name().to_owned(), found.action)
    };
    let base = ("p".to_owned(), Action::Enforce);
    assert_eq!(found(Subject::new(b"own")), base);
    assert_eq!(found(Subject::new(b"alice").with_tier(Some("pro"))), base);
    assert_eq!(found(Subject::new(b"blocked")).1, Action::Block);
    assert_eq!(found(Subject::new(b"alice").with_tier(Some("staff"))).1, Action::Unlimited);
}

#[test]
fn variants_are_what_a_store_must_know() {
    let scope = scope();
    let mut names: Vec<&str> = scope.variants().map(|policy| policy.name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["p@own", "p@own-exempt", "p@pro"]);
    assert_eq!(scope.tiers().map(|tier| tier.name()).collect::<Vec<_>>(), ["p@pro"]);
}

#[test]
fn answers_without_a_store() {
    let (scope, cost) = (scope(), Cost::from(3));
    let answer = |subject: Subject<'_>| scope.resolve(&subject).answer(&cost);
    let blocked = answer(Subject::new(b"blocked")).unwrap();
    assert!(!blocked.decision.is_allowed());
    assert_eq!(blocked.limits[0].remaining, Some(0));
    let exempt = answer(Subject::new(b"exempt")).unwrap();
    assert_eq!((exempt.decision.is_allowed(), exempt.decision.granted()), (true, 3));
    assert!(answer(Subject::new(b"alice").with_tier(Some("staff"))).unwrap().limits.is_empty());
    assert_eq!(answer(Subject::new(b"alice")), None);
}

#[test]
fn an_unknown_tier_is_an_error_or_the_default() {
    let plain = Scope::new(policy("p", 10));
    let error = plain.known_tier("pro").unwrap_err();
    assert_eq!(error.to_string(), "policy `p` has no tiers; found \"pro\"");
    let scope = scope();
    assert_eq!(scope.known_tier("pro").unwrap(), "pro");
    let error = scope.known_tier("gold").unwrap_err();
    assert_eq!((error.policy(), error.tier()), ("p", "gold"));
    let known = "policy `p` has no tier \"gold\"; it has `pro`, `same` and `staff`";
    assert_eq!(error.to_string(), known);
    let many =
        (0..20).fold(plain, |scope, tier| scope.with_tier(&format!("t{tier:02}"), policy("p", 10)));
    let error = many.known_tier("gold").unwrap_err().to_string();
    assert!(error.ends_with("`t06`, `t07` and 12 more"), "{error}");
    let scope = scope.with_default_tier("pro");
    assert_eq!(scope.known_tier("gold").unwrap(), "pro");
    let resolved =
        |tier| scope.resolve(&Subject::new(b"alice").with_tier(tier)).policy.name().to_owned();
    assert_eq!(resolved(Some("gold")), "p@pro");
    assert_eq!(resolved(Some("same")), "p");
    assert_eq!(resolved(None), "p", "a request without a tier stays without one");
}
