//! `RL.POLICY`: policies given at run time.

use serde_json::Value;

use super::commands::{ErrorReply, Next, is, shown};
use super::parse::Command;
use super::session::Session;
use super::write::Replies;
use crate::Server;
use crate::access::Role;
use crate::describe::describe;
use crate::engine::{KeptError, Plan};

/// `RL.POLICY name SET json | GET | DEL`.
///
/// SET replies OK; GET the policy as `/v1/policies/{policy}` gives it, or null; DEL whether there was one.
pub(super) fn policy<'t>(
    server: &'t Server,
    session: &Session,
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Result<Next<'t>, ErrorReply> {
    let name = std::str::from_utf8(command.get(1).unwrap_or_default());
    let name = name.map_err(|_| "ERR the name of a policy is UTF-8")?;
    let (action, engine) = (command.get(2), &server.engine);
    let permit = |role: Role| match session.has(server, role) {
        true => Ok(()),
        false => Err(format!(
            "NOPERM this token has no permission to run this command; it needs the role {}",
            role.name()
        )),
    };
    let mut reply = replies.another();
    match command.len() {
        3 if is(action, "get") => {
            permit(Role::Read)?;
            // A shared store is asked first if the policy is not known.
            match (describe(plan, name), engine.memory().is_some()) {
                (Some(known), _) => replies.bulk(known.to_string().as_bytes()),
                (None, true) => replies.null(),
                (None, false) => {
                    return Ok(Next::wait_alone(async move {
                        let plan = engine.plan_knowing([name].into_iter()).await;
                        match describe(&plan, name) {
                            Some(known) => reply.bulk(known.to_string().as_bytes()),
                            None => reply.null(),
                        }
                        Ok(reply)
                    }));
                }
            }
            Ok(Next::Replied)
        }
        4 if is(action, "set") => {
            permit(Role::Admin)?;
            let policy: Value = serde_json::from_slice(command.get(3).unwrap_or_default())
                .map_err(|error| format!("ERR the policy must be JSON: {error}"))?;
            Ok(Next::change_plan(async move {
                match engine.keep_policy(name, &policy).await {
                    Ok(_) => reply.simple("OK"),
                    Err(KeptError::Store(error)) => return Err(error),
                    Err(error) => reply.error(&format!("ERR {error}")),
                }
                Ok(reply)
            }))
        }
        3 if is(action, "del") => {
            permit(Role::Admin)?;
            Ok(Next::change_plan(async move {
                match engine.delete_policy(name).await {
                    Ok(()) => reply.integer(1),
                    Err(KeptError::Unknown(_)) => reply.integer(0),
                    Err(KeptError::Store(error)) => return Err(error),
                    Err(error) => reply.error(&format!("ERR {error}")),
                }
                Ok(reply)
            }))
        }
        _ => {
            let found = shown(action.unwrap_or_default(), 64);
            let text = format!("ERR RL.POLICY name SET json, GET or DEL; found '{found}'");
            Err(text.into())
        }
    }
}
