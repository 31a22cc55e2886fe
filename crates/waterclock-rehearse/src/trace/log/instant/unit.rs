//! What numbers that are times count.

use crate::expr::Ratio;

/// A unit of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::trace) enum Unit {
    /// By the end of the field's name (_s, _ms, _us, _ns), or else by how large the number is: below 10^11
    /// seconds, below 10^14 milliseconds, below 10^17 microseconds, else nanoseconds
    Auto,
    S,
    Ms,
    Us,
    Ns,
}

impl Unit {
    /// What the name of a field says about it.
    pub(in crate::trace::log) fn of_field(self, name: &str) -> Unit {
        match name.rsplit_once('_') {
            _ if self != Unit::Auto => self,
            Some((_, "s")) => Unit::S,
            Some((_, "ms")) => Unit::Ms,
            Some((_, "us")) => Unit::Us,
            Some((_, "ns")) => Unit::Ns,
            _ => Unit::Auto,
        }
    }

    /// Whole microseconds, as far as they can be told.
    pub(super) fn micros(self, number: Ratio) -> Option<i128> {
        match self {
            Unit::Auto => Unit::of_size(number).micros(number),
            Unit::S => number.times(Ratio::whole(1_000_000)).map(Ratio::floor),
            Unit::Ms => number.times(Ratio::whole(1_000)).map(Ratio::floor),
            Unit::Us => Some(number.floor()),
            Unit::Ns => Some(number.floor().div_euclid(1_000)),
        }
    }

    /// Seconds until the year 5138, and all others from March 1973 on.
    fn of_size(number: Ratio) -> Unit {
        match number.floor().unsigned_abs() {
            0..100_000_000_000 => Unit::S,
            100_000_000_000..100_000_000_000_000 => Unit::Ms,
            100_000_000_000_000..100_000_000_000_000_000 => Unit::Us,
            _ => Unit::Ns,
        }
    }
}
