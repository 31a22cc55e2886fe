//! Policies given at run time: set and deleted by administrators, kept in the store for all servers.

use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json as value};

use super::problem::{Problem, json};
use super::request::{Administers, Call, PathOf};
use crate::describe::describe;
use crate::engine::{Kept, KeptError};

/// Keeps a policy, or replaces the one that is kept. The same one again changes nothing.
pub(super) async fn put(
    path: PathOf<String>,
    call: Call<Administers>,
) -> Result<Response, Problem> {
    let Path(name) = path?;
    let policy: Value = serde_json::from_slice(&call.body).map_err(|error| {
        let detail = format!("the body must be the policy as JSON, {{\"limits\": […]}}: {error}");
        Problem::bad("body", detail)
    })?;
    let server = Arc::clone(&call.server);
    let kept = to_the_end(async move {
        let kept = server.engine.keep_policy(&name, &policy).await?;
        Ok((describe(&server.engine.plan(), &name), kept))
    });
    let (description, kept) = kept.await?;
    let status = if kept == Kept::Created { StatusCode::CREATED } else { StatusCode::OK };
    let mut description = description.unwrap_or_else(|| value!({}));
    description["result"] = value!(kept.name());
    Ok(json(status, &description))
}

/// Deletes a policy that is kept.
pub(super) async fn delete(
    path: PathOf<String>,
    call: Call<Administers>,
) -> Result<Response, Problem> {
    let Path(name) = path?;
    let (server, policy) = (Arc::clone(&call.server), name.clone());
    to_the_end(async move { server.engine.delete_policy(&policy).await }).await?;
    Ok(json(StatusCode::OK, &value!({ "policy": name, "result": "deleted" })))
}

/// Runs a change that must not stop half way when the client goes away.
async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, KeptError>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(change).await {
        Ok(changed) => Ok(changed?),
        Err(_) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the change was not made")),
    }
}

impl From<KeptError> for Problem {
    fn from(error: KeptError) -> Problem {
        match error {
            KeptError::Store(error) => error.into(),
            KeptError::Taken(why) => Problem::new(StatusCode::CONFLICT, why),
            KeptError::Unknown(_) => Problem::not_found(error.to_string()),
            KeptError::Invalid(_) => Problem::bad("policy", error.to_string()),
        }
    }
}
