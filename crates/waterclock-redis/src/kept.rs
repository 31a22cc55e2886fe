//! Policies that are kept as text for all nodes: in two keys of one slot, read in pages of what changed.

use redis::Value;
use tokio::time::Instant;
use waterclock::store::{MAX_KEPT_BYTES, MAX_KEPT_POLICIES, check_kept};
use waterclock::{KeptChange, KeptChanges, StoreError};

use crate::call::bad_reply;
use crate::direct::Direct;
use crate::link::Request;
use crate::script::KEPT;

/// About how many bytes of names and texts a page has: checks wait behind it on the same connection.
const PAGE: usize = 64 * 1_024;
/// How many names of dropped policies are remembered. After that, nodes read all policies once more.
const REMEMBERED: usize = 1_000;

impl Direct {
    pub(crate) async fn keep_text(&self, name: &str, text: &str) -> Result<KeptChange, StoreError> {
        check_kept(name, text)?;
        let (most, bytes) = (MAX_KEPT_POLICIES.to_string(), MAX_KEPT_BYTES.to_string());
        let reply = self.ask_kept(&["keep", name, text, &most, &bytes]).await?;
        if reply.is_empty() {
            return Err(StoreError::KeptFull(name.to_owned()));
        }
        change(&reply)
    }

    pub(crate) async fn drop_kept(&self, name: &str) -> Result<KeptChange, StoreError> {
        change(&self.ask_kept(&["drop", name, &REMEMBERED.to_string()]).await?)
    }

    pub(crate) async fn changes_of_kept(&self, since: u64) -> Result<KeptChanges, StoreError> {
        let reply = self.ask_kept(&["read", &since.to_string(), &PAGE.to_string()]).await?;
        let [version, Value::Int(starts_over), Value::Int(has_more), changes @ ..] = &*reply else {
            return Err(bad_reply());
        };
        let mut found = KeptChanges::none(number(version)?);
        (found.starts_over, found.has_more) = (*starts_over == 1, *has_more == 1);
        for change in changes.chunks(2) {
            let [name, kept] = change else { return Err(bad_reply()) };
            let kept = text(kept)?;
            found.changes.push((text(name)?, (!kept.is_empty()).then_some(kept)));
        }
        Ok(found)
    }

    async fn ask_kept(&self, args: &[&str]) -> Result<Vec<Value>, StoreError> {
        let keys = self.keyspace.kept();
        let slot = keys[0].slot;
        let args = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let request = Request::Script { script: &KEPT, keys: keys.into(), args };
        self.route.send(slot, request, Instant::now() + self.deadline).await
    }
}

fn change(reply: &[Value]) -> Result<KeptChange, StoreError> {
    match reply {
        [before, now, Value::Int(existed)] => {
            Ok(KeptChange::new(number(before)?, number(now)?, *existed == 1))
        }
        _ => Err(bad_reply()),
    }
}

fn number(value: &Value) -> Result<u64, StoreError> {
    text(value)?.parse().map_err(|_| bad_reply())
}

fn text(value: &Value) -> Result<String, StoreError> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).map_err(|_| bad_reply()),
        _ => Err(bad_reply()),
    }
}
