//! Reserve, Commit and Cancel: hold an estimate, then settle it with what was used.

use std::time::Duration;

use tonic::Status;
use waterclock::store::check_reservation_id;
use waterclock::{
    BadReservation, Cost, MAX_RESERVATION_ID, MAX_RESERVATION_TTL, MIN_RESERVATION_TTL, OnExpiry,
    Settled, Settlement, StoreError,
};
use waterclock_config::micros_up;

use super::super::proto::rate_limiter as proto;
use super::check::{cost_of, decisions, read_several, to_checks};
use super::decision::cost;
use super::status::{of_store, wrong};
use crate::engine::{Holding, Terms};
use crate::observe::Face;
use crate::server::Server;

/// Holds the charges of a message until they are settled.
pub(super) async fn reserve(
    server: &Server,
    request: proto::ReserveRequest,
) -> Result<proto::ReserveResponse, Status> {
    let terms = terms(&request)?;
    let requests = read_several(&request.checks)?;
    let engine = &server.engine;
    let plan = engine.plan_knowing(requests.iter().map(|request| request.policy)).await;
    let checks = to_checks(&plan, &requests)?;
    let Holding { replies, reservation, .. } =
        engine.reserve(Face::Grpc, terms, &checks).await.map_err(|error| match &error {
            StoreError::BadReservation(bad) => {
                // All other fields were validated before.
                let field = match bad {
                    BadReservation::Lease { .. } => "ttl_us",
                    BadReservation::NoCost => "cost",
                    _ => "id",
                };
                wrong(field, &bad.to_string())
            }
            error => of_store(error),
        })?;
    Ok(proto::ReserveResponse {
        allowed: reservation.is_some(),
        decisions: decisions(&checks, &replies),
        reservation: reservation.map(|(id, expires_in)| proto::Reservation {
            id,
            expires_in_us: micros_up(expires_in),
        }),
    })
}

fn terms(request: &proto::ReserveRequest) -> Result<Terms<'_>, Status> {
    let ttl = request.ttl_us.map(Duration::from_micros);
    if ttl.is_some_and(|ttl| !(MIN_RESERVATION_TTL..=MAX_RESERVATION_TTL).contains(&ttl)) {
        return Err(wrong("ttl_us", "`ttl_us` must be from 1,000 (1 ms) to 86,400,000,000 (24 h)"));
    }
    let on_expiry = request.on_expiry.as_deref().map_or(Some(OnExpiry::Keep), OnExpiry::parse);
    let unknown = || wrong("on_expiry", "`on_expiry` must be \"keep\" or \"release\"");
    Ok(Terms {
        id: request.id.as_deref().map(checked_id).transpose()?,
        ttl,
        on_expiry: on_expiry.ok_or_else(unknown)?,
    })
}

fn checked_id(id: &str) -> Result<&str, Status> {
    check_reservation_id(id).map(|()| id).map_err(|_| {
        let reason = format!(
            "`id` must be 1 to {MAX_RESERVATION_ID} printable ASCII characters without spaces"
        );
        wrong("id", &reason)
    })
}

/// Settles a reservation with what was used.
pub(super) async fn commit(
    server: &Server,
    request: proto::CommitRequest,
) -> Result<proto::Settlement, Status> {
    if request.cost.is_empty() {
        return Err(wrong("cost", "`cost` must say what was used of each check"));
    }
    let used = request
        .cost
        .iter()
        .map(|used| cost_of(Some(used.cost), &used.costs).map(Option::unwrap_or_default));
    let used: Vec<Cost> = used.collect::<Result<_, _>>()?;
    settle(server, request.id, Settlement::Commit(&used)).await
}

/// Settles a reservation of which nothing was used.
pub(super) async fn cancel(
    server: &Server,
    request: proto::CancelRequest,
) -> Result<proto::Settlement, Status> {
    settle(server, request.id, Settlement::Cancel).await
}

async fn settle(
    server: &Server,
    id: String,
    with: Settlement<'_>,
) -> Result<proto::Settlement, Status> {
    checked_id(&id)?;
    let settled = server.engine.settle(&id, with).await.map_err(|error| match &error {
        StoreError::BadReservation(bad) => wrong("cost", &bad.to_string()),
        error => of_store(error),
    })?;
    let Settled { is_cancelled, held, used, .. } = &settled;
    let costs = |costs: &[Cost]| costs.iter().map(cost).collect();
    Ok(proto::Settlement { id, cancelled: *is_cancelled, held: costs(held), used: costs(used) })
}
