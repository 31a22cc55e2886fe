//! A policy as the scripts see it: its numbers in microseconds, and its records.

mod limit;
mod record;

use std::time::Duration;

use waterclock::{Cost, Mode, Policy, StoreError, Timestamp};
use waterclock_core::store::{Persist as _, ReservedUnits};

pub(crate) use record::NotOurs;

use crate::keyspace::Tag;
use crate::script::Algorithms;
use limit::LimitShape;

/// What Lua adds and subtracts without loss: whole numbers below 2^53.
const EXACT: u64 = 1 << 53;
/// In count-refusals mode, sums reach four times the limit.
const UNIFORM_MOST: u64 = EXACT / 4;
/// Bytes of a number in records and in what the scripts are asked.
pub(crate) const NUMBER: usize = 7;
/// Bytes of a number of entries.
const COUNT: usize = 4;
/// Bytes before the states in a record: one that says that it is packed, and the tag.
const HEAD: usize = 4;
/// Bytes of the instants behind them, if there are, at which something is to be given back: the first and the last.
const INSTANTS: usize = 2 * NUMBER;
/// Where the flags are in a spec, and which of them says that something stands before the record.
const FLAGS_AT: usize = 1;
const PREFIXED: u8 = 4;
/// Where the tag is in a spec.
const TAG_AT: std::ops::Range<usize> = 2..5;

/// A policy in the scripts' terms.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    limits: Vec<LimitShape>,
    /// The algorithms and numbers, as text.
    definition: String,
    mode: Mode,
    shadow: bool,
    tag: Tag,
    /// The algorithms that a script about this policy needs.
    algorithms: Algorithms,
    /// What the scripts read before anything else.
    spec: Vec<u8>,
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

/// A record of another definition, and what it means to this one.
#[derive(Clone, Debug)]
pub(crate) struct Translation {
    pub(crate) found: Vec<u8>,
    /// Nothing, if it is fresh.
    pub(crate) record: Vec<u8>,
    /// What is due of the key, as it was found and as it is under this definition.
    pub(crate) due: [Vec<u8>; 2],
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
        let calendars = limits.iter().filter_map(LimitShape::calendar);
        let definition =
            calendars.fold(policy.definition(), |text, calendar| format!("{text}# {calendar:?}\n"));
        let (mode, shadow) = (policy.mode(), policy.is_shadow());
        let tag = Tag::preferred(&definition);
        let gaps = limits.iter().filter(|limit| limit.gap_us > 0).map(|_| b'm');
        let algorithms = Algorithms::of(limits.iter().map(LimitShape::code).chain(gaps));
        let spec = Vec::new();
        let mut shape = Self { limits, definition, mode, shadow, tag, algorithms, spec };
        if shape.plain().is_none() {
            shape.limits.iter_mut().for_each(LimitShape::date);
        }
        shape.spec = shape.make_spec();
        Ok(shape)
    }

    fn make_spec(&self) -> Vec<u8> {
        let mode = match self.mode {
            Mode::Partial => b'n',
            Mode::CountRefusals => b'u',
            _ => b'b',
        };
        let flags = u8::from(self.plain().is_some()) + 2 * u8::from(self.shadow);
        let mut spec = vec![mode, flags];
        spec.extend_from_slice(self.tag.digits());
        let fixed_part = if self.keeps_logs() { self.fixed_part() } else { 0 };
        spec.extend(u16::try_from(fixed_part).unwrap_or(u16::MAX).to_be_bytes());
        spec.push(u8::try_from(self.limits.len()).unwrap_or(u8::MAX));
        self.limits.iter().for_each(|limit| limit.write_spec(&mut spec));
        spec
    }

    /// The definition by which its records are written.
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    pub(crate) fn set_tag(&mut self, tag: Tag) {
        self.tag = tag;
        self.spec[TAG_AT].copy_from_slice(tag.digits());
    }

    /// The numbers for the short script, if a record is one number.
    pub(crate) fn plain(&self) -> Option<Plain> {
        if let [only] = &*self.limits { only.plain() } else { None }
    }

    /// The numbers for the short script, if it may decide this policy.
    pub(crate) fn decided_in_short(&self) -> Option<Plain> {
        let live =
            self.mode == Mode::Binary && !self.shadow && self.limits.iter().all(|l| !l.shadow);
        self.plain().filter(|_| live)
    }

    /// What the scripts read for one charge: arguments in this order. `prefix` is what stands before the record, and
    /// `expected` is about when they will run.
    pub(crate) fn write_args(
        &self,
        args: &mut Vec<Vec<u8>>,
        (prefix, costs): (&[u8], Costs<'_>),
        translation: Option<&Translation>,
        is_due_declared: bool,
        expected: Timestamp,
    ) {
        let mut spec = self.spec.clone();
        if !prefix.is_empty() {
            spec[FLAGS_AT] += PREFIXED;
        }
        args.push(spec);
        let mut ask = Vec::with_capacity(NUMBER + 1);
        // Any cost above every limit is as good as the next.
        put(&mut ask, costs.cost.most().min(EXACT));
        let moves = translation.is_some_and(|translation| translation.moves);
        let hints = [is_due_declared, moves, translation.is_some(), costs.differ()];
        ask.push(hints.iter().fold(0, |sum, hint| 2 * sum + u8::from(*hint)));
        if costs.differ() {
            costs.each().for_each(|cost| put(&mut ask, cost.min(EXACT)));
        }
        args.push(ask);
        if !prefix.is_empty() {
            args.push(prefix.to_vec());
        }
        if let Some(Translation { found, record, due: [due_found, due], .. }) = translation {
            args.extend([found, record, due_found, due].map(Vec::clone));
        }
        args.extend(self.limits.iter().filter_map(|limit| limit.edges(expected)));
    }

    /// What the scripts read for units that were used already.
    pub(crate) fn debit(&self, costs: Costs<'_>) -> Vec<u8> {
        costs.each().flat_map(|units| [units.min(EXACT), 0, 0, 0]).fold(Vec::new(), putting)
    }

    /// What the scripts read for making what is held what was used.
    pub(crate) fn settling(&self, held: &ReservedUnits, used: Costs<'_>) -> Vec<u8> {
        let at = held.at().as_nanos() / 1_000;
        // Numbers above what a script can represent are equal.
        let used = used.each().map(|used| used.min(EXACT));
        let mut numbers = Vec::new();
        for ((limit, part), used) in self.limits.iter().zip(held.parts()).zip(used) {
            let part = part.map(|(units, ends)| (units.min(EXACT), ends));
            let (owed, back, at) = match part {
                None => (0, 0, 0),
                // What is held at once is held no more, whatever was used; it is found by its end.
                Some((units, Some(ends))) => (0, units, ends.as_nanos() / 1_000),
                Some((units, None)) => (used.saturating_sub(units), units.saturating_sub(used), at),
            };
            let by = if back > 0 { limit.closes_by(held.at()) } else { 0 };
            numbers.extend([owed, back, at, by]);
        }
        numbers.into_iter().fold(Vec::new(), putting)
    }

    /// What the scripts read for giving back all that is held when its time is over.
    pub(crate) fn releasing(&self, held: &ReservedUnits) -> Vec<u8> {
        let units = |part: Option<(u64, _)>| part.map_or(0, |(units, _)| units);
        let limits = self.limits.iter().zip(held.parts());
        let numbers =
            limits.flat_map(|(limit, part)| [units(part), limit.closes_by(held.at()), 0, 0]);
        numbers.fold(Vec::new(), putting)
    }

    /// The algorithms that a script about this policy needs.
    pub(crate) fn algorithms(&self) -> Algorithms {
        self.algorithms
    }

    pub(crate) fn keeps_logs(&self) -> bool {
        self.limits.iter().any(LimitShape::keeps_log)
    }

    /// The bytes of a record before its logs.
    fn fixed_part(&self) -> usize {
        HEAD + INSTANTS + self.limits.iter().map(LimitShape::fixed_bytes).sum::<usize>()
    }

    /// How long a record may count at most.
    pub(crate) fn remembers_for(&self) -> Duration {
        self.limits.iter().map(LimitShape::remembers_for).max().unwrap_or_default()
    }

    /// Makes its records ones that policies of other numbers can read, if it is one gcra limit.
    pub(crate) fn share(&mut self) {
        self.limits.iter_mut().for_each(LimitShape::share);
        self.tag = Tag::ANY;
        self.spec = self.make_spec();
    }

    /// What its records are written by, to be read back by a process that has other numbers.
    pub(crate) fn definition(&self) -> &str {
        &self.definition
    }
}

/// Adds a number as the scripts read it.
pub(crate) fn put(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes()[8 - NUMBER..]);
}

pub(crate) fn putting(mut bytes: Vec<u8>, number: u64) -> Vec<u8> {
    put(&mut bytes, number);
    bytes
}
