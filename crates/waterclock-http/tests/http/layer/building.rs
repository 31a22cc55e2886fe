//! Mistakes are errors when the layer is built.

use waterclock::{Answer, Charge, Limit, Policy, Store, StoreError, Verb};
use waterclock_http::{ClientIp, Key, RateLimitLayer, RateLimitLayerBuilder, Rule};

use super::stage::{memory, policy};

type Builder = RateLimitLayerBuilder<waterclock::MemoryStore<waterclock::ManualClock>>;

async fn complaint(change: impl FnOnce(Builder) -> Builder) -> String {
    let builder = change(RateLimitLayer::builder(memory().0));
    builder.build().await.err().map(|error| error.to_string()).unwrap_or_default()
}

#[tokio::test]
async fn one_sentence_each() {
    let api = || Rule::new(policy("api", 1));
    assert_eq!(
        complaint(|to| to).await,
        "the layer has no rule; add one with `.policy(…)` or `.rule(…)`"
    );
    assert_eq!(
        complaint(|to| to.rule(api())).await,
        "policy `api` has no key; set what shares its budget with `.key(…)`, which may be `Key::everyone()`"
    );
    assert_eq!(
        complaint(|to| to.rule(api().path("/users/{id")).key(Key::everyone())).await,
        "the rule of policy `api` has the path `/users/{id`, which is invalid or conflicts with another path; \
         write `/users/{id}` or `/files/{*path}`"
    );
    assert_eq!(
        complaint(|to| to.rule(api().path("/users/{id}").path("/me").key(Key::path("id")))).await,
        "the key of policy `api` is the parameter `id`, which not all paths of its rule have; write `.path(\"/…/{id}\")`"
    );
    assert_eq!(
        complaint(|to| to.rule(api()).key(Key::all([Key::everyone(), Key::header("x user")])))
            .await,
        "the key of policy `api` is the header `x user`, which is not a valid header name"
    );
    assert_eq!(
        complaint(|to| to.rule(api()).rule(policy("api", 2)).key(Key::everyone())).await,
        "two different policies are called `api`; give one of them another name"
    );
    assert_eq!(complaint(|to| to.rule(api()).rule(api().cost(2)).key(Key::everyone())).await, "");
    assert_eq!(
        complaint(|to| to.rule(api().tier("pro", policy("api", 2))).key(Key::everyone())).await,
        "two different policies are called `api`; give one of them another name"
    );
    let other_limits = Policy::new("api-pro", [Limit::per_second(3).with_name("other")]).unwrap();
    let tier = complaint(|to| to.rule(api().tier("pro", other_limits)).key(Key::everyone())).await;
    assert_eq!(
        tier,
        "policy `api-pro` is a tier of `api`, but its limits have other names, so what was spent cannot be \
         carried over; give them the same names, or no limits at all"
    );
}

/// A missing address is an error at start-up, not a 500.
#[tokio::test]
async fn an_unknown_address() {
    let sentence = "the key of policy `api` is the client's address, which a request does not contain; use \
                    `.build_per_connection()`, or find it with `.peer(…)`";
    let hidden =
        || Key::header("x-user").or(Key::all([Key::everyone(), ClientIp::default().into()]));
    assert_eq!(complaint(|to| to.rule(policy("api", 1)).key(ClientIp::default())).await, sentence);
    assert_eq!(complaint(|to| to.rule(policy("api", 1)).key(hidden())).await, sentence);
    let known =
        complaint(|to| to.rule(policy("api", 1)).key(hidden()).peer(|_| [127, 0, 0, 1].into()));
    assert_eq!(known.await, "");
    let builder = RateLimitLayer::builder(memory().0).rule(policy("api", 1)).key(hidden());
    assert!(builder.build_per_connection().await.is_ok());
}

/// Settling needs reservations, which not every store has.
#[tokio::test]
async fn a_store_without_reservations() {
    struct Plain;
    impl Store for Plain {
        async fn set_policy(&self, _: Policy) -> Result<(), StoreError> {
            Ok(())
        }
        async fn apply(&self, _: Verb, _: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
            Ok(Vec::new())
        }
    }
    let build = |rule: Rule| RateLimitLayer::builder(Plain).rule(rule).key(Key::everyone()).build();
    assert!(build(Rule::new(policy("api", 1))).await.is_ok());
    let error = build(Rule::new(policy("api", 1)).settle(|_| 1)).await.unwrap_err();
    assert_eq!(error.to_string(), "this store cannot hold reservations");
}
