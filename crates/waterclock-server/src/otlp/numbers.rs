//! The numbers of `/metrics` as OTLP has them: read from the same text, so that both say the same.

use std::collections::BTreeMap;

use super::messages::{
    Attribute, CUMULATIVE, Data, Gauge, Histogram, HistogramPoint, Number, Point, Sum,
};

/// From when to when it was counted, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A histogram with one set of labels: what is at or below each bound.
#[derive(Default)]
struct Buckets {
    bounds: Vec<f64>,
    at_most: Vec<u64>,
    sum: Option<f64>,
    count: u64,
}

type Labels = Vec<(String, String)>;

/// The metrics of a text in OpenMetrics format.
pub(super) fn of_text(text: &str, span: Span) -> Vec<Number> {
    let (mut numbers, mut help, mut kind) = (Vec::new(), String::new(), String::new());
    let (mut family, mut points) = (String::new(), Vec::new());
    let mut histograms: BTreeMap<Labels, Buckets> = BTreeMap::new();
    let mut finish = |family: &str,
                      kind: &str,
                      help: &str,
                      points: &mut Vec<Point>,
                      histograms: &mut BTreeMap<Labels, Buckets>| {
        let points = std::mem::take(points);
        let (name, data) = match kind {
            "counter" => {
                let sum = Sum {
                    data_points: points,
                    aggregation_temporality: CUMULATIVE,
                    is_monotonic: true,
                };
                (format!("{family}_total"), Data::Sum(sum))
            }
            "histogram" => {
                let of_labels = |(labels, buckets)| point_of(labels, buckets, span);
                let data_points = std::mem::take(histograms).into_iter().map(of_labels).collect();
                let histogram = Histogram { data_points, aggregation_temporality: CUMULATIVE };
                (family.to_owned(), Data::Histogram(histogram))
            }
            _ => (family.to_owned(), Data::Gauge(Gauge { data_points: points })),
        };
        if !family.is_empty() {
            numbers.push(Number { name, description: help.to_owned(), data: Some(data) });
        }
    };
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name) = (words.next(), words.next().unwrap_or_default());
            let rest = words.next().unwrap_or_default();
            // Not every family has a help text.
            if matches!(what, Some("HELP" | "TYPE")) && name != family {
                finish(&family, &kind, &help, &mut points, &mut histograms);
                (family, kind, help) = (name.to_owned(), String::new(), String::new());
            }
            match what {
                Some("HELP") => rest.trim_end_matches('.').clone_into(&mut help),
                Some("TYPE") => rest.clone_into(&mut kind),
                _ => {}
            }
        } else if let Some((name, labels, value)) = sample(line) {
            match kind.as_str() {
                "histogram" => add(&mut histograms, (&family, name), labels, value),
                _ => points.push(Point {
                    attributes: attributes(&labels),
                    start_time_unix_nano: span.start,
                    time_unix_nano: span.end,
                    as_double: Some(value),
                }),
            }
        }
    }
    finish(&family, &kind, &help, &mut points, &mut histograms);
    numbers
}

fn attributes(labels: &Labels) -> Vec<Attribute> {
    labels.iter().map(|(name, value)| Attribute::new(name, value)).collect()
}

/// `name{label="value",…} number`, maybe with an exemplar after it.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.trim_start().split(' ').next()?.parse().ok()?;
    Some((name, labels, value))
}

/// The labels, and what follows the brace that closes them.
fn labels(mut text: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches(',');
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let (mut value, mut letters) = (String::new(), rest.char_indices());
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter => letter,
                }),
                (_, letter) => value.push(letter),
            }
        };
        labels.push((name.to_owned(), value));
        text = &rest[end + 1..];
    }
}

#[expect(clippy::cast_possible_truncation, reason = "counts are whole numbers")]
fn add(
    histograms: &mut BTreeMap<Labels, Buckets>,
    (family, name): (&str, &str),
    mut labels: Labels,
    value: f64,
) {
    let bound = labels.iter().position(|(name, _)| name == "le").map(|at| labels.remove(at).1);
    let buckets = histograms.entry(labels).or_default();
    match (name.strip_prefix(family), bound.as_deref()) {
        (Some("_bucket"), Some("+Inf")) => buckets.at_most.push(value as u64),
        (Some("_bucket"), Some(bound)) => {
            buckets.bounds.push(bound.parse().unwrap_or(f64::MAX));
            buckets.at_most.push(value as u64);
        }
        (Some("_sum"), _) => buckets.sum = Some(value),
        (Some("_count"), _) => buckets.count = value as u64,
        _ => {}
    }
}

fn point_of(labels: Labels, buckets: Buckets, span: Span) -> HistogramPoint {
    let below = std::iter::once(0).chain(buckets.at_most.iter().copied());
    let counts = buckets.at_most.iter().zip(below).map(|(most, below)| most.saturating_sub(below));
    HistogramPoint {
        attributes: attributes(&labels),
        start_time_unix_nano: span.start,
        time_unix_nano: span.end,
        count: buckets.count,
        sum: buckets.sum,
        bucket_counts: counts.collect(),
        explicit_bounds: buckets.bounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP streams Streams that were opened.
# TYPE streams counter
streams_total 3
# TYPE hits unknown
hits{domain=\"a\\\"b\",key1=\"k\"} 7
hits{domain=\"c\"} 8
# TYPE seconds histogram
# HELP seconds How long.
seconds_bucket{face=\"grpc\",le=\"0.5\"} 2 # {trace_id=\"0af7\"} 0.4
seconds_bucket{face=\"grpc\",le=\"+Inf\"} 5
seconds_sum{face=\"grpc\"} 4.5
seconds_count{face=\"grpc\"} 5
# EOF
";

    /// A family without a help text is one of its own.
    #[test]
    fn families_stay_apart() {
        let numbers = of_text(TEXT, Span { start: 1, end: 2 });
        let of = |name: &str| {
            let found = numbers.iter().find(|number| number.name == name);
            found.unwrap_or_else(|| panic!("no {name}: {numbers:?}"))
        };
        assert_eq!(numbers.len(), 3);
        let (streams, hits, seconds) = (of("streams_total"), of("hits"), of("seconds"));
        let Some(Data::Sum(sum)) = &streams.data else { panic!("{streams:?}") };
        assert!(sum.is_monotonic);
        assert_eq!((sum.data_points.len(), sum.data_points[0].as_double), (1, Some(3.0)));
        let Some(Data::Gauge(gauge)) = &hits.data else { panic!("{hits:?}") };
        let values: Vec<_> = gauge.data_points.iter().map(|point| point.as_double).collect();
        assert_eq!((values, &*hits.description), (vec![Some(7.0), Some(8.0)], ""));
        let domain = Attribute::new("domain", "a\"b");
        assert_eq!(gauge.data_points[0].attributes, [domain, Attribute::new("key1", "k")]);
        let Some(Data::Histogram(histogram)) = &seconds.data else { panic!("{seconds:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum, &*seconds.description), (5, Some(4.5), "How long"));
        assert_eq!((&*point.bucket_counts, &*point.explicit_bounds), (&[2, 3][..], &[0.5][..]));
    }
}
