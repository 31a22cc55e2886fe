//! Why there is no answer, as gRPC says it.

use tonic::Status;
use waterclock::StoreError;

use crate::engine::BadKey;

/// A store that fails is unavailable, whatever the failure; it never refuses.
pub(super) fn of_store(error: &StoreError) -> Status {
    match error {
        StoreError::Failed { kind, .. } => {
            Status::unavailable(format!("the store failed ({})", kind.name()))
        }
        StoreError::BadCost(error) => Status::failed_precondition(error.to_string()),
        StoreError::Unfit(reason) => Status::failed_precondition(reason.clone()),
        _ => Status::internal(error.to_string()),
    }
}

pub(super) fn of_key(descriptor: usize, bad: &BadKey) -> Status {
    Status::invalid_argument(format!("`descriptors[{descriptor}]`: {bad}"))
}

pub(super) fn late() -> Status {
    Status::unavailable("the store did not answer in time")
}

pub(super) fn overloaded() -> Status {
    Status::resource_exhausted("the server is overloaded; nothing was decided")
}
