//! The picture of a simulation, alone or in a page.

use waterclock_config::Micros;

use super::summary::bound;
use super::{Rehearsal, Simulation, Subject};
use crate::picture::{Page, Picture, Row, Times};
use waterclock_config::english::describe;

impl Simulation {
    pub(super) fn picture(&self) -> Picture {
        Picture {
            title: self.lead.clone(),
            times: Times::of(self.from_us),
            span_us: (self.from_us, self.until_us),
            level_of: Some(format!("what is left to {}, of all there is", self.watched)),
            rows: self.played.iter().map(|(subject, played)| row(subject, played)).collect(),
        }
    }

    pub(super) fn page(&self) -> String {
        let mut page = Page::new("What these limits do", &format!("{}.", self.lead));
        page.picture(&self.picture().svg());
        page.section("In numbers");
        let columns = self.columns();
        page.table(&columns.each_ref().map(String::as_str), self.lines().map(|line| line.to_vec()));
        page.section("What each limit says");
        for (subject, _) in &self.played {
            page.verbatim(&describe(&subject.spec));
        }
        page.finish()
    }
}

fn row(subject: &Subject, played: &Rehearsal) -> Row {
    let mut notes = vec![format!("{} of {} admitted", played.admitted, played.requests)];
    if let Some(bound) = bound(subject, played) {
        let (most, window) = (played.most.units(), Micros(played.most.window_us()));
        notes.push(format!("most in any {window}: {most} (bound {bound})"));
    }
    if let Some(wait) = played.longest_wait() {
        notes.push(format!("{} refused, longest wait {wait}", played.refused()));
    }
    Row {
        name: subject.name.clone(),
        notes,
        timeline: played.timeline.clone(),
        level: played.level.clone(),
        refusals: played.refusals.kept(),
    }
}
