//! Times and shares, as people read them.

/// A part of a whole as a percentage that is not 0 where the part is not, nor 100 where it is not all.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    match percent {
        _ if part == 0 => "0 %".to_owned(),
        _ if part == whole => "100 %".to_owned(),
        _ if percent < 0.01 => "< 0.01 %".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2} %"),
        _ if percent > 99.9 => "> 99.9 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// So many of something.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("one {what}") } else { format!("{count} {what}s") }
}

/// Eight heights of a block, for the most at most.
pub(super) fn spark(values: &[u64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().max().copied().unwrap_or(0).max(1);
    let block = |value: &u64| match value {
        0 => ' ',
        _ => {
            let place = usize::try_from(u128::from(*value) * 8 / u128::from(most)).unwrap_or(7);
            BLOCKS[place.min(7)]
        }
    };
    values.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_do_not_round_somebody_away() {
        let cases = [
            (0, 10, "0 %"),
            (1, 1_000_000, "< 0.01 %"),
            (1, 200, "0.50 %"),
            (1, 3, "33.3 %"),
            (9_999, 10_000, "> 99.9 %"),
            (10, 10, "100 %"),
            (0, 0, "–"),
        ];
        for (part, whole, words) in cases {
            assert_eq!(share(part, whole), words);
        }
    }

    #[test]
    fn sparks() {
        assert_eq!(spark(&[0, 1, 4, 8]), " ▂▅█");
        assert_eq!(spark(&[]), "");
    }
}
