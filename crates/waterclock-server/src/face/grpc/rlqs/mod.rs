//! Envoy's rate limit quota service: proxies decide themselves, with units that they were given beforehand.
//!
//! A proxy opens one stream for a domain, and reports for each bucket how many requests it has admitted and refused. The
//! answer is a [lease](share::Lease): so many units, charged to the policy in the store *before* they are sent, to be spent
//! within [`TTL`] of their arrival. A lease does not refill; a new one replaces it.
//!
//! # The bound
//!
//! Let A be the bound of a policy: what it admits in any span of length w (`B + R·w` for a bucket of capacity B and rate
//! R). What all proxies of all servers and all direct callers admit together in any span of length w is at most
//!
//! ```text
//! A(w + TTL + DELAY) + requests that proxies admit without an assignment
//! ```
//!
//! where `DELAY` is the longest time from the charge in the store to the arrival of the assignment.
//!
//! *Proof.* A proxy spends a unit at most `DELAY + TTL` after it was charged: the lease arrives `DELAY` after the charge at
//! the latest, and ends `TTL` after that. So what is spent in a span was charged in the span, or at most `TTL + DELAY`
//! before it. No unit is spent twice, because a lease is never given away again while it can be spent: units go back to
//! the store only when a later report of the *same* stream, which was not held up on its way, shows that they were not
//! spent ([`share::Share::report`]); the units of a stream that ended stay charged. And the store charges at most A of any span, refunds included, because
//! a refund is only so large that the key is never better off than if the unspent units had not been charged at all
//! ([`keeps::Keeps`]): what was charged and spent alone is a history that the policy admits. ∎
//!
//! Neither the number of proxies nor of servers is in it, and neither is the interval of reports.

mod answer;
mod book;
mod buckets;
mod keeps;
mod pool;
mod share;
#[cfg(test)]
mod simulation;
mod stream;
mod target;

use std::time::Duration;

pub(crate) use self::book::Quotas;
pub(super) use self::stream::answer;

/// How long a proxy may spend a lease. Long enough for a proxy that has lost its stream to open another: Envoy tries every
/// 5 s.
const TTL: Duration = Duration::from_secs(10);
/// The longest time from the charge in the store until the proxy has the assignment.
const DELAY: Duration = Duration::from_secs(2);
/// A lease is replaced after this time: where one lapses, Envoy may admit everything.
const RENEW: Duration = Duration::from_millis(TTL.as_secs() * 1_000 / 3);
/// A lease that cannot be replaced, because nothing is left, stays in force until this age; then all is refused.
const KEEP: Duration = Duration::from_millis(TTL.as_secs() * 2_000 / 3);
/// A bucket without a report for so long is gone: Envoy reports all of them every 5 s.
const SILENCE: Duration = Duration::from_secs(20);
/// A bucket without a request for so long is abandoned.
const IDLE: Duration = Duration::from_secs(60);
