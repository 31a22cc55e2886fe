//! Policies given at run time: kept as text by the store, shared by all its servers, and hidden by a policy of the file
//! that has the same name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use waterclock::{Failure, KeptChanges, Limit, Limiter, Store, StoreError};
use waterclock_config::{Invalid, PolicyConfig, read_policy};

use super::reservation::UNLIMITED;
use super::{ActivePolicy, Engine, Plan};
use crate::off_workers::off_workers;

/// How often a shared store is asked what changed.
const EVERY: Duration = Duration::from_secs(1);
/// The same if this server's user is not permitted to ask.
const NOT_PERMITTED: Duration = Duration::from_secs(600);
/// How often requests for unknown policies make it ask at once, a second.
const AT_ONCE: u64 = 10;
/// How long such a request waits for the answer.
const LEARN_WITHIN: Duration = Duration::from_secs(1);
/// Pages of changes that are read at a time. All that a store keeps are fewer.
const MAX_PAGES: usize = 10_000;

/// The policies that the store keeps, by name.
pub(super) type KeptPolicies = HashMap<Box<str>, KeptPolicy>;

/// The name and the text of a policy that was not read yet.
type Unread = (Box<str>, Arc<str>);

/// A policy that the store keeps.
#[derive(Clone)]
pub(super) struct KeptPolicy {
    pub(super) text: Arc<str>,
    /// None if this server cannot use it.
    pub(super) active: Option<Arc<ActivePolicy>>,
}

/// What this server knows of the policies that the store keeps, except the policies, which are in the plan.
pub(super) struct KeptState {
    /// Up to which version of the store they are known. Held while the plan changes.
    pub(super) version: Mutex<u64>,
    /// Wakes the task that asks the store.
    wanted: Notify,
    /// How often the store was asked, counted when that begins and when it ends.
    asked: watch::Sender<u64>,
}

impl Default for KeptState {
    fn default() -> KeptState {
        KeptState { version: Mutex::default(), wanted: Notify::new(), asked: watch::Sender::new(0) }
    }
}

/// What happened to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// There was none of this name.
    Created,
    /// There was another one. What was spent stays spent.
    Replaced,
    /// It was the same.
    Unchanged,
}

impl Kept {
    /// As answers spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kept::Created => "created",
            Kept::Replaced => "replaced",
            Kept::Unchanged => "unchanged",
        }
    }
}

/// Why a policy was not kept or deleted.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeptError {
    /// The policy is wrong.
    Invalid(Invalid),
    /// The name is taken by the file, or by the server itself.
    Taken(String),
    /// No policy of this name is kept.
    Unknown(String),
    /// The store failed, is full, or cannot run this policy.
    Store(StoreError),
}

impl fmt::Display for KeptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptError::Invalid(invalid) => invalid.fmt(f),
            KeptError::Taken(why) => f.write_str(why),
            KeptError::Unknown(name) => write!(f, "the store keeps no policy `{name}`"),
            KeptError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KeptError {}

impl From<StoreError> for KeptError {
    fn from(error: StoreError) -> KeptError {
        KeptError::Store(error)
    }
}

impl Engine {
    /// Keeps a policy, given as a file would have its table, and puts it in force here. Other servers follow within
    /// a second or two, or when they are first asked for it.
    pub async fn keep_policy(&self, name: &str, policy: &Value) -> Result<Kept, KeptError> {
        let config = read_policy(name, policy).map_err(KeptError::Invalid)?;
        if [self.throttle_family(), UNLIMITED].contains(&name) {
            return Err(KeptError::Taken(format!("`{name}` is a policy of the server itself")));
        }
        let text: Arc<str> = policy.to_string().into();
        let mut version = self.kept.version.lock().await;
        let before = self.plan.load_full();
        if before.is_of_file(name) {
            let why = format!(
                "policy `{name}` is in the configuration file, which wins; change it there"
            );
            return Err(KeptError::Taken(why));
        }
        let known = before.kept().get(name).filter(|known| known.text == text);
        if known.is_none_or(|known| known.active.is_none()) {
            // First here: what the store cannot run is not kept for the others.
            let active = Some(self.active(config));
            let kept = KeptPolicy { text: Arc::clone(&text), active };
            if let Err((_, error)) = self.replace(before.with_one(name, Some(kept))).await {
                self.forget_unknown(name);
                return Err(error.into());
            }
        }
        match self.store.keep_policy(name, &text).await {
            Ok(change) => {
                self.note_version(&mut version, change.before, change.version);
                if change.is_change() {
                    info!(policy = name, "an administrator set a policy");
                }
                Ok(match (change.existed, change.is_change()) {
                    (false, _) => Kept::Created,
                    (true, true) => Kept::Replaced,
                    (true, false) => Kept::Unchanged,
                })
            }
            Err(error) => {
                let kept = before.kept().get(name).cloned();
                if self.replace(before.with_one(name, kept)).await.is_ok() {
                    self.forget_unknown(name);
                }
                Err(error.into())
            }
        }
    }

    /// Deletes a policy that the store keeps, and its keys in memory.
    pub async fn delete_policy(&self, name: &str) -> Result<(), KeptError> {
        let mut version = self.kept.version.lock().await;
        let change = self.store.drop_kept_policy(name).await?;
        let before = self.plan.load_full();
        let was_known = before.kept().contains_key(name);
        if was_known && let Err((_, error)) = self.replace(before.with_one(name, None)).await {
            return Err(error.into());
        }
        self.note_version(&mut version, change.before, change.version);
        match change.existed || was_known {
            true => {
                info!(policy = name, "an administrator deleted a policy");
                Ok(())
            }
            false if before.is_of_file(name) => Err(KeptError::Taken(format!(
                "policy `{name}` is in the configuration file; remove it there"
            ))),
            false => Err(KeptError::Unknown(name.chars().take(64).collect())),
        }
    }

    /// The plan, after the store was asked for other policies if the plan does not know all of these. A flood of
    /// unknown names costs the store no more than some small reads a second.
    pub(crate) async fn plan_knowing<'n>(
        &self,
        mut names: impl Iterator<Item = &'n str>,
    ) -> Arc<Plan> {
        let plan = self.plan.load_full();
        let unknown = names.find(|name| plan.policy(name).is_none());
        match unknown {
            Some(name) if self.learn(name).await => self.plan.load_full(),
            _ => plan,
        }
    }

    /// Asks a shared store for a policy that is not known. Whether it is now.
    pub(crate) async fn learn(&self, name: &str) -> bool {
        let knows = || self.plan().policy(name).is_some();
        // No other server changes what is in memory, and one that is down does not answer.
        if self.memory.is_some() || self.is_degraded() {
            return knows();
        }
        let mut asked = self.kept.asked.subscribe();
        let before = *asked.borrow_and_update();
        self.kept.wanted.notify_one();
        // An odd count: it is being asked, perhaps since before the policy was kept. The next answer is ours.
        let until = before + 2 + before % 2;
        _ = timeout(LEARN_WITHIN, asked.wait_for(|count| *count >= until || knows())).await;
        knows()
    }

    /// Learns what other servers change, for as long as this one runs. Nothing else changes a store in memory.
    pub(crate) async fn keep_learning(&self) {
        if self.memory.is_some() {
            return;
        }
        let at_once = Limiter::new(Limit::per_second(AT_ONCE));
        let mut pause = EVERY;
        loop {
            let is_wanted = tokio::select! {
                () = self.kept.wanted.notified() => true,
                () = sleep(pause) => false,
            };
            self.kept.asked.send_modify(|count| *count += 1);
            let may_ask = pause == EVERY && at_once.check().is_allowed();
            if !is_wanted || may_ask {
                let learned = self.refresh().await;
                let is_forbidden = learned.is_err_and(|e| e.failure() == Some(Failure::Auth));
                pause = if is_forbidden { NOT_PERMITTED } else { EVERY };
            }
            self.kept.asked.send_modify(|count| *count += 1);
        }
    }

    /// Loads what the store keeps when the server starts. A store that is down is asked again later.
    pub(super) async fn load_kept(&self) {
        if let Err(error) = self.refresh().await {
            warn!("cannot read the policies that the store keeps: {error}");
        }
    }

    /// Asks the store what changed, and puts it in force.
    async fn refresh(&self) -> Result<(), StoreError> {
        let mut version = self.kept.version.lock().await;
        let mut known = *version;
        let mut changes = Changes::default();
        for _ in 0..MAX_PAGES {
            let page = self.store.kept_policies(known).await?;
            let is_last = !page.has_more;
            // Redis restarted without its state, or a replica that was behind took over: this server writes back what is lost.
            if page.version < known && self.keep_lost().await? {
                (known, changes) = (0, Changes::default());
                continue;
            }
            known = page.version;
            changes.add(page);
            if is_last {
                break;
            }
        }
        if changes.is_none() {
            *version = known;
            return Ok(());
        }
        let before = self.plan.load_full();
        let (kept, unread) = changes.apply_to(before.kept());
        let mut kept = self.read_all(kept, unread).await;
        let most = kept.len();
        for _ in 0..=most {
            let Err((name, error)) = self.replace(before.with_kept(kept.clone())).await else {
                *version = known;
                info!(policies = kept.len(), "policies that the store keeps changed");
                return Ok(());
            };
            warn!(policy = &*name, "a policy that the store keeps cannot be used here: {error}");
            if let Some(unfit) = kept.get_mut(&name) {
                unfit.active = None;
            }
        }
        Ok(())
    }

    /// Keeps again what this server knows: no other one changed anything since. Whether the store had lost some of it.
    async fn keep_lost(&self) -> Result<bool, StoreError> {
        let plan = self.plan.load_full();
        let mut had_lost = false;
        for (name, kept) in plan.kept() {
            had_lost |= self.store.keep_policy(name, &kept.text).await?.is_change();
        }
        if had_lost {
            warn!("the store had lost policies that it kept; it has them again");
        }
        Ok(had_lost)
    }

    /// Reads the texts that are new. Takes long if they are many.
    async fn read_all(&self, mut kept: KeptPolicies, unread: Vec<Unread>) -> KeptPolicies {
        let read = off_workers(move || {
            let read = |(name, text): Unread| {
                let config = read_text(&name, &text);
                (name, text, config)
            };
            unread.into_iter().map(read).collect::<Vec<_>>()
        });
        for (name, text, config) in read.await {
            let active = match config {
                Ok(config) => Some(self.active(config)),
                Err(why) => {
                    warn!(policy = &*name, "a policy that the store keeps cannot be read: {why}");
                    None
                }
            };
            kept.insert(name, KeptPolicy { text, active });
        }
        kept
    }

    fn active(&self, config: PolicyConfig) -> Arc<ActivePolicy> {
        let tally = self.metrics.tally(config.name());
        Arc::new(ActivePolicy::new(config, tally))
    }

    /// Frees the counters of a policy that did not come into force.
    fn forget_unknown(&self, name: &str) {
        if self.plan().policy(name).is_none() {
            self.metrics.forget_policy(name);
        }
    }

    /// Notes the version after a change of this server's own. Other servers may have changed something before it: then
    /// all is asked for again.
    fn note_version(&self, known: &mut u64, before: u64, now: u64) {
        if *known == before {
            *known = now;
        } else {
            self.kept.wanted.notify_one();
        }
    }
}

impl Plan {
    /// The same with one policy that is kept, or without it.
    fn with_one(&self, name: &str, policy: Option<KeptPolicy>) -> Plan {
        let mut kept = self.kept().clone();
        match policy {
            Some(policy) => _ = kept.insert(name.into(), policy),
            None => _ = kept.remove(name),
        }
        self.with_kept(kept)
    }
}

fn read_text(name: &str, text: &str) -> Result<PolicyConfig, String> {
    let policy: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    read_policy(name, &policy).map_err(|invalid| invalid.to_string())
}

/// Changes of all pages together.
#[derive(Default)]
struct Changes {
    starts_over: bool,
    texts: HashMap<String, Option<String>>,
}

impl Changes {
    fn add(&mut self, page: KeptChanges) {
        if page.starts_over {
            *self = Changes { starts_over: true, ..Changes::default() };
        }
        self.texts.extend(page.changes);
    }

    fn is_none(&self) -> bool {
        !self.starts_over && self.texts.is_empty()
    }

    /// What is kept now, and of that what must be read first.
    fn apply_to(self, before: &KeptPolicies) -> (KeptPolicies, Vec<Unread>) {
        let mut kept = if self.starts_over { KeptPolicies::new() } else { before.clone() };
        let mut unread = Vec::new();
        for (name, text) in self.texts {
            let name: Box<str> = name.into();
            match (text, before.get(&name)) {
                (None, _) => _ = kept.remove(&name),
                (Some(text), Some(known)) if *known.text == *text => {
                    kept.insert(name, known.clone());
                }
                (Some(text), _) => unread.push((name, text.into())),
            }
        }
        (kept, unread)
    }
}
