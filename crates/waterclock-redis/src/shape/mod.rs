//! A policy as the scripts see it: its numbers in microseconds, and its records.

mod limit;
mod record;

use std::time::Duration;

use waterclock::{Cost, Mode, Policy, StoreError, Timestamp};
use waterclock_core::store::{Persist as _, ReservedUnits};

pub(crate) use record::NotOurs;

use limit::LimitShape;

/// What Lua adds and subtracts without loss: whole numbers below 2^53.
const EXACT: u64 = 1 << 53;
/// In count-refusals mode, sums reach four times the limit.
const UNIFORM_MOST: u64 = EXACT / 4;

/// A policy in the scripts' terms.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    limits: Vec<LimitShape>,
    /// The algorithms and numbers, as text.
    definition: String,
    mode: &'static str,
    shadow: bool,
}

/// What the limits of a policy are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) cost: &'a Cost,
}

impl Costs<'_> {
    /// Whether the limits are asked for different numbers.
    fn differ(&self) -> bool {
        self.cost.plain().is_none()
    }

    fn each(&self) -> impl Iterator<Item = u64> {
        self.policy.limits().iter().map(|limit| self.cost.of(limit.unit()))
    }
}

/// Where else a record may lie, and what was found there before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elsewhere<'a> {
    /// How many other definitions there may be a record of.
    pub(crate) definitions: usize,
    pub(crate) carried: &'a [Carried],
}

/// A record of another definition, and what it means to this one.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// Which definition, from 1.
    pub(crate) generation: usize,
    pub(crate) found: Vec<u8>,
    /// Nothing, if it is fresh.
    pub(crate) record: Vec<u8>,
    /// Whether the other definition is gone, so that the record moves even if nothing is charged.
    pub(crate) moves: bool,
}

/// A policy of one limit whose record is one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    /// Microseconds that one unit takes to return.
    pub(crate) unit_us: u64,
    /// Microseconds that a full bucket takes.
    pub(crate) depth_us: u64,
}

impl Shape {
    /// Fails if the scripts cannot decide the policy exactly.
    pub(crate) fn of(policy: &Policy) -> Result<Self, StoreError> {
        let mode = policy.mode().name();
        let unfit = |limit: &str, reason: String| {
            let policy = policy.name();
            StoreError::unfit(format!("limit `{limit}` of policy `{policy}`: {reason}"))
        };
        let mut limits = Vec::with_capacity(policy.limits().len());
        for limit in policy.limits() {
            let shape = LimitShape::of(limit).map_err(|reason| unfit(limit.name(), reason))?;
            if policy.mode() == Mode::CountRefusals && shape.holds() > UNIFORM_MOST {
                let reason = format!(
                    "in count-refusals mode, Redis counts up to 2^51; found {}",
                    shape.holds()
                );
                return Err(unfit(limit.name(), reason));
            }
            limits.push(shape);
        }
        let definition = policy.definition();
        let mut shape = Self { limits, definition, mode, shadow: policy.is_shadow() };
        if shape.plain().is_none() {
            shape.limits.iter_mut().for_each(LimitShape::date);
        }
        Ok(shape)
    }

    /// The numbers for the short script, if a record is one number.
    pub(crate) fn plain(&self) -> Option<Plain> {
        if let [only] = &*self.limits { only.plain() } else { None }
    }

    /// The numbers for the short script, if it may decide this policy.
    pub(crate) fn decided_in_short(&self) -> Option<Plain> {
        let live = self.mode == "binary" && !self.shadow && self.limits.iter().all(|l| !l.shadow);
        self.plain().filter(|_| live)
    }

    /// What the policy script reads for one charge. `expected` is about when it will run.
    pub(crate) fn write_args(
        &self,
        args: &mut Vec<Vec<u8>>,
        costs: Costs<'_>,
        mode: Option<&'static str>,
        elsewhere: &Elsewhere<'_>,
        expected: Timestamp,
    ) {
        let Elsewhere { definitions, carried } = elsewhere;
        let mut push = |arg: String| args.push(arg.into_bytes());
        // Any cost above every limit is as good as the next.
        push(costs.cost.most().min(EXACT).to_string());
        push(u8::from(costs.differ()).to_string());
        push(mode.unwrap_or(self.mode).into());
        push(u8::from(self.shadow).to_string());
        push(u8::from(self.plain().is_some()).to_string());
        push(definitions.to_string());
        if *definitions > 0 {
            push(carried.len().to_string());
            for Carried { generation, found, record, moves } in carried.iter() {
                args.push(generation.to_string().into_bytes());
                args.extend([found.clone(), record.clone()]);
                args.push(u8::from(*moves).to_string().into_bytes());
            }
        }
        let mut push = |arg: String| args.push(arg.into_bytes());
        push(self.limits.len().to_string());
        for (limit, cost) in self.limits.iter().zip(costs.each()) {
            if costs.differ() {
                push(cost.min(EXACT).to_string());
            }
            limit.write_args(&mut push, expected);
        }
    }

    /// What the scripts read for units that were used already.
    pub(crate) fn write_debit(&self, args: &mut Vec<Vec<u8>>, costs: Costs<'_>) {
        costs.each().for_each(|units| push_numbers(args, [units.min(EXACT), 0, 0, 0]));
    }

    /// What the scripts read for making what is held what was used.
    pub(crate) fn write_settling(
        &self,
        args: &mut Vec<Vec<u8>>,
        held: &ReservedUnits,
        used: Costs<'_>,
    ) {
        let at = held.at().as_nanos() / 1_000;
        // Numbers above what a script can represent are equal.
        let used = used.each().map(|used| used.min(EXACT));
        for ((limit, part), used) in self.limits.iter().zip(held.parts()).zip(used) {
            let part = part.map(|(units, ends)| (units.min(EXACT), ends));
            let (owed, back, at) = match part {
                None => (0, 0, 0),
                // What is held at once is held no more, whatever was used; it is found by its end.
                Some((units, Some(ends))) => (0, units, ends.as_nanos() / 1_000),
                Some((units, None)) => (used.saturating_sub(units), units.saturating_sub(used), at),
            };
            let by = if back > 0 { limit.closes_by(held.at()) } else { 0 };
            push_numbers(args, [owed, back, at, by]);
        }
    }

    /// Whether some limit counts what is held at once, or reports.
    pub(crate) fn is_rare(&self) -> bool {
        self.limits.iter().any(LimitShape::is_rare)
    }

    /// How long a record may count at most.
    pub(crate) fn remembers_for(&self) -> Duration {
        self.limits.iter().map(LimitShape::remembers_for).max().unwrap_or_default()
    }

    /// The same with records that policies of other numbers can read, if it is one gcra limit.
    pub(crate) fn shared(mut self) -> Self {
        self.limits.iter_mut().for_each(LimitShape::share);
        self
    }

    /// What its records are written by, to be read back by a process that has other numbers.
    pub(crate) fn definition(&self) -> &str {
        &self.definition
    }

    /// What identifies the records of this policy: the algorithms and numbers they were written by.
    pub(crate) fn fingerprint(&self) -> String {
        let calendars = self.limits.iter().filter_map(LimitShape::calendar);
        calendars.fold(self.definition.clone(), |text, calendar| text + &calendar)
    }
}

fn push_numbers(args: &mut Vec<Vec<u8>>, numbers: [u64; 4]) {
    args.extend(numbers.map(|number| number.to_string().into_bytes()));
}
