//! All pools of a server, each with a task that takes its turns.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;
use waterclock::{Clock as _, Source, Timestamp};

use super::answer::actions;
use super::keeps::Keeps;
use super::pool::{Divided, Pool, ShareId, Turn};
use super::share::{Assignment, Grant, Usage};
use super::target::{BudgetId, Spending};
use crate::connections::Guest;
use crate::engine::Taken;
use crate::face::grpc::proto::rlqs::{BucketId, RateLimitQuotaResponse};
use crate::lasting::{Kind, Lasting, LastingPlace};
use crate::server::Server;

/// Streams of all proxies, and of one connection: a proxy opens one for each domain.
const MAX_STREAMS: usize = 1_024;
const MAX_STREAMS_OF_CONNECTION: usize = 16;

/// A response, and when it was made.
pub(super) type Outgoing = (Timestamp, Bytes);

/// The quota that proxies hold.
pub(crate) struct Quotas {
    streams: Lasting,
    pools: Mutex<HashMap<BudgetId, Arc<SharedPool>>>,
    next: AtomicU64,
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas {
            streams: Lasting::new(Kind::Quota, MAX_STREAMS, MAX_STREAMS_OF_CONNECTION),
            pools: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }
}

/// The pool of one budget, and where its assignments go.
struct SharedPool {
    spending: Spending,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    pool: Pool,
    outlets: HashMap<ShareId, Outlet>,
}

/// Where the assignments of one bucket of one stream go.
#[derive(Clone)]
pub(super) struct Outlet {
    pub(super) sender: mpsc::Sender<Outgoing>,
    pub(super) id: Arc<BucketId>,
}

/// One bucket of one stream in its pool, until it is dropped.
pub(super) struct Member {
    budget: BudgetId,
    pool: Arc<SharedPool>,
    id: ShareId,
}

impl Quotas {
    /// A place for a stream; `None` if there are too many.
    pub(super) fn begin(&self, guest: &Arc<Guest>) -> Option<LastingPlace> {
        self.streams.begin(guest)
    }

    /// Puts a bucket of a stream into the pool of its budget, with its first report.
    pub(super) fn join(
        &self,
        server: &Arc<Server>,
        spending: Spending,
        outlet: Outlet,
        usage: Usage,
    ) -> Member {
        let (budget, now) = (spending.id(), server.engine.metrics().clock().now());
        let id = ShareId(self.next.fetch_add(1, Ordering::Relaxed));
        let mut pools = self.pools.lock();
        let pool = pools.entry(budget.clone()).or_insert_with(|| {
            let state = State { pool: Pool::new(None, None), outlets: HashMap::new() };
            let (state, changed) = (Mutex::new(state), Notify::new());
            let pool = Arc::new(SharedPool { spending, state, changed });
            tokio::spawn(take_turns(Arc::clone(server), budget.clone(), Arc::clone(&pool)));
            pool
        });
        let mut state = pool.state.lock();
        state.pool.join(now, id);
        state.outlets.insert(id, outlet);
        _ = state.pool.report(now, id, usage);
        drop(state);
        pool.changed.notify_one();
        Member { budget, pool: Arc::clone(pool), id }
    }

    /// Forgets a pool without proxies. `false` if it has some.
    fn close(&self, budget: &BudgetId, pool: &SharedPool) -> bool {
        let mut pools = self.pools.lock();
        let is_empty = pool.state.lock().pool.is_empty();
        if is_empty {
            pools.remove(budget);
        }
        is_empty
    }
}

impl Member {
    /// Whether the bucket still belongs to this budget.
    pub(super) fn is_of(&self, budget: &BudgetId) -> bool {
        self.budget == *budget
    }

    /// Takes a report. `false` if the pool has dropped or abandoned the bucket.
    #[must_use]
    pub(super) fn report(&self, now: Timestamp, usage: Usage) -> bool {
        let is_known = self.pool.state.lock().pool.report(now, self.id, usage);
        self.pool.changed.notify_one();
        is_known
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.pool.leave(self.id);
        state.outlets.remove(&self.id);
        drop(state);
        self.pool.changed.notify_one();
    }
}

/// Takes the turns of a pool, for as long as it has proxies.
async fn take_turns(server: Arc<Server>, budget: BudgetId, pool: Arc<SharedPool>) {
    let clock = server.engine.metrics().clock();
    loop {
        let due = pool.state.lock().pool.due_at();
        let Some(due) = due else {
            if server.quotas().close(&budget, &pool) {
                return;
            }
            continue;
        };
        let wait = due.since(clock.now());
        if wait.is_zero() {
            let divided = pool.take_turn(&server).await;
            pool.send(&server, divided);
            continue;
        }
        tokio::select! {
            () = sleep(wait) => {}
            () = pool.changed.notified() => {}
        }
    }
}

impl SharedPool {
    async fn take_turn(&self, server: &Server) -> Divided {
        let (engine, spending) = (&server.engine, &self.spending);
        let now = || engine.metrics().clock().now();
        let plan = Arc::clone(&engine.plan());
        let Some(policy) = spending.policy(&plan) else {
            // A reload has removed it; the next report finds the rule that applies now.
            self.state.lock().pool.turn(now());
            return self.state.lock().pool.tell_all(now(), false);
        };
        let taken = now();
        let Turn { refund, ask } = {
            let (most, refills) = spending.numbers(policy.scope().policy());
            let mut state = self.state.lock();
            state.pool.set_numbers(most, refills);
            state.pool.turn(taken)
        };
        if refund > 0 {
            engine.give_back_units(&spending.check(policy, refund)).await;
        }
        let nothing = Grant { units: 0, taken, keeps: Keeps::NOTHING };
        let grant = if ask == 0 {
            nothing
        } else {
            let check = |units| spending.check(policy, units);
            let counts = |policy: &_, limit: &_| spending.is_of(policy, limit);
            match engine.take_up_to(ask, check, counts).await {
                Ok(Taken::Unlimited) => return self.state.lock().pool.tell_all(now(), true),
                Ok(Taken::Blocked) => return self.state.lock().pool.tell_all(now(), false),
                Ok(Taken::Units(units, reply)) => {
                    let answer = &reply.answer;
                    let is_of_store =
                        matches!(answer.source, Source::Authoritative | Source::Lease)
                            && answer.applied.is_none()
                            && !spending.has_tier();
                    let keeps = match is_of_store {
                        true => Keeps::new(&reply.policy, &answer.limits, taken),
                        false => Keeps::NOTHING,
                    };
                    Grant { units, taken, keeps }
                }
                // What proxies hold lasts for a while; then they refuse.
                Err(_) => nothing,
            }
        };
        let divided = self.state.lock().pool.divide(now(), grant);
        if divided.left > 0 && grant.keeps != Keeps::NOTHING {
            engine.give_back_units(&spending.check(policy, divided.left)).await;
        }
        divided
    }

    /// Sends assignments. A stream that does not read them loses its share; what it holds stays charged.
    fn send(&self, server: &Server, divided: Divided) {
        let metrics = server.engine.metrics();
        let now = metrics.clock().now();
        let mut state = self.state.lock();
        let State { pool, outlets } = &mut *state;
        for (id, assignment) in divided.assignments {
            let Some(outlet) = outlets.get(&id) else { continue };
            metrics.count_assignment(assignment.name());
            if outlet.sender.try_send((now, framed(&outlet.id, assignment))).is_err() {
                pool.leave(id);
            }
        }
        outlets.retain(|id, _| pool.contains(*id));
    }
}

/// A response about one bucket, as the protocol frames it.
pub(super) fn framed(id: &BucketId, assignment: Assignment) -> Bytes {
    const PREFIX: usize = 5;
    let response = RateLimitQuotaResponse { bucket_action: actions(id, assignment) };
    let mut framed = vec![0; PREFIX];
    response.encode_raw(&mut framed);
    let length = u32::try_from(framed.len() - PREFIX).unwrap_or(u32::MAX);
    framed[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    framed.into()
}
