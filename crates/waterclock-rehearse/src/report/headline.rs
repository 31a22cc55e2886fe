//! The first line of a report: the one thing to know.

use std::net::IpAddr;

use super::advice::{Extent, words};
use super::units::{counted, share};
use super::{Report, grouped};

impl Report<'_> {
    /// `2.6 % refused; 6 of 9,356 clients; 86 % of it one address`.
    pub(super) fn headline(&self) -> String {
        let ledger = &self.ledger;
        let (clients, refused) = (ledger.keys.number(), ledger.keys_refused());
        let about = if clients.is_estimate { "about " } else { "" };
        let all = |words: &str| format!("{words}; {about}{}", counted(clients.count, "client"));
        if ledger.checks == 0 {
            return "nothing to check".to_owned();
        }
        if self.policy.limits().is_empty() && ledger.refused == 0 {
            return self.first_limit().unwrap_or_else(|| all("no limit yet"));
        }
        if ledger.refused == 0 && ledger.in_shadow > 0 {
            let in_shadow = rough_share(ledger.in_shadow, ledger.checks);
            return all(&format!("nothing refused; {in_shadow} shadow-refused"));
        }
        if ledger.refused == 0 {
            return all("nothing refused");
        }
        let mut words = format!(
            "{} refused; {about}{} of {} clients",
            rough_share(ledger.refused, ledger.checks),
            grouped(refused.count as u64),
            grouped(clients.count as u64)
        );
        // One client makes most of it.
        let top = ledger.keys.top(1, |record| record.refused);
        if let Some((key, record)) =
            top.first().filter(|(_, record)| record.refused * 2 >= ledger.refused)
            && refused.count > 1
        {
            let is_address = key.split('/').next().is_some_and(|net| net.parse::<IpAddr>().is_ok());
            let who = if is_address { "one address" } else { "one client" };
            words.push_str(&format!(
                "; {} of it {who}",
                rough_share(record.refused, ledger.refused)
            ));
        }
        words
    }
}

impl Report<'_> {
    /// What the limit to start with would refuse, where there is none: `no limit yet; 5/min would refuse 3 of 1,450
    /// clients, 24 % of checks`.
    fn first_limit(&self) -> Option<String> {
        let advice = self.advice.first()?;
        let (point, curve) = (advice.at_start()?, &advice.curve);
        let words = words(&point.limit);
        let about = if self.extent == Extent::Whole { "" } else { "about " };
        Some(match point.clients_refused {
            0 => format!(
                "no limit yet; {words} would refuse none of {about}{} clients",
                grouped(curve.clients)
            ),
            refused => format!(
                "no limit yet; {words} would refuse {} of {about}{} clients, {} of checks",
                grouped(refused),
                grouped(curve.clients),
                rough_share(point.checks_refused, curve.checks)
            ),
        })
    }
}

/// A percentage without needless digits, that is 0 only for none and 100 only for all.
fn rough_share(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    if (10.0..99.0).contains(&percent) { format!("{percent:.0} %") } else { share(part, whole) }
}
