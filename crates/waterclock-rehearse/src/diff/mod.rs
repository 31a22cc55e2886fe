//! What a change of the configuration changes, and for which keys.

mod changes;
mod page;
mod report;
mod why;

pub use self::changes::{PolicyChange, policy_changes};
pub use self::report::write_changes;

use serde_json::{Value, json};
use waterclock_config::{Config, PolicyConfig};

use self::changes::{Changes, Side};
use self::why::{Change, Reason};
use crate::report::{Checked, evicted};
use crate::stage::{Stage, without_limits};
use crate::trace::{Event, Input, Op, Reading};
use crate::{Error, Note};

/// An old and a new policy after the same traffic.
pub struct Comparison {
    source: String,
    old: PolicyConfig,
    new: PolicyConfig,
    was: Side,
    is: Side,
    changes: Changes,
    notes: Vec<Note>,
    is_empty: bool,
    error: Option<Error>,
}

/// The policy to compare as both files have it; none if no policy changes and none is named. A policy that only one
/// file has admits everything in the other.
pub fn choose(
    mut old: Config,
    mut new: Config,
    name: Option<&str>,
    changes: &[PolicyChange],
) -> Result<Option<(PolicyConfig, PolicyConfig)>, Error> {
    let name = match (name, changes) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.policy.clone(),
        (None, []) => match (&*old.policies, &*new.policies) {
            // Nothing changes, as traffic will show.
            ([only], [_]) => only.name().to_owned(),
            _ => return Ok(None),
        },
        (None, several) => {
            let names: Vec<String> =
                several.iter().map(|change| format!("`{}`", change.policy)).collect();
            return Err(format!(
                "{} policies change; choose one with --policy: {}",
                names.len(),
                names.join(", ")
            )
            .into());
        }
    };
    let has = |config: &Config| config.policies.iter().any(|policy| policy.name() == name);
    let (in_old, in_new) = (has(&old), has(&new));
    if !in_old && !in_new {
        // The error lists the policies.
        new.choose(Some(&name))?;
    }
    let side = |config: &mut Config, is_in: bool| -> Result<PolicyConfig, Error> {
        if is_in { Ok(config.choose(Some(&name))?) } else { without_limits(&name) }
    };
    let (mut old, mut new) = (side(&mut old, in_old)?, side(&mut new, in_new)?);
    // A policy that is not there forms no keys of its own.
    match (in_old, in_new) {
        (true, false) => new.key.clone_from(&old.key),
        (false, true) => old.key.clone_from(&new.key),
        _ => {}
    }
    Ok(Some((old, new)))
}

impl Comparison {
    /// Plays traffic under both policies. What was decided before the input turned out to be wrong is kept, and
    /// [`take_error`](Self::take_error) says why it ended.
    pub fn play(
        old: PolicyConfig,
        new: PolicyConfig,
        source: &str,
        reading: &Reading,
        input: Input,
    ) -> Result<Comparison, Error> {
        let (mut was, mut is, mut changes) = (Side::new(), Side::new(), Changes::new());
        let is_same_key = old.key == new.key;
        let both = [&new, &old];
        let policies = if is_same_key { &both[..1] } else { &both[..] };
        let (reading, input) = reading.recognise(input)?;
        let mut trace = reading.open(input, policies, &both)?;
        let other_key = (reading.has_keys_by_policy() && !is_same_key).then(|| {
            let (was, is) = (fields_of(&old), fields_of(&new));
            let message = format!("the old policy forms its keys from {was}, the new one from {is}, and keys here are those of the new one; --key makes them the same");
            Note::new("other-keys", json!({ "old_key": old.key, "new_key": new.key }), message)
        });
        let (old_stage, new_stage) = (Stage::new(&old)?, Stage::new(&new)?);
        // The new rules, where the calls count that the old policy counts.
        let between = Stage::new(&new)?;
        let (mut is_empty, mut error) = (true, None);
        loop {
            let event = match trace.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(wrong) if is_empty => return Err(wrong),
                Err(wrong) => {
                    error = Some(wrong);
                    break;
                }
            };
            is_empty = false;
            let before = event.under(1);
            let (old_answer, new_answer) = (old_stage.play(&before)?, new_stage.play(&event)?);
            if event.op != Op::Check {
                between.play(&event)?;
                continue;
            }
            let checked =
                |key, (resolved, decision)| Checked { resolved, t_us: event.t_us, key, decision };
            let before = checked(&before.key, (&old_answer.0, &old_answer.1.decision));
            let after = checked(&event.key, (&new_answer.0, &new_answer.1.decision));
            was.add(&before);
            is.add(&after);
            let reasons = why(&before, &after, (&between, &event), is_same_key)?;
            changes.add(&before, &after, reasons);
            between.count_as(&event, &before)?;
        }
        // Notes explain an empty trace better.
        let is_empty = is_empty && trace.notes().is_empty();
        let notes = trace
            .notes()
            .into_iter()
            .chain(other_key)
            .chain(old_stage.note().or(new_stage.note()))
            .chain(changes.keys.has_evicted().then(evicted))
            .collect();
        drop((old_stage, new_stage, between));
        Ok(Comparison {
            source: source.to_owned(),
            old,
            new,
            was,
            is,
            changes,
            notes,
            is_empty,
            error,
        })
    }

    /// Whether there was no traffic, for no reason that the notes name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Why the traffic ended early, if it did.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}

/// Why the two decide differently, if they do.
fn why(
    was: &Checked<'_>,
    is: &Checked<'_>,
    (between, event): (&Stage<'_>, &Event<'_>),
    is_same_key: bool,
) -> Result<Vec<Reason>, Error> {
    if was.is_refused() == is.is_refused() {
        return Ok(Vec::new());
    }
    let peek = Event { op: Op::Peek, cost: Some(is.resolved.cost().clone()), ..event.under(0) };
    let (_, answer) = between.play(&peek)?;
    Ok(Change { was, is, with_old_calls: &answer.decision, is_same_key }.reasons())
}

/// The fields that a policy forms its keys from.
fn fields_of(policy: &PolicyConfig) -> String {
    match &*policy.key {
        [] => "what the caller passes".to_owned(),
        fields => fields.join(" and "),
    }
}

/// The changes of the policies, and of the traffic if there is some, for programs.
#[must_use]
pub fn json(changes: &[PolicyChange], comparison: Option<&Comparison>) -> Value {
    let policies: Vec<Value> = changes
        .iter()
        .map(|change| json!({ "policy": change.policy, "change": change.kind(), "removed": change.removed, "added": change.added, "old": change.settings.0, "new": change.settings.1 }))
        .collect();
    let mut value = json!({ "policies": policies });
    if let Some(comparison) = comparison {
        value["trace"] = comparison.json();
    }
    value
}
