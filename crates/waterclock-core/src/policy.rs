use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::algorithm::for_each_algorithm;
use crate::algorithm::narrow::Narrow;
use crate::store::MOST_WORDS;
use crate::{
    Algorithm, Concurrency, Decision, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit,
    LimitSet, MAX_LIMITS, MinInterval, PolicyError, Quota, RollingWindow, SlidingWindow,
};

/// What is admitted when not everything fits, and what is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The whole cost or nothing; refusals are not recorded.
    #[default]
    Binary,
    /// As much as fits.
    Partial,
    /// The whole cost or nothing; every attempt is recorded, so hammering keeps you out: for as long
    /// as it goes on by a sliding or rolling window, until its end by a fixed one.
    CountRefusals,
}

impl Mode {
    /// `binary`, `nary` or `uniform`, as configuration spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Partial => "nary",
            Self::CountRefusals => "uniform",
        }
    }

    /// The mode of this [name](Mode::name), or of `partial` or `count-refusals`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "binary" => Some(Self::Binary),
            "nary" | "partial" => Some(Self::Partial),
            "uniform" | "count-refusals" => Some(Self::CountRefusals),
            _ => None,
        }
    }
}

/// A named, ordered set of limits that admit together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    name: Box<str>,
    mode: Mode,
    shadow: bool,
    limits: Box<[Limit]>,
    words: usize,
    recurs: bool,
    keeps_logs: bool,
    /// One limit that can refuse, without a gap, in binary mode.
    plain: bool,
    /// Its numbers, if its state is one word: where a check finds them at once.
    one_word: Option<Narrow>,
    /// The numbers of all limits, if there are several such ones.
    several: Box<[Narrow]>,
    /// Several limits that can refuse, without gaps and logs, of few words, in binary mode.
    together: bool,
    /// Its limits count different units.
    counts_several: bool,
    /// A limit of what is held at once can refuse.
    reserves_only: bool,
}

impl Policy {
    /// A policy of up to 16 limits with distinct names. Without limits it admits all.
    pub fn new(
        name: &str,
        limits: impl IntoIterator<Item = impl Into<Limit>>,
    ) -> Result<Self, PolicyError> {
        let limits: Vec<Limit> = limits.into_iter().map(Into::into).collect();
        if limits.len() > MAX_LIMITS {
            return Err(PolicyError::ManyLimits(limits.len()));
        }
        for (i, limit) in limits.iter().enumerate() {
            if limits[..i].iter().any(|earlier| earlier.name() == limit.name()) {
                return Err(PolicyError::TwinName(limit.name().into()));
            }
        }
        Ok(Self::unchecked(name, limits))
    }

    pub(crate) fn unchecked(name: &str, limits: Vec<Limit>) -> Self {
        Self {
            name: name.into(),
            mode: Mode::Binary,
            shadow: false,
            words: limits.iter().map(Limit::words).sum(),
            recurs: limits.iter().any(|limit| !limit.is_shadow() && limit.algorithm().recurs()),
            keeps_logs: limits.iter().any(|limit| limit.algorithm().keeps_log()),
            counts_several: limits.iter().any(|limit| limit.unit() != limits[0].unit()),
            limits: limits.into(),
            plain: false,
            one_word: None,
            several: Box::default(),
            together: false,
            reserves_only: false,
        }
        .find_plain()
    }

    fn find_plain(mut self) -> Self {
        let plain = match &*self.limits {
            [only] => only.min_interval().is_none() && !only.is_shadow() && only.lease().is_none(),
            _ => false,
        };
        self.plain = plain && self.mode == Mode::Binary && !self.shadow;
        self.one_word = self.plain().and_then(|limit| limit.algorithm().narrowed());
        let is_binary = self.mode == Mode::Binary && !self.shadow && self.limits.len() > 1;
        let is_plain = |limit: &Limit| limit.min_interval().is_none() && !limit.is_shadow();
        let narrowed =
            |limit: &Limit| limit.algorithm().narrowed().filter(|_| is_plain(limit) && is_binary);
        let are_plain = is_binary && self.limits.iter().all(is_plain);
        let is_small = self.words <= MOST_WORDS && !self.keeps_logs;
        self.together = are_plain && is_small && !self.recurs && !self.counts_several;
        self.several = self.limits.iter().map(narrowed).collect::<Option<_>>().unwrap_or_default();
        let leases = |limit: &Limit| !limit.is_shadow() && limit.lease().is_some();
        self.reserves_only = !self.shadow && self.limits.iter().any(leases);
        self
    }

    /// Whether only a reservation is ever admitted: a limit of what is held at once can refuse here.
    #[must_use]
    pub fn reserves_only(&self) -> bool {
        self.reserves_only
    }

    /// Whether outcomes mean something to one of its limits.
    #[must_use]
    pub fn takes_reports(&self) -> bool {
        self.limits.iter().any(|limit| matches!(limit.algorithm(), Algorithm::ErrorRate(_)))
    }

    /// The shortest lease of its limits of what is held at once.
    #[must_use]
    pub fn shortest_lease(&self) -> Option<Duration> {
        self.limits.iter().filter_map(Limit::lease).min()
    }

    /// The only limit, if the policy is nothing more than that.
    #[inline]
    pub(crate) fn plain(&self) -> Option<&Limit> {
        if self.plain { self.limits.first() } else { None }
    }

    /// The numbers of the only limit, if the policy is nothing more than that, in one word.
    #[inline(always)]
    pub(crate) fn narrowed(&self) -> Option<&Narrow> {
        self.one_word.as_ref()
    }

    /// The numbers of all limits, in order, if there are several of one word each and the policy is nothing more than that.
    #[inline]
    pub(crate) fn several(&self) -> &[Narrow] {
        &self.several
    }

    /// Whether its limits can be asked and charged in one pass.
    #[inline]
    pub(crate) fn admits_together(&self) -> bool {
        self.together
    }

    /// Sets what happens when not everything fits.
    pub fn with_mode(mut self, mode: Mode) -> Result<Self, PolicyError> {
        let unfit = self.limits.iter().find(|limit| !limit.algorithm().records_refusals());
        if let (Mode::CountRefusals, Some(limit)) = (mode, unfit) {
            return Err(PolicyError::NotCountRefusals(limit.name().into()));
        }
        if mode == Mode::Partial && self.counts_several {
            return Err(PolicyError::NotPartial);
        }
        self.mode = mode;
        Ok(self.find_plain())
    }

    /// Decide and report, never refuse.
    #[must_use]
    pub fn with_shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self.find_plain()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits, in order.
    #[must_use]
    #[inline]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// What happens when not everything fits.
    #[must_use]
    #[inline]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the whole policy only decides and reports.
    #[must_use]
    #[inline]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether a decision of this policy turns its caller away. A partial grant does not; what uniform
    /// mode records of an attempt that is not admitted does.
    #[must_use]
    pub fn refuses(&self, decision: &Decision) -> bool {
        let in_part = self.mode == Mode::Partial && decision.granted() > 0;
        !decision.is_allowed() && !in_part
    }

    /// Whether its limits count different units, so that a cost is a number for each of them.
    #[must_use]
    #[inline]
    pub fn counts_several(&self) -> bool {
        self.counts_several
    }

    /// How many words the state of one key takes, all zero when fresh.
    #[inline]
    pub(crate) fn state_words(&self) -> usize {
        self.words
    }

    /// Whether the words alone are not the whole state.
    #[inline]
    pub(crate) fn has_logs(&self) -> bool {
        self.keeps_logs
    }

    /// The names of a set of this policy's limits, in policy order.
    pub fn names(&self, set: LimitSet) -> impl Iterator<Item = &str> {
        set.iter().filter_map(|i| self.limits.get(i)).map(Limit::name)
    }

    /// The set of the limits with these names; `None` if a name is no limit's of this policy.
    #[must_use]
    pub fn limits_named<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Option<LimitSet> {
        let mut set = LimitSet::default();
        for name in names {
            set.insert(self.limits.iter().position(|limit| limit.name() == name.as_ref())?);
        }
        Some(set)
    }

    /// Whether room can shrink again with time alone.
    pub(crate) fn recurs(&self) -> bool {
        self.recurs
    }

    /// The limits with where their words start.
    #[inline]
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, &Limit)> {
        self.limits.iter().scan(0, |start, limit| {
            let at = *start;
            *start += limit.words();
            Some((at, limit))
        })
    }
}

macro_rules! policies_from {
    ($($limit:ident $(= $_:literal)?),*) => {$(
        /// A policy of this one limit, under its name.
        impl From<$limit> for Policy {
            fn from(limit: $limit) -> Self {
                let limit = Limit::from(limit);
                let name = Box::<str>::from(limit.name());
                Self::unchecked(&name, Vec::from([limit]))
            }
        }
    )*};
}
policies_from!(Limit);
for_each_algorithm!(policies_from);
