//! A log of all calls: what, when, and the answer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use waterclock::{Charge, Failure, Source, Store, Verb};

/// One call as its caller saw it. Instants are counted from the start of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) invoked: Duration,
    pub(crate) returned: Duration,
    pub(crate) cost: u64,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered { granted: u64, source: Source },
    Failed(Failure),
}

impl Call {
    /// What the caller may do.
    pub(crate) fn granted(&self) -> u64 {
        if let Outcome::Answered { granted, .. } = self.outcome { granted } else { 0 }
    }

    pub(crate) fn source(&self) -> Option<Source> {
        if let Outcome::Answered { source, .. } = self.outcome { Some(source) } else { None }
    }

    /// Whether the store decided, and not something in its place.
    pub(crate) fn is_from_store(&self) -> bool {
        matches!(self.source(), Some(Source::Authoritative | Source::DeniedCache | Source::Lease))
    }

    pub(crate) fn took(&self) -> Duration {
        self.returned - self.invoked
    }
}

/// A log that many callers write to. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    start: Instant,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), calls: Arc::default() }
    }

    /// An empty log whose instants are those of this one.
    pub(crate) fn beside(&self) -> Self {
        Self { start: self.start, calls: Arc::default() }
    }

    /// The present instant of this log.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Checks one key, and writes down what came of it.
    pub(crate) async fn check(&self, store: &impl Store, charge: Charge<'_>) -> Call {
        self.check_with(store, charge, &[]).await
    }

    /// The same, together with others.
    pub(crate) async fn check_with<'a>(
        &self,
        store: &impl Store,
        charge: Charge<'a>,
        others: &[Charge<'a>],
    ) -> Call {
        let charges = [std::slice::from_ref(&charge), others].concat();
        let invoked = self.now();
        let answers = store.apply(Verb::Check, &charges).await;
        let returned = self.now();
        let outcome = match answers {
            Ok(answers) => {
                let answer = &answers[0];
                Outcome::Answered { granted: answer.decision.granted(), source: answer.source }
            }
            Err(error) => Outcome::Failed(error.failure().expect("the question is sound")),
        };
        let call = Call { invoked, returned, cost: charge.cost.most(), outcome };
        self.calls.lock().push(call);
        call
    }

    /// Everything so far, by when it was asked.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut calls = self.calls.lock().clone();
        calls.sort_by_key(|call| call.invoked);
        calls
    }
}
