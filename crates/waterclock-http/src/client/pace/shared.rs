//! Turns by a store that other processes ask as well.

use std::sync::Arc;
use std::time::Duration;

use tokio::time;
use waterclock::{Answer, Charge, Failure, Mode, Policy, Store, StoreError, Verb, WaitError};

use super::error::Stopped;
use super::line::Line;
use super::pacer::{Turn, Turns};
use crate::client::patience::Patience;

/// As in this process's own limiters.
const BACKLOG: usize = 65_536;

pub(super) struct Shared<S> {
    store: S,
    policy: Box<str>,
    line: Line,
}

/// What the store said.
enum Said {
    Pass,
    Wait(Duration),
}

impl<S: Store + 'static> Shared<S> {
    pub(super) async fn new(store: S, policy: Policy) -> Result<Self, StoreError> {
        let name: Box<str> = policy.name().into();
        if policy.mode() != Mode::Binary {
            return Err(StoreError::Unfit(format!(
                "policy `{name}` cannot pace requests over a shared store, because its mode is not \
                 binary; use one of mode binary, or a limiter of this process"
            )));
        }
        if policy.counts_several() {
            return Err(StoreError::Unfit(format!(
                "policy `{name}` cannot pace requests, because it counts several units, and a request has one \
                 cost; use a policy of one unit"
            )));
        }
        store.set_policy(policy).await?;
        Ok(Self { store, policy: name, line: Line::default() })
    }

    fn charge<'a>(&'a self, key: &'a str, cost: u64) -> [Charge<'a>; 1] {
        [Charge { policy: &self.policy, key: key.as_bytes(), cost: cost.into() }]
    }

    async fn ask(&self, key: &str, cost: u64) -> Result<Said, Stopped> {
        read(self.store.apply(Verb::Check, &self.charge(key, cost)).await)
    }

    /// In line from the first poll on: so the order is that of arrival, whatever order the store's answers
    /// come in, and however many arrive at once, the store hears one question at a time.
    async fn wait(
        &self,
        key: &str,
        cost: u64,
        patience: &Patience,
        most: usize,
    ) -> Result<(), Stopped> {
        let deadline = patience.deadline();
        let place = self.line.join(key, most)?;
        let _turn = match deadline {
            Some(deadline) => time::timeout(deadline.since(patience.now()), place.turn())
                .await
                .map_err(|_| WaitError::Deadline)?,
            None => place.turn().await,
        };
        loop {
            let Said::Wait(wait) = self.ask(key, cost).await? else { return Ok(()) };
            // Told at once, if it is in vain.
            time::sleep(patience.sleep(wait, deadline).ok_or(WaitError::Deadline)?).await;
        }
    }
}

fn read(answers: Result<Vec<Answer>, StoreError>) -> Result<Said, Stopped> {
    let answers = answers?;
    let Some(answer) = answers.first() else {
        return Err(StoreError::failed(Failure::BadReply, "no answer to a question").into());
    };
    if answer.decision.is_allowed() {
        return Ok(Said::Pass);
    }
    Ok(Said::Wait(answer.decision.retry_after().ok_or(WaitError::Never)?))
}

impl<S: Store + 'static> Turns for Shared<S> {
    fn take(
        self: Arc<Self>,
        key: String,
        cost: u64,
        patience: Patience,
        backlog: Option<usize>,
    ) -> Turn {
        let most = backlog.unwrap_or(BACKLOG);
        Box::pin(async move { self.wait(&key, cost, &patience, most).await })
    }
}
