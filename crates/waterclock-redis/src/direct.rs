//! Redis as a store, without a fallback: a call that Redis does not answer fails.

use std::time::Duration;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, RwLock};
use tokio::time::{Instant, timeout};
use waterclock::store::{ReservationIds, fill_by_check};
use waterclock::{
    Answer, Charge, Cost, Decision, Failure, Hold, KeptChange, KeptChanges, KeyOverride, Migration,
    OverridePage, Policy, Reserved, Serving, Settled, Settlement, Source, Store, StoreError,
    Timestamp, Verb,
};

use crate::address::Address;
use crate::builder::RedisStoreBuilder;
use crate::call::{Action, Call, Found, KeyCharge, answer_keys};
use crate::denied::DeniedKeys;
use crate::keyspace::Keyspace;
use crate::lease::Leases;
use crate::link::{LinkSettings, connection_error};
use crate::nodes::Nodes;
use crate::overrides::{OVERRIDE_ROUNDS, changed, has_begun, is_changed};
use crate::policies::{Definitions, Entries, Entry};
use crate::prefix::SeenOverrides;
use crate::route::Route;
use crate::slots::always_records;

/// The deadline of commands other than checks.
pub(crate) const PATIENT: Duration = Duration::from_secs(5);

/// The store and its settings. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Direct(Arc<Inner>);

impl std::ops::Deref for Direct {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

pub(crate) struct Inner {
    /// The policies, by name.
    pub(crate) entries: RwLock<Entries>,
    /// Definitions by which records may have been written.
    pub(crate) definitions: Mutex<Definitions>,
    pub(crate) is_registering: AtomicBool,
    /// Held while policies change, which takes calls to the server in between.
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) keyspace: Keyspace,
    pub(crate) route: Route,
    pub(crate) deadline: Duration,
    pub(crate) denied: DeniedKeys,
    /// The overrides that this node has seen.
    pub(crate) seen: SeenOverrides,
    pub(crate) leases: Leases,
    pub(crate) nodes: Nodes,
    /// How many nodes share the store, at least.
    pub(crate) least_nodes: u64,
    /// For reservations without an id.
    pub(crate) ids: ReservationIds,
}

/// Without the secret and the keys.
impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Direct");
        shown.field("prefix", &self.keyspace.prefix).field("route", &self.route);
        shown.finish_non_exhaustive()
    }
}

impl Direct {
    pub(crate) fn new(settings: RedisStoreBuilder) -> Result<Self, StoreError> {
        if settings.deadline.is_zero() {
            return Err(StoreError::settings("the store's `deadline` is zero"));
        }
        if settings.prefix.contains(['{', '}']) {
            let reason = "the store's `prefix` contains a brace, which marks what a cluster hashes";
            return Err(StoreError::settings(reason));
        }
        let address = Address::parse(&settings.url, settings.root_certificate)?;
        let link = LinkSettings {
            deadline: settings.deadline,
            prefix: settings.prefix.clone(),
            slotted: false,
            replicas: settings.replicas,
        };
        Ok(Self(Arc::new(Inner {
            entries: RwLock::default(),
            definitions: Mutex::default(),
            is_registering: AtomicBool::new(false),
            changing: tokio::sync::Mutex::default(),
            keyspace: Keyspace::new(settings.prefix, &settings.key_secret),
            route: Route::new(address, link)?,
            deadline: settings.deadline,
            denied: DeniedKeys::new(settings.denied_keys),
            seen: SeenOverrides::default(),
            leases: Leases::default(),
            nodes: Nodes::new(settings.announce),
            least_nodes: settings.nodes,
            ids: ReservationIds::default(),
        })))
    }

    pub(crate) fn downgrade(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    pub(crate) fn upgrade(inner: &std::sync::Weak<Inner>) -> Option<Self> {
        inner.upgrade().map(Self)
    }

    pub(crate) fn entry(&self, policy: &str) -> Result<Arc<Entry>, StoreError> {
        let unknown = || StoreError::UnknownPolicy(policy.to_owned());
        self.entries.read().get(policy).cloned().ok_or_else(unknown)
    }

    /// The charges with those of the same key summed, and which of these each charge became.
    pub(crate) fn keys(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<(Vec<KeyCharge>, Vec<usize>), StoreError> {
        let mut keys: Vec<KeyCharge> = Vec::with_capacity(charges.len());
        let mut key_of = Vec::with_capacity(charges.len());
        for charge in charges {
            let entry = self.entry(charge.policy)?;
            if entry.family.is_some() {
                self.one_of_its_family(charge, &entry, &charges[..key_of.len()])?;
            }
            let cost = verb.price(&entry.policy, Some(&charge.cost))?;
            let record = self.keyspace.record(entry.mark, charge.key);
            let at = keys.iter().position(|key| key.record == record).unwrap_or(keys.len());
            if charge.factor.is_some() && entry.is_by_time() {
                let name = charge.policy;
                return Err(StoreError::unfit(format!("policy `{name}` takes no factor")));
            }
            match keys.get_mut(at) {
                Some(key) => {
                    let first = key_of.iter().position(|key| *key == at).unwrap_or(0);
                    if charges[first].factor != charge.factor {
                        return Err(StoreError::two_factors(charge.policy));
                    }
                    key.cost = key.cost.plus(&cost);
                }
                None => keys.push(self.key_charge(entry, record, cost, charge.factor)?),
            }
            key_of.push(at);
        }
        Ok((keys, key_of))
    }

    /// One check cannot charge a key under two policies that share it.
    fn one_of_its_family(
        &self,
        charge: &Charge<'_>,
        entry: &Entry,
        earlier: &[Charge<'_>],
    ) -> Result<(), StoreError> {
        for other in earlier.iter().filter(|other| other.key == charge.key) {
            if other.policy != charge.policy && self.entry(other.policy)?.is_kin_of(entry) {
                return Err(StoreError::two_variants(other.policy, charge.policy));
            }
        }
        Ok(())
    }

    /// Applies a check by the scripts; `at` is an instant of a trace instead of the server's.
    pub(crate) async fn apply_by(
        &self,
        at: Option<Timestamp>,
        verb: Verb,
        charges: &[Charge<'_>],
        by: Instant,
    ) -> Result<Vec<Answer>, StoreError> {
        // Most keys have no override, so that once is enough.
        for _ in 0..OVERRIDE_ROUNDS {
            match self.apply_once(at, verb, charges, by).await {
                Err(error) if is_changed(&error) => {}
                done => return done,
            }
        }
        Err(changed())
    }

    async fn fill_once(&self, charge: &Charge<'_>, by: Instant) -> Result<Cost, StoreError> {
        let entry = self.entry(charge.policy)?;
        let record = self.keyspace.record(entry.mark, charge.key);
        let key = self.key_charge(entry, record, charge.cost.clone(), charge.factor)?;
        if !key.is_limited() {
            return Ok(Cost::from(0));
        }
        let (_, filled, _) = self.fill(&key, Action::Fill, by).await?;
        Ok(Cost::from(filled))
    }

    async fn apply_once(
        &self,
        at: Option<Timestamp>,
        verb: Verb,
        charges: &[Charge<'_>],
        by: Instant,
    ) -> Result<Vec<Answer>, StoreError> {
        let (keys, key_of) = self.keys(verb, charges)?;
        if verb == Verb::Check {
            checkable(&keys)?;
        }
        if verb == Verb::Reset {
            // Returned later, they would be given back twice.
            charges.iter().for_each(|charge| self.leases.drop_key(charge.policy, charge.key));
        }
        let call = Call { action: Action::Apply(verb), keys: &keys, at, by };
        let answers = match &*keys {
            _ if !keys.iter().all(KeyCharge::is_limited) => {
                Box::pin(self.apply_beside(call, verb)).await?
            }
            [key] if verb == Verb::Check && at.is_none() && !key.cost.is_zero() => {
                vec![self.check(key, charges[0].key, by).await?]
            }
            _ => self.decide(call, verb).await?,
        };
        Ok(spread(&answers, &key_of))
    }

    /// A check of one key: by a lease, by a refusal that still holds, or by Redis.
    async fn check(&self, key: &KeyCharge, text: &[u8], by: Instant) -> Result<Answer, StoreError> {
        // A lease under one policy would keep units from the others that share the key, and an override is not leased.
        let is_plain = key.entry.family.is_none() && key.kept.is_none();
        let lease = key.entry.serving.lease.filter(|_| is_plain);
        if let (Some(lease), Some(cost)) = (lease, key.cost.plain())
            && let Some(answer) = self.check_leased((key, text), cost, lease, by).await?
        {
            return Ok(answer);
        }
        let sent = Instant::now();
        if let Some(answer) = self.denied.answer(key, &key.cost, sent) {
            return Ok(answer);
        }
        let keys = std::slice::from_ref(key);
        let mut found = self.run(Call::now(Verb::Check, keys, by)).await?;
        let answer = answer_keys(Verb::Check, keys, &mut found).remove(0);
        self.denied.note(key, &found[0].state, &answer, sent);
        Ok(answer)
    }

    /// Any other check.
    pub(crate) async fn decide(
        &self,
        call: Call<'_>,
        verb: Verb,
    ) -> Result<Vec<Answer>, StoreError> {
        let mut verb = verb;
        let found = if verb == Verb::Refund && call.keys.iter().any(|key| !key.entry.is_by_time()) {
            verb = Verb::Peek;
            if call.keys.len() > 1 {
                self.verify_overrides(call.at, call.keys.iter(), call.by).await?;
            }
            match self.refund_where_charged(call).await {
                Ok(()) => self.find(Verb::Peek, call).await.map_err(has_begun),
                Err(error) => Err(error),
            }
        } else if verb == Verb::Reset {
            verb = Verb::Peek;
            match self.find(Verb::Reset, call).await {
                Ok(_) => self.find(Verb::Peek, call).await,
                Err(error) => Err(error),
            }
        } else {
            self.find(verb, call).await
        };
        if matches!(call.action, Action::Apply(Verb::Refund | Verb::Reset)) {
            self.denied.remove(call.keys);
        }
        Ok(answer_keys(verb, call.keys, &mut found?))
    }

    /// Runs a verb over keys of any slots, and returns what was found before it.
    pub(crate) async fn find(&self, verb: Verb, call: Call<'_>) -> Result<Vec<Found>, StoreError> {
        if self.share_a_slot(call.keys) {
            self.run(Call { action: Action::Apply(verb), ..call }).await
        } else {
            // Slot by slot, and once each: what was recorded is not taken back.
            let records = verb == Verb::Check && call.keys.iter().any(always_records);
            if records || matches!(verb, Verb::Debit | Verb::Report(_)) {
                self.verify_overrides(call.at, call.keys.iter(), call.by).await?;
            }
            self.run_across_slots(verb, call).await
        }
    }

    /// Whether one script can reach all of them.
    pub(crate) fn share_a_slot(&self, keys: &[KeyCharge]) -> bool {
        let slot = |key: &KeyCharge| key.record.slot;
        self.route.is_one() || keys.iter().all(|key| slot(key) == slot(&keys[0]))
    }

    /// Removes every record under the prefix, from every server.
    pub(crate) async fn clear(&self) -> Result<(), StoreError> {
        // Escape the prefix: it is not a pattern.
        let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '\\' | '^');
        let escape = |c: char| special(c).then_some('\\').into_iter().chain([c]);
        let prefix: String = self.keyspace.prefix.chars().flat_map(escape).collect();
        for rest in ["{*", ":policy:*", ":nodes"] {
            let pattern = format!("{prefix}{rest}");
            self.unlink(&pattern).await?;
        }
        Ok(())
    }

    async fn unlink(&self, pattern: &str) -> Result<(), StoreError> {
        for link in self.route.links().await? {
            let mut connection = link.connection().await?;
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1_000);
                let (next, keys): (u64, Vec<Vec<u8>>) =
                    in_time(scan.query_async(&mut connection)).await?;
                // One by one: in a cluster they need not share a slot.
                let mut pipeline = redis::pipe();
                keys.iter().for_each(|key| _ = pipeline.cmd("UNLINK").arg(key).ignore());
                if !pipeline.is_empty() {
                    in_time(pipeline.query_async::<()>(&mut connection)).await?;
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Store for Direct {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.set_entry(policy, Serving::default()).await
    }

    async fn set_policy_as(&self, policy: Policy, serving: Serving) -> Result<(), StoreError> {
        self.set_entry(policy, serving).await
    }

    async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.set_variant_entry(of, policy, migration).await
    }

    async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        self.remove_entry(name).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.apply_by(None, verb, charges, Instant::now() + self.deadline).await
    }

    #[inline]
    fn apply_one_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Result<Answer, StoreError>> {
        self.spend_now(verb, charge).map(Ok)
    }

    #[inline]
    fn decide_now(&self, charge: &Charge<'_>) -> Option<Result<(Decision, Source), StoreError>> {
        self.spend_and_decide(charge).map(Ok)
    }

    async fn apply_within(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        let by = Instant::now() + patience.min(self.deadline);
        self.apply_by(None, verb, charges, by).await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        self.reserve_by(None, hold, Instant::now() + self.deadline).await
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        self.settle_by(None, id, with, Instant::now() + self.deadline).await
    }

    async fn fill(&self, policy: &Policy, charge: &Charge<'_>) -> Result<Cost, StoreError> {
        if charge.cost.plain().is_none() {
            return fill_by_check(self, policy, charge).await;
        }
        let by = Instant::now() + self.deadline;
        for _ in 0..OVERRIDE_ROUNDS {
            match self.fill_once(charge, by).await {
                Err(error) if is_changed(&error) => {}
                done => return done,
            }
        }
        Err(changed())
    }

    async fn set_override(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        self.set_kept(policy, new).await
    }

    async fn clear_override(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        self.clear_kept(policy, key).await
    }

    async fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        self.read_kept(policy, key).await
    }

    async fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        self.list_kept(policy, after, count).await
    }

    async fn keep_policy(&self, name: &str, text: &str) -> Result<KeptChange, StoreError> {
        self.keep_text(name, text).await
    }

    async fn drop_kept_policy(&self, name: &str) -> Result<KeptChange, StoreError> {
        self.drop_kept(name).await
    }

    async fn kept_policies(&self, since: u64) -> Result<KeptChanges, StoreError> {
        self.changes_of_kept(since).await
    }

    async fn probe(&self) -> Result<Vec<String>, StoreError> {
        let probe = async {
            let mut warnings = Vec::new();
            for link in self.route.links().await? {
                warnings.extend(link.connect().await?);
            }
            warnings.extend(self.try_to_announce().await);
            Ok(warnings)
        };
        let late = || StoreError::failed(Failure::Timeout, "no connection within 5 s");
        timeout(PATIENT, probe).await.unwrap_or_else(|_| Err(late()))
    }

    fn is_degraded(&self) -> bool {
        self.route.is_degraded()
    }

    fn nodes_alive(&self) -> Option<u64> {
        self.nodes.alive()
    }

    async fn close(&self) {
        self.return_leases(true).await;
        self.leave().await;
    }
}

/// Concurrency limits can only be reserved.
fn checkable(keys: &[KeyCharge]) -> Result<(), StoreError> {
    let held_only = |key: &&KeyCharge| {
        !key.cost.is_zero() && key.is_limited() && key.entry.policy.reserves_only()
    };
    match keys.iter().find(held_only) {
        Some(key) => Err(StoreError::reserves_only(key.entry.policy.name())),
        None => Ok(()),
    }
}

/// The reply to a plain command, within the time for those.
async fn in_time<T>(reply: impl Future<Output = redis::RedisResult<T>>) -> Result<T, StoreError> {
    let late = || StoreError::failed(Failure::Timeout, "no reply within 5 s");
    timeout(PATIENT, reply).await.map_err(|_| late())?.map_err(|error| connection_error(&error))
}

/// The answers of keys, in the order of the charges.
pub(crate) fn spread(answers: &[Answer], key_of: &[usize]) -> Vec<Answer> {
    key_of.iter().map(|key| answers[*key].clone()).collect()
}
