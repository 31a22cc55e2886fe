//! Dates of the calendar as seconds since the epoch.

/// A date and a time of day, as far as they exist.
pub(super) struct Civil {
    pub(super) year: u32,
    pub(super) month: u32,
    pub(super) day: u32,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
}

impl Civil {
    /// Seconds since the epoch, if there is such a time. A leap second is the first of the next minute.
    pub(super) fn seconds(&self) -> Option<i64> {
        let is_leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        let days = match self.month {
            2 => 28 + u32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        let exists = (1..=days).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second <= 60;
        exists.then(|| {
            let time = (self.hour * 60 + self.minute) * 60 + self.second;
            self.days() * 86_400 + i64::from(time)
        })
    }

    /// Days since the epoch. Years begin in March here, so that the odd day is the last of its year.
    fn days(&self) -> i64 {
        let is_early = self.month <= 2;
        let year = i64::from(self.year) - i64::from(is_early);
        let month = i64::from(if is_early { self.month + 9 } else { self.month - 3 });
        let day_of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        // 719 468 days lie between the first of March of the year 0 and the epoch.
        year * 365 + leap_days + day_of_year - 719_468
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_follows_the_one_before() {
        let mut expected = 0;
        for year in 1970..2170 {
            for month in 1..=12 {
                for day in 1..=31 {
                    let civil = Civil { year, month, day, hour: 0, minute: 0, second: 0 };
                    let Some(seconds) = civil.seconds() else { continue };
                    assert_eq!(seconds, expected, "{year}-{month}-{day}");
                    expected += 86_400;
                }
            }
        }
        // 2170-01-01T00:00:00Z, by another implementation.
        assert_eq!(
            expected,
            "2170-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second()
        );
    }

    #[test]
    fn times_that_do_not_exist() {
        let base = || Civil { year: 2023, month: 3, day: 1, hour: 1, minute: 1, second: 60 };
        assert!(base().seconds().is_some());
        for civil in [
            Civil { month: 0, ..base() },
            Civil { month: 13, ..base() },
            Civil { month: 2, day: 29, ..base() },
            Civil { day: 0, ..base() },
            Civil { month: 4, day: 31, ..base() },
            Civil { hour: 24, ..base() },
            Civil { minute: 60, ..base() },
            Civil { second: 61, ..base() },
        ] {
            assert_eq!(civil.seconds(), None);
        }
    }
}
