//! The story as people read it.

use waterclock_config::Micros;

use super::story::{Errors, Step, Story};
use crate::style::{BAD, GOOD, styled};

pub(super) fn lines(story: &Story) -> Vec<String> {
    let Some((first, retries)) = story.steps.split_first() else {
        let line = "a check never passes: only a reservation holds a place, until it is settled or its lease \
                    is over";
        return vec![line.to_owned()];
    };
    let one = if story.counts_several { "one of each unit" } else { "one unit" };
    let mut lines = vec![format!("a fresh key, asked for {one} after another:")];
    lines.push(format!("  at 0s: {}", passed(first)));
    if story.unbounded {
        lines.push("  and so does any number more".to_owned());
        lines.extend(story.errors.as_ref().map(errors));
        return lines;
    }
    lines.push(format!(
        "  then {} by {}: retry in {}",
        styled(BAD, "refused"),
        first.refused_by.join(" and "),
        wait(first.retry_after_us)
    ));
    lines.extend(retries.iter().map(|step| {
        let next = wait(step.retry_after_us);
        format!("  at {}: {}, the next in {next}", Micros(step.at_us), passed(step))
    }));
    if let Some(fresh) = story.fresh_at_us {
        lines.push(format!("  at {}, after silence: as fresh", Micros(fresh)));
    }
    if let Some(most) = story.most_at_once {
        lines.push(format!("a cost above {most} never passes in one piece"));
    }
    lines
}

fn passed(step: &Step) -> String {
    styled(GOOD, format!("{} passed", step.passed))
}

fn errors(errors: &Errors) -> String {
    let Errors { reported, .. } = errors;
    let are = if *reported == 1 { "error is" } else { "errors are" };
    format!(
        "  once {reported} {are} reported: {} by {}, a probe passes in {}",
        styled(BAD, "refused"),
        errors.refused_by.join(" and "),
        wait(errors.retry_after_us)
    )
}

fn wait(micros: Option<u64>) -> String {
    micros.map_or_else(|| "all eternity".to_owned(), |micros| Micros(micros).to_string())
}
