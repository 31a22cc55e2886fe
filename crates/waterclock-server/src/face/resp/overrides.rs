//! `RL.OVERRIDE`: limits of single keys, which the store keeps.

use std::time::Duration;

use waterclock::KeyOverride;
use waterclock_config::{Micros, OverrideJson, OverrideLine};

use super::commands::{ErrorReply, Next, arity, is, shown};
use super::parse::Command;
use super::rl::policy_and_key;
use super::write::Replies;
use crate::engine::{ActivePolicy, Engine, Key, Plan};

/// `RL.OVERRIDE policy key SET json [EX seconds]`, `… GET` and `… CLEAR`. They answer `OK`; the override as JSON, or
/// null; and 1 or 0.
pub(super) fn run<'t>(
    engine: &'t Engine,
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let (name, key) = (command.get(1).unwrap_or_default(), command.get(2).unwrap_or_default());
    let (policy, key) = policy_and_key(plan, name, key)?;
    let (word, mut reply) = (command.get(3), replies.another());
    if is(word, "set") {
        let new = new_override(policy, &key, command)?;
        return Ok(Next::wait_alone(async move {
            engine.set_override(policy, &new).await?;
            reply.simple("OK");
            Ok(reply)
        }));
    }
    if command.len() > 4 {
        return Err(arity("rl.override").into());
    }
    if is(word, "get") {
        Ok(Next::wait_alone(async move {
            match engine.override_of(policy, &key).await? {
                Some(kept) => {
                    let line = OverrideLine::new(&kept).without_key();
                    // Text, numbers and lists can always be written.
                    reply.bulk(&serde_json::to_vec(&line).unwrap_or_default());
                }
                None => reply.null(),
            }
            Ok(reply)
        }))
    } else if is(word, "clear") {
        Ok(Next::wait_alone(async move {
            let had_one = engine.clear_override(policy, &key).await?;
            reply.integer(had_one.into());
            Ok(reply)
        }))
    } else {
        let found = shown(word.unwrap_or_default(), 64);
        Err(format!("ERR unknown subcommand '{found}'; SET, GET and CLEAR are known").into())
    }
}

fn new_override(
    policy: &ActivePolicy,
    key: &Key<'_>,
    command: Command<'_, '_>,
) -> Result<KeyOverride, String> {
    let json = command.get(4).ok_or_else(|| arity("rl.override"))?;
    let config = policy.config();
    let read = OverrideJson::read(json)
        .and_then(|json| json.rule(config.policy().mode(), config.limits()));
    let (rule, expires_in) = read.map_err(|bad| format!("ERR {bad}"))?;
    let expires_in = match (command.get(5), command.get(6)) {
        (None, _) => expires_in,
        (Some(_), _) if expires_in.is_some() => {
            return Err("ERR send EX or an expiry in the JSON, not both".to_owned());
        }
        (Some(word), Some(seconds)) if is(Some(word), "ex") => Some(parse_seconds(seconds)?),
        (Some(_), _) => return Err("ERR syntax error; EX seconds may follow the JSON".to_owned()),
    };
    Ok(KeyOverride::new(key.bytes(), rule).expires_in(expires_in))
}

fn parse_seconds(argument: &[u8]) -> Result<Duration, String> {
    let seconds = std::str::from_utf8(argument).ok().and_then(|text| text.parse().ok());
    let time = seconds.map(Duration::from_secs).filter(|time| !time.is_zero());
    time.filter(|time| *time <= Micros::MAX.duration()).ok_or_else(|| {
        format!("ERR EX must be from 1 second to 100 years, not '{}'", shown(argument, 64))
    })
}
