//! Reading the tiers of a policy: who is limited harder, or less hard, than the others.

use waterclock::{Factor, Policy};

use super::error::Fault;
use super::limit::accept_name;
use super::policy::TIER;
use super::spec::{LimitSpec, TierConfig};
use super::table::Table;
use super::table::{Entry, Field};
use super::{build, scale};

/// What a tier is a multiple of.
pub(crate) struct Base<'a> {
    pub(crate) name: &'a str,
    /// As they are written, before the policy's own factor.
    pub(crate) limits: &'a [LimitSpec],
    pub(crate) factor: Factor,
    pub(crate) mode: &'a str,
    pub(crate) shadow: bool,
}

impl Base<'_> {
    /// The limits by the policy's factor and another one: rounded once, whatever the two are.
    pub(crate) fn scaled(
        &self,
        name: &str,
        factor: Factor,
    ) -> Result<(Vec<LimitSpec>, Policy), String> {
        let factor = self.factor.times(factor).map_err(|error| error.to_string())?;
        let limits = scale::limits(self.limits, factor)?;
        let built = build::policy(name, &limits, self.mode, self.shadow)?;
        Ok((limits, built))
    }
}

/// In the order of the file; without those that there was something to complain about.
pub(crate) fn read(table: &Table<'_>, base: &Base<'_>) -> Vec<TierConfig> {
    let entries = table.verified("tiers", Field::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| read_tier(entry, base)).collect()
}

fn read_tier(entry: &Entry<'_>, base: &Base<'_>) -> Option<TierConfig> {
    let faults = entry.field.faults;
    let named = accept_name(entry.key)
        .map_err(|rest| Fault::at(entry.at, format!("the name of a tier {rest}")));
    let table = entry.field.table(format!("tier `{}`", entry.key), TIER).ok()?;
    table.needs("factor");
    let field = table.field("factor")?;
    let factor = field.factor().ok()?;
    faults.keep(named)?;
    let scaled = base.scaled(&format!("{}@tier:{}", base.name, entry.key), factor);
    let (limits, built) =
        faults.keep(scaled.map_err(|sentence| Fault::at(field.at(), sentence)))?;
    Some(TierConfig { name: entry.key.to_owned(), factor, limits, built })
}

/// Policies that share their keys, in one Redis: complains where tiers make them too many.
pub(crate) fn refuse_too_many(
    table: &Table<'_>,
    tiers: &[TierConfig],
    overrides: usize,
    most: Option<usize>,
) {
    let needed = tiers.iter().filter(|tier| tier.is_shared()).count();
    if let (Some(most), Some(field)) = (most, table.field("tiers"))
        && needed > 0
        && 1 + overrides + needed > most
    {
        let rest = format!(
            "and `overrides` are too many: in Redis at most {most} policies share their keys, which are this \
             one, {overrides} of `overrides` and {needed} of `tiers` (those with a factor of 0 or 1 \
             need none); remove some"
        );
        table.fault_at(field.at(), format!("`tiers` {rest}"));
    }
}
