//! The exchange of a caller that is the only one: in its own task, one command and one timer.

use std::sync::Arc;

use redis::Value;
use tokio::time::{Instant, timeout_at};

use super::error::{CallError, sending_error};
use super::exchange::{encode_call, found, is_no_script, values};
use super::{Delivery, Link, Patience, Request};

impl Link {
    /// Sends a request in the caller's own task. `None` if other requests are on their way, if there is no connection,
    /// or if the server does not keep scripts: then nothing was done.
    pub(super) async fn send_alone(
        self: &Arc<Self>,
        request: &Request,
        delivery: Delivery,
        patience: Patience,
    ) -> Option<Result<Vec<Value>, CallError>> {
        // Either takes a second command.
        if delivery.asking || self.settings.replicas > 0 {
            return None;
        }
        // Dialling takes a task of its own, which goes on when the caller has left.
        let (id, mut connection) = self.open_connection()?;
        let mut turn = self.turn_alone()?;
        // A script that the server does not have is sent whole, on the same connection.
        for whole in [false, true] {
            let (now, deadline) = (Instant::now(), self.settings.deadline);
            // The timer is asked only after the command is on its way.
            if patience.by <= now {
                return Some(Err(CallError::GaveUp { is_sent: false }));
            }
            let cmd = encode_call(request.script(), &[request], 1, whole);
            let sent = connection.redis.send_packed_command(&cmd);
            turn.is_asking = true;
            let reply = timeout_at(patience.by.min(now + deadline), sent).await;
            // Whether the server answers in time is found out after this caller has left.
            turn.is_asking = reply.is_err() && patience.is_short;
            let (reply, is_healthy) = match reply {
                Ok(Ok(reply)) if is_no_script(&reply) => continue,
                Ok(Ok(reply)) => {
                    let reply = answer(request, reply);
                    let is_healthy = !reply.as_ref().is_err_and(CallError::ends_connection);
                    (reply, is_healthy)
                }
                Ok(Err(error)) => (Err(CallError::Store(sending_error(&error))), false),
                // It may have been charged or not: never sent again. Where the connection was silent for the whole
                // deadline, the next call gets another.
                Err(_) => (Err(patience.no_answer()), patience.is_short),
            };
            if !is_healthy {
                self.disconnect(id);
            }
            return Some(reply);
        }
        None
    }
}

/// What a script replied to a request alone.
fn answer(request: &Request, reply: Value) -> Result<Vec<Value>, CallError> {
    let mut values = values(request, 1, reply)?;
    if let Request::Script { .. } = request {
        return Ok(values);
    }
    let state = values.pop().unwrap_or(Value::Nil);
    found(values.pop().unwrap_or(Value::Nil), state)
}
