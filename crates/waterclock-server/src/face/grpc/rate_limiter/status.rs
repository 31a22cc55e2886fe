//! Errors as gRPC has them: a code, and one sentence that names the field.

use tonic::{Code, Status};
use waterclock::store::Unfit;
use waterclock::{Failure, PolicyError, StoreError};

use crate::face::charge::WrongCharge;
use crate::face::http::without_hosts;
use crate::waits::WaitError;

/// A field of the request is wrong.
pub(super) fn wrong(field: &str, reason: &str) -> Status {
    let named = format!("`{field}`");
    let is_named = reason.contains(&named);
    let message = if is_named { reason.to_owned() } else { format!("{named}: {reason}") };
    Status::invalid_argument(message)
}

/// The same, about one of several checks.
pub(super) fn in_check(status: &Status, at: usize) -> Status {
    Status::new(status.code(), format!("checks[{at}]: {}", status.message()))
}

pub(super) fn of_charge(wrong_charge: &WrongCharge) -> Status {
    match wrong_charge {
        WrongCharge::UnknownPolicy(unknown) => Status::not_found(unknown.to_string()),
        WrongCharge::Field { field, reason } => wrong(field, reason),
    }
}

/// A store that fails is unavailable; it never refuses.
pub(super) fn of_store(error: &StoreError) -> Status {
    let message = without_hosts(error);
    match error {
        StoreError::UnknownPolicy(_) | StoreError::UnknownReservation(_) => {
            Status::not_found(message)
        }
        StoreError::Failed { kind, .. } | StoreError::Denied { kind, .. } => {
            let is_full = *kind == Failure::Overloaded;
            let code = if is_full { Code::ResourceExhausted } else { Code::Unavailable };
            Status::new(code, message)
        }
        StoreError::KeptFull(_) => Status::resource_exhausted(message),
        StoreError::BadCost(_) => wrong("cost", &message),
        StoreError::Unfit(Unfit::Policy(PolicyError::NotScalable { .. })) => {
            wrong("factor", &message)
        }
        _ => wrong("policy", &message),
    }
}

pub(super) fn of_wait(error: &WaitError) -> Status {
    match error {
        WaitError::NoRoom => Status::resource_exhausted("too many callers wait already"),
        WaitError::Stopping => Status::unavailable("the server is stopping"),
        WaitError::Store(error) => of_store(error),
    }
}
