//! A server as the store of another process.

mod access;
mod define;
mod denied;
mod faults;
mod holding;
mod impostor;
mod layer;
mod outage;
mod overrides;
mod parity;
mod units;

use std::time::Duration;

use waterclock::{Answer, Charge, Store, StoreError, Verb};
use waterclock_http::{RemoteStore, RemoteStoreBuilder};

use crate::at_work::AtWork;

/// Longer than any machine takes that works.
const PATIENT: Duration = Duration::from_secs(20);

fn url_of(server: &AtWork) -> String {
    format!("http://{}", server.http_address())
}

/// A store that waits for its answers, however slow the machine is.
fn patient(url: &str) -> RemoteStoreBuilder {
    RemoteStore::builder(url).deadline(PATIENT)
}

async fn check(
    store: &impl Store,
    policy: &str,
    key: &[u8],
    cost: u64,
) -> Result<Answer, StoreError> {
    let answers = store.apply(Verb::Check, &[Charge::new(policy, key, cost)]).await?;
    Ok(answers.into_iter().next().expect("an answer"))
}
