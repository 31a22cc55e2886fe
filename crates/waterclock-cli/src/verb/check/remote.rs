//! A decision by a Redis store, or by what stands in for it.

use waterclock::{Answer, Charge, Clock, MonotonicClock, Source, Store, StoreError, Verb};
use waterclock_redis::{OnStoreError, RedisStoreBuilder, Serving};

use crate::failure::{Failure, say};
use crate::stage::Ruling;
use crate::store::{block_on, sentence};
use waterclock_config::{PolicyConfig, StoreConfig};
use waterclock_server::redis_store;

pub(super) fn decide(
    url: &str,
    spec: &StoreConfig,
    ruling: &Ruling,
    charge: Charge<'_>,
) -> Result<Answer, Failure> {
    let asked = block_on(ask(redis_store(spec, url)?, ruling, charge))?;
    let (answer, trouble) = asked.map_err(|error| why(url, &error))?;
    warn(url, answer.source, trouble);
    Ok(answer)
}

/// The answer, and what is wrong with the store if something is.
async fn ask(
    settings: RedisStoreBuilder,
    ruling: &Ruling,
    charge: Charge<'_>,
) -> Result<(Answer, Option<StoreError>), StoreError> {
    let store = settings.start()?;
    store.set_policy_as(ruling.spec().built.clone(), serving(ruling.spec())).await?;
    ruling.set_variants(&store).await?;
    // The deadline is for an answer, and connecting takes longer. So a look, which writes nothing,
    // connects first; and it tells what is wrong, which an answer in the store's place does not.
    let now = MonotonicClock::default().now();
    let trouble = store.apply_at(now, Verb::Peek, std::slice::from_ref(&charge)).await.err();
    match store.apply(Verb::Check, &[charge]).await {
        Ok(answers) => {
            answers.into_iter().next().map(|answer| (answer, trouble)).ok_or_else(|| {
                StoreError::failed(waterclock::Failure::BadReply, "no answer to the only question")
            })
        }
        Err(error) => Err(trouble.unwrap_or(error)),
    }
}

fn serving(policy: &PolicyConfig) -> Serving {
    let on_store_error = OnStoreError::parse(policy.on_store_error).unwrap_or_default();
    Serving { on_store_error, lease: None }
}

/// What is wrong, and what the configuration can say about it.
fn why(url: &str, error: &StoreError) -> String {
    let sentence = sentence(url, error);
    match sentence.contains("UnknownIssuer") {
        true => format!("{sentence}, or name the authority's file as `ca` in [store]"),
        false => sentence,
    }
}

/// An answer that is not the store's says so.
fn warn(url: &str, source: Source, trouble: Option<StoreError>) {
    let decided = match source {
        Source::Local => "decided by this node's share of the limits",
        Source::Policy => "admitted by `on_store_error`",
        _ => return,
    };
    let late = || StoreError::failed(waterclock::Failure::Timeout, "no answer within the deadline");
    let trouble = trouble.unwrap_or_else(late);
    say(&format!("warning: {decided}, because {}", why(url, &trouble)));
}
