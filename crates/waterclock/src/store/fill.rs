//! Charging as much as there is room for, in stores that have no step of their own for it.

use waterclock_core::{Cost, LimitDecision, Policy};

use super::{Answer, Charge, Source, Store, StoreError, Verb};

/// [`Store::fill`] by a peek and a check.
pub async fn fill_by_check<S: Store + ?Sized>(
    store: &S,
    policy: &Policy,
    charge: &Charge<'_>,
) -> Result<Cost, StoreError> {
    let nothing = charge.cost.granted(0);
    let peek = [Charge { cost: nothing.clone(), ..charge.clone() }];
    let peeked = store.apply(Verb::Peek, &peek).await.map_err(StoreError::before_charging)?;
    let Some(peeked) = peeked.first() else { return Ok(nothing) };
    let cost = fitting(policy, &peeked.limits, &charge.cost);
    if cost.is_zero() {
        return Ok(nothing);
    }
    let check = [Charge { cost: cost.clone(), ..charge.clone() }];
    let charged = store.apply(Verb::Check, &check).await?;
    let is_charged = |answer: &&Answer| answer.source == Source::Authoritative;
    let granted = charged.iter().find(is_charged).map_or(0, |answer| answer.decision.granted());
    Ok(cost.granted(granted))
}

/// What of a cost there is room for, by the numbers of the limits that can refuse: where units differ, of each.
fn fitting(policy: &Policy, limits: &[LimitDecision], cost: &Cost) -> Cost {
    let room = |counted: &dyn Fn(&str) -> bool| {
        let live = policy.limits().iter().zip(limits).filter(|(limit, _)| !limit.is_shadow());
        let counted = live.filter(|(limit, _)| counted(limit.unit()));
        counted.filter_map(|(_, now)| now.remaining).min().unwrap_or(u64::MAX)
    };
    match cost.plain() {
        Some(n) => Cost::from(n.min(room(&|_| true))),
        None => cost.map(|unit, n| n.min(room(&|counted| counted == unit))),
    }
}
