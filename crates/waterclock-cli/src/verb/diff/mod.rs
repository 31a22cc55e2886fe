//! `waterclock diff`: what a change of the configuration changes, and for whom.

mod changes;
mod page;
mod text;
mod wording;

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use waterclock::{Decision, StoreError};
use waterclock_config::{Config, PolicyConfig, policy_of};

use self::changes::{Changes, Side};
use self::wording::{Rewording, rewordings};
use crate::failure::{Failure, say};
use crate::file::{Words, print_json, write_whole};
use crate::report::{Checked, FORGOTTEN};
use crate::stage::{Ruling, Stage, Turn};
use crate::trace::{Event, Op, Reading};

/// Say what changes between the policies of two configurations, and with a trace or an access log, for whom.
///
/// waterclock diff old.toml new.toml --trace access.log --input combined
///
/// Both run side by side over the same traffic. A policy that only one file has admits everything in the
/// other. Exit code 0 if no policy changes, 1 if one does, 2 on errors.
#[derive(clap::Args)]
pub(crate) struct Diff {
    /// The configuration that is in force
    old: PathBuf,
    /// The one that is to follow
    new: PathBuf,
    /// Traffic to try both on; - for standard input
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The policy to try; may be left out when only one policy changes
    #[arg(short, long, value_name = "NAME", requires = "trace")]
    policy: Option<String>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Write a page with pictures into this file; - for standard output
    #[arg(long, value_name = "FILE", requires = "trace")]
    html: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

/// Both policies after the same traffic.
struct Tried {
    source: String,
    old: PolicyConfig,
    new: PolicyConfig,
    was: Side,
    is: Side,
    changes: Changes,
    remarks: Vec<String>,
}

impl Diff {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let words = Words::beside(&[("--html", self.html.as_ref())], self.json)?;
        let (old, new) = (Config::load(Some(&self.old))?, Config::load(Some(&self.new))?);
        let rewordings = rewordings(&old, &new);
        let mut complaint = None;
        let tried = match &self.trace {
            Some(_) => self
                .choose(old, new, &rewordings)?
                .map(|(old, new)| self.play(old, new, &mut complaint))
                .transpose()?,
            None => None,
        };
        if self.json {
            print_json(&as_json(&rewordings, tried.as_ref()))?;
        } else {
            text::write(&mut words.stream(), &rewordings, tried.as_ref())?;
        }
        match (&self.html, &tried) {
            (Some(path), Some(tried)) => write_whole(path, &tried.page(&rewordings))?,
            (Some(_), None) => say(
                "warning: nothing changes, so that there is no page to write; --policy tries one all the same",
            ),
            _ => {}
        }
        match complaint {
            Some(failure) => Err(failure),
            None if rewordings.is_empty() => Ok(ExitCode::SUCCESS),
            None => Ok(ExitCode::from(1)),
        }
    }

    /// The policy to try as both files have it; nothing if no policy changes and none is named.
    fn choose(
        &self,
        mut old: Config,
        mut new: Config,
        rewordings: &[Rewording],
    ) -> Result<Option<(PolicyConfig, PolicyConfig)>, Failure> {
        let name = match (&self.policy, rewordings) {
            (Some(name), _) => name.clone(),
            (None, [only]) => only.policy.clone(),
            (None, []) => match (&*old.policies, &*new.policies) {
                // Nothing changes, as traffic will show.
                ([only], [_]) => only.name.clone(),
                _ => return Ok(None),
            },
            (None, several) => {
                let names: Vec<String> =
                    several.iter().map(|one| format!("`{}`", one.policy)).collect();
                return Err(format!(
                    "{} policies change; choose one with --policy: {}",
                    names.len(),
                    names.join(", ")
                )
                .into());
            }
        };
        let has = |config: &Config| config.policies.iter().any(|policy| policy.name == name);
        let (in_old, in_new) = (has(&old), has(&new));
        if !in_old && !in_new {
            // The complaint lists what there is.
            new.choose(Some(&name))?;
        }
        let side = |config: &mut Config, is_in: bool| -> Result<PolicyConfig, Failure> {
            if is_in { Ok(config.choose(Some(&name))?) } else { nothing(&name) }
        };
        let (mut old, mut new) = (side(&mut old, in_old)?, side(&mut new, in_new)?);
        // Who is not there has no idea of a key.
        match (in_old, in_new) {
            (true, false) => new.key.clone_from(&old.key),
            (false, true) => old.key.clone_from(&new.key),
            _ => {}
        }
        Ok(Some((old, new)))
    }

    fn play(
        &self,
        old: PolicyConfig,
        new: PolicyConfig,
        complaint: &mut Option<Failure>,
    ) -> Result<Tried, Failure> {
        let failed = |error: StoreError| Failure::from(error.to_string());
        let rulings = (Ruling::new(old)?, Ruling::new(new)?);
        let (mut was, mut is, mut changes) = (Side::new(), Side::new(), Changes::default());
        let (old, new) = (rulings.0.spec(), rulings.1.spec());
        let is_same_key = old.key == new.key;
        let specs = if is_same_key { &[new][..] } else { &[new, old] };
        let mut trace = self.reading.open(self.trace.as_deref(), specs, &[new, old])?;
        let other_key = (self.reading.has_keys_by_policy() && !is_same_key).then(|| {
            let (was, is) = (made_of(old), made_of(new));
            format!("the old policy makes its keys of {was}, the new one of {is}, as they are told here; --key makes them the same")
        });
        let stages =
            (Stage::set(&rulings.0).map_err(failed)?, Stage::set(&rulings.1).map_err(failed)?);
        let mut is_empty = true;
        loop {
            let event = match trace.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(failure) if is_empty => return Err(failure),
                Err(failure) => {
                    *complaint = Some(failure);
                    break;
                }
            };
            is_empty = false;
            let before = event.under(1);
            let decisions =
                (stages.0.play(&before).map_err(failed)?, stages.1.play(&event).map_err(failed)?);
            if event.op != Op::Check {
                continue;
            }
            fn checked<'c>(
                event: &'c Event<'_>,
                (turn, decision): &'c (Turn<'_>, Decision),
            ) -> Checked<'c> {
                Checked { turn, t_us: event.t_us, key: &event.key, decision }
            }
            let (before, after) = (checked(&before, &decisions.0), checked(&event, &decisions.1));
            was.add(&before);
            is.add(&after);
            changes.add(&before, &after);
        }
        if is_empty && trace.remarks().is_empty() {
            say("warning: the trace is empty");
        }
        let source =
            self.trace.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let remarks = trace
            .remarks()
            .into_iter()
            .chain(other_key)
            .chain(stages.0.remark().or(stages.1.remark()))
            .chain(changes.keys.has_forgotten().then(|| FORGOTTEN.to_owned()))
            .collect();
        drop(stages);
        let (old, new) = (rulings.0.into_spec(), rulings.1.into_spec());
        Ok(Tried { source, old, new, was, is, changes, remarks })
    }
}

/// Of which fields a policy makes its keys.
fn made_of(spec: &PolicyConfig) -> String {
    match &*spec.key {
        [] => "whatever the caller says".to_owned(),
        fields => fields.join(" and "),
    }
}

/// What a file says about a policy that it does not have.
fn nothing(name: &str) -> Result<PolicyConfig, Failure> {
    // Its numbers are not used: there are none.
    let unsaid = PolicyConfig::of_shorthand("1/s")?;
    let built = policy_of(name, &[], unsaid.mode, false)?;
    Ok(PolicyConfig { name: name.to_owned(), limits: Vec::new(), built, ..unsaid })
}

fn as_json(rewordings: &[Rewording], tried: Option<&Tried>) -> Value {
    let policies: Vec<Value> = rewordings
        .iter()
        .map(|one| json!({ "policy": one.policy, "change": one.kind(), "removed": one.removed, "added": one.added }))
        .collect();
    let mut value = json!({ "policies": policies });
    if let Some(tried) = tried {
        value["trace"] = tried.json();
    }
    value
}
