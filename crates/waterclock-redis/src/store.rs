use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::{Instant, timeout};
use waterclock::{
    Answer, Charge, Failure, Hold, Migration, Policy, Reserved, Serving, Settled, Settlement,
    Store, StoreError, Timestamp, Verb,
};

use crate::address::Address;
use crate::decide::Line;
use crate::entry::{Entry, Family};
use crate::family::{introduce, twins};
use crate::keyspace::Keyspace;
use crate::link::of_connection;
use crate::route::Route;
use crate::settings::RedisStoreBuilder;
use crate::stand_in::{Denied, Leases, Local};
use waterclock::store::{Migrate as _, ReservationIds};

/// How long greeting a server may take.
const GREETING: Duration = Duration::from_secs(5);

/// A [`Store`] on Redis or Valkey, shared by any number of processes. Cheap to clone.
///
/// Every check is one script call on the server that holds the key, in one round trip, by that
/// server's clock; what it decides is what [`MemoryStore`](waterclock::MemoryStore) would.
#[derive(Clone)]
pub struct RedisStore {
    inner: Arc<Inner>,
}

/// Without the secret, and without what every key ever did.
impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { keyspace, route, .. } = &*self.inner;
        let mut shown = f.debug_struct("RedisStore");
        shown.field("prefix", &keyspace.prefix).field("route", route).finish_non_exhaustive()
    }
}

/// The policies, by name.
pub(crate) type Entries = HashMap<Box<str>, Arc<Entry>>;

pub(crate) struct Inner {
    pub(crate) entries: RwLock<Entries>,
    /// Held while policies change, which takes questions to the server in between.
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) keyspace: Keyspace,
    pub(crate) route: Route,
    pub(crate) deadline: Duration,
    serving: Serving,
    pub(crate) denied: Denied,
    pub(crate) leases: Leases,
    pub(crate) local: Local,
    /// Whether somebody is telling the store what was admitted without it.
    pub(crate) settling: AtomicBool,
    /// For reservations that bring none.
    pub(crate) ids: ReservationIds,
    /// How often the store failed, by kind, whoever answered in its place.
    failures: [AtomicU64; Failure::ALL.len()],
}

impl RedisStore {
    /// Connects to `redis://`, `rediss://`, `redis-cluster://` or `redis-sentinel://…/service`.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// The same with settings.
    #[must_use]
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url)
    }

    pub(crate) fn new(settings: RedisStoreBuilder) -> Result<Self, StoreError> {
        if settings.deadline.is_zero() || settings.nodes == 0 {
            let what = if settings.nodes == 0 { "nodes" } else { "deadline" };
            return Err(StoreError::Settings(format!("the store's `{what}` is zero")));
        }
        if settings.prefix.contains(['{', '}']) {
            let reason = "the store's prefix contains a brace, which marks what a cluster hashes";
            return Err(StoreError::Settings(reason.into()));
        }
        let address = Address::parse(&settings.url, settings.root_certificate)?;
        let inner = Inner {
            entries: RwLock::default(),
            changing: tokio::sync::Mutex::default(),
            keyspace: Keyspace::new(settings.prefix, &settings.key_secret),
            route: Route::new(address, settings.deadline)?,
            deadline: settings.deadline,
            serving: settings.serving,
            denied: Denied::new(settings.denied_keys),
            leases: Leases::default(),
            local: Local::new(settings.nodes),
            settling: AtomicBool::new(false),
            ids: ReservationIds::default(),
            failures: [const { AtomicU64::new(0) }; Failure::ALL.len()],
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What an operator should know about the servers. Fails if one of them cannot decide.
    pub async fn greet(&self) -> Result<Vec<String>, StoreError> {
        let greet = async {
            let mut warnings = Vec::new();
            for link in self.inner.route.links().await? {
                warnings.extend(link.greet().await?);
            }
            Ok(warnings)
        };
        let late = || StoreError::failed(Failure::Timeout, "the server does not greet");
        timeout(GREETING, greet).await.unwrap_or_else(|_| Err(late()))
    }

    /// Adds or replaces a policy, and says how it is served.
    pub async fn set_policy_as(&self, policy: Policy, serving: Serving) -> Result<(), StoreError> {
        self.inner.set_policy(policy, serving).await
    }

    /// As [`Store::apply`], at an instant of a trace instead of the server's: for rehearsals, on a
    /// prefix of their own. The decisions are the same scripts'; nothing stands in for them. Give such a
    /// store a longer deadline.
    pub async fn apply_at(
        &self,
        now: Timestamp,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        let (lines, line_of) = self.inner.lines(verb, charges)?;
        self.inner.checkable(verb, &lines)?;
        let by = Instant::now() + GREETING;
        let (answers, _) = self.inner.decide(Some(now), verb, &lines, by).await?;
        Ok(spread(&answers, &line_of))
    }

    /// As [`Store::reserve`], at an instant of a trace: see [`RedisStore::apply_at`].
    pub async fn reserve_at(
        &self,
        now: Timestamp,
        hold: &Hold<'_>,
    ) -> Result<Reserved, StoreError> {
        self.inner.reserve(Some(now), hold, Instant::now() + GREETING).await
    }

    /// As [`Store::settle`], at an instant of a trace: see [`RedisStore::apply_at`].
    pub async fn settle_at(
        &self,
        now: Timestamp,
        id: &str,
        with: Settlement<'_>,
    ) -> Result<Settled, StoreError> {
        self.inner.settle_reservation(Some(now), id, with, Instant::now() + GREETING).await
    }

    /// As [`Store::apply`], for a caller who waits less long than the store's deadline: what stands in
    /// for an answer then stands in by that time.
    pub async fn apply_within(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        self.inner.apply(verb, charges, patience.min(self.inner.deadline)).await
    }

    /// Removes every record under the prefix, from every server.
    pub async fn forget_everything(&self) -> Result<(), StoreError> {
        // What means something in a pattern means itself in a prefix.
        let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '\\' | '^');
        let escape = |c: char| special(c).then_some('\\').into_iter().chain([c]);
        let prefix: String = self.inner.keyspace.prefix.chars().flat_map(escape).collect();
        for pattern in [format!("{prefix}{{*"), format!("{prefix}:policy:*")] {
            self.inner.forget(&pattern).await?;
        }
        Ok(())
    }

    /// Gives back what this node holds on lease: for a shutdown in good order. What is not given back
    /// stays charged.
    pub async fn return_leases(&self) {
        self.inner.return_leases(true).await;
    }

    /// How often the store failed so far, by kind, whoever answered in its place.
    pub fn failures(&self) -> impl Iterator<Item = (Failure, u64)> {
        let count = |kind| (kind, self.inner.failures[kind as usize].load(Ordering::Relaxed));
        Failure::ALL.into_iter().map(count)
    }

    /// Whether a server is given up at the moment, so that something stands in for it.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.inner.route.is_degraded()
    }
}

impl Store for RedisStore {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.inner.set_policy(policy, self.inner.serving).await
    }

    async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.inner.set_variant(of, policy, migration).await
    }

    async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        self.inner.remove_policy(name).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.inner.apply(verb, charges, self.inner.deadline).await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        let by = Instant::now() + self.inner.deadline;
        self.inner.reserve(None, hold, by).await.inspect_err(|error| self.inner.count(error))
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        let by = Instant::now() + self.inner.deadline;
        let settled = self.inner.settle_reservation(None, id, with, by).await;
        settled.inspect_err(|error| self.inner.count(error))
    }
}

/// What a server answers to a command of its own, before patience ends.
async fn in_time<T>(answer: impl Future<Output = redis::RedisResult<T>>) -> Result<T, StoreError> {
    let late = || StoreError::failed(Failure::Timeout, "no answer");
    timeout(GREETING, answer).await.map_err(|_| late())?.map_err(|error| of_connection(&error))
}

/// The answers of lines, to those who asked.
pub(crate) fn spread(answers: &[Answer], line_of: &[usize]) -> Vec<Answer> {
    line_of.iter().map(|line| answers[*line].clone()).collect()
}

impl Inner {
    async fn set_policy(&self, policy: Policy, serving: Serving) -> Result<(), StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let before = self.entries.read().get(policy.name()).cloned();
        let family = before.as_ref().and_then(|before| before.family.clone());
        let by_time = family.as_ref().is_some_and(|family| family.migration == Migration::Time);
        let mut entry = Entry::new(policy, serving, before.as_ref().filter(|_| !by_time))?;
        if !by_time {
            self.learn(&mut entry).await;
        }
        if let Some(Family { base, migration, .. }) = &family {
            entry.policy.check_migration(*migration)?;
            entry = entry.in_family(base, *migration, before.as_ref());
        }
        if let Some(twin) = self.twin_of(&entry).filter(|twin| !by_time || !twin.is_kin_of(&entry))
        {
            return Err(twins(&entry, &twin));
        }
        self.local.set_policy(&entry.policy).await?;
        let mut entries = self.entries.write();
        entries.insert(entry.policy.name().into(), Arc::new(entry));
        if family.is_some() {
            introduce(&mut entries);
        }
        Ok(())
    }

    /// Adds the definitions by which other processes wrote. Where the store cannot be asked, what was spent
    /// under other numbers by another process is not known.
    pub(crate) async fn learn(&self, entry: &mut Entry) {
        if let Ok((second, definitions)) = self.remember(entry).await {
            entry.remember(second, &definitions);
        }
    }

    /// Removes what is stored under keys of a pattern, from every server.
    async fn forget(&self, pattern: &str) -> Result<(), StoreError> {
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

    /// Another policy whose records would be taken for this one's.
    pub(crate) fn twin_of(&self, entry: &Entry) -> Option<Arc<Entry>> {
        let entries = self.entries.read();
        let mut others =
            entries.values().filter(|other| other.policy.name() != entry.policy.name());
        others.find(|other| other.mark == entry.mark).cloned()
    }

    pub(crate) fn entry(&self, policy: &str) -> Result<Arc<Entry>, StoreError> {
        let unknown = || StoreError::UnknownPolicy(policy.to_owned());
        self.entries.read().get(policy).cloned().ok_or_else(unknown)
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

    /// The charges with those for the same key summed, and which line each charge became.
    pub(crate) fn lines(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<(Vec<Line>, Vec<usize>), StoreError> {
        let mut lines: Vec<Line> = Vec::with_capacity(charges.len());
        let mut line_of = Vec::with_capacity(charges.len());
        for charge in charges {
            let entry = self.entry(charge.policy)?;
            if entry.family.is_some() {
                self.one_of_its_family(charge, &entry, &charges[..line_of.len()])?;
            }
            let cost = verb.price(&entry.policy, Some(&charge.cost))?;
            let record = self.keyspace.record(entry.mark, charge.key);
            let at = lines.iter().position(|line| line.record == record).unwrap_or(lines.len());
            match lines.get_mut(at) {
                Some(line) => line.cost = line.cost.plus(&cost),
                None => lines.push(Line { entry, record, cost }),
            }
            line_of.push(at);
        }
        Ok((lines, line_of))
    }

    async fn apply(
        self: &Arc<Self>,
        verb: Verb,
        charges: &[Charge<'_>],
        deadline: Duration,
    ) -> Result<Vec<Answer>, StoreError> {
        let by = Instant::now() + deadline;
        let (lines, line_of) = self.lines(verb, charges)?;
        self.checkable(verb, &lines)?;
        let answers = match (&*lines, verb) {
            ([line], Verb::Check) if !line.cost.is_zero() => {
                self.check_one(line, by).await.map(|answer| vec![answer])
            }
            _ => {
                let decided = self.decide(None, verb, &lines, by).await;
                if matches!(verb, Verb::Refund | Verb::Reset) {
                    self.denied.forget(&lines);
                }
                decided.map(|(answers, _)| answers)
            }
        };
        match answers {
            Ok(answers) => {
                self.settle_soon(&answers);
                Ok(spread(&answers, &line_of))
            }
            Err(error) if error.failure().is_some() => {
                self.count(&error);
                self.stand_in(error, verb, charges, &lines).await
            }
            Err(error) => Err(error),
        }
    }

    fn count(&self, error: &StoreError) {
        if let Some(kind) = error.failure() {
            self.failures[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is held at once can only be reserved.
    fn checkable(&self, verb: Verb, lines: &[Line]) -> Result<(), StoreError> {
        let held_only = |line: &&Line| !line.cost.is_zero() && line.entry.policy.reserves_only();
        match lines.iter().find(held_only).filter(|_| verb == Verb::Check) {
            Some(line) => Err(StoreError::reserves_only(line.entry.policy.name())),
            None => Ok(()),
        }
    }

    async fn check_one(self: &Arc<Self>, line: &Line, by: Instant) -> Result<Answer, StoreError> {
        // What is leased under one policy would be kept from the others that share the key.
        let lease = line.entry.serving.lease.filter(|_| line.entry.family.is_none());
        if let (Some(lease), Some(cost)) = (lease, line.cost.plain()) {
            return self.check_leased(line, cost, lease, by).await;
        }
        self.check(line, by).await
    }

    /// A check of one key, by the store or by a refusal that still holds.
    pub(crate) async fn check(
        self: &Arc<Self>,
        line: &Line,
        by: Instant,
    ) -> Result<Answer, StoreError> {
        let sent = Instant::now();
        if let Some(answer) = self.denied.answer(line, sent) {
            return Ok(answer);
        }
        let (mut answers, found) =
            self.decide(None, Verb::Check, std::slice::from_ref(line), by).await?;
        let answer = answers.remove(0);
        self.denied.note(line, &found[0], &answer, sent);
        Ok(answer)
    }
}
