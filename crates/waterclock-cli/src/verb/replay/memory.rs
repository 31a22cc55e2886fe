//! A trace through a store of this process.

use waterclock::StoreError;

use super::{Audience, Played};
use crate::failure::Failure;
use crate::stage::{Ruling, Stage};
use crate::trace::Trace;

pub(super) fn play(
    ruling: &Ruling,
    mut trace: Trace,
    audience: &mut impl Audience,
) -> Result<Played, Failure> {
    let failed = |error: StoreError| Failure::from(error.to_string());
    let stage = Stage::set(ruling).map_err(failed)?;
    let mut is_empty = true;
    let complaint = loop {
        match trace.next_event() {
            Ok(Some(event)) => {
                is_empty = false;
                let (turn, decision) = stage.play(&event).map_err(failed)?;
                audience.hear(&turn, &event, &decision)?;
            }
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        }
    };
    let remarks = trace.remarks().into_iter().chain(stage.remark()).collect();
    Ok(Played { is_empty, complaint, remarks })
}
