//! Reservations on the server.
//!
//! Nothing stands in for it: what only this process held, nobody could settle there.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use hyper_util::client::legacy::connect::Connect;
use serde::Deserialize;
use waterclock::{Charge, Cost, Hold, Policy, Reserved, Settled, Settlement, StoreError};

use super::Inner;
use super::ask::read;
use super::no_answer::NoAnswer;
use super::question;
use super::wire::Reply;

/// What the server says beside the decisions.
#[derive(Deserialize)]
struct SaidHeld {
    reservation: SaidReservation,
}

#[derive(Deserialize)]
struct SaidReservation {
    id: String,
    expires_in_us: u64,
}

#[derive(Deserialize)]
struct SaidSettled {
    cancelled: bool,
    held: Vec<Cost>,
    used: Vec<Cost>,
}

impl<C: Connect + Clone + Send + Sync + 'static> Inner<C> {
    /// `policies` are those of the charges.
    pub(super) async fn reserve(
        &self,
        hold: &Hold<'_>,
        policies: &[Arc<Policy>],
    ) -> Result<Reserved, StoreError> {
        let call = question::reserve(hold)?;
        let asked = async {
            let reply = self.wire.send(call).await?;
            let is_decision =
                matches!(reply.status, StatusCode::CREATED | StatusCode::TOO_MANY_REQUESTS);
            let answers = if is_decision { read(&reply, hold.charges, policies) } else { None };
            let answers = answers
                .ok_or_else(|| self.complaint(&reply, hold.charges))?
                .map_err(|reason| self.garbage(reason))?;
            if reply.status == StatusCode::TOO_MANY_REQUESTS {
                return Ok(Reserved { id: None, expires_in: Duration::ZERO, answers });
            }
            let said: SaidHeld = serde_json::from_slice(&reply.body)
                .map_err(|error| self.garbage(error.to_string()))?;
            let SaidReservation { id, expires_in_us } = said.reservation;
            let expires_in = Duration::from_micros(expires_in_us);
            Ok(Reserved { id: Some(id), expires_in, answers })
        };
        self.within(|_| false, asked).await.map_err(NoAnswer::into_error)
    }

    pub(super) async fn settle_held(
        &self,
        id: &str,
        with: Settlement<'_>,
    ) -> Result<Settled, StoreError> {
        let call = question::settle(id, with)?;
        let asked = async {
            let reply = self.wire.send(call).await?;
            match reply.status {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => {
                    return Err(StoreError::UnknownReservation(id.to_owned()).into());
                }
                _ => return Err(self.complaint(&reply, &[])),
            }
            let SaidSettled { cancelled, held, used } = serde_json::from_slice(&reply.body)
                .map_err(|error| self.garbage(error.to_string()))?;
            Ok(Settled { is_cancelled: cancelled, held, used })
        };
        self.within(|_| false, asked).await.map_err(NoAnswer::into_error)
    }

    fn complaint(&self, reply: &Reply, charges: &[Charge<'_>]) -> NoAnswer {
        bad(reply).map_or_else(|| self.refused(reply, charges), NoAnswer::from)
    }
}

/// A complaint about the reservation itself, and not about what it holds.
fn bad(reply: &Reply) -> Option<StoreError> {
    #[derive(Deserialize)]
    struct Problem {
        detail: String,
        field: String,
    }
    if reply.status != StatusCode::BAD_REQUEST {
        return None;
    }
    let Problem { detail, field } = serde_json::from_slice(&reply.body).ok()?;
    let is_its_own = ["id", "ttl", "on_expiry", "cost"].contains(&&*field);
    is_its_own.then_some(StoreError::BadReservation(detail))
}
