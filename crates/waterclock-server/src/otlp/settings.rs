//! The standard variables of OpenTelemetry.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

/// Where to send what.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) traces: Option<Target>,
    pub(super) metrics: Option<Target>,
    /// Attributes of this server.
    pub(super) resource: Vec<(String, String)>,
    /// Between two exports of metrics.
    pub(super) interval: Duration,
    /// How long a span waits for others, and how many wait or go together.
    pub(super) delay: Duration,
    pub(super) queue: usize,
    pub(super) batch: usize,
}

/// A collector, for one kind of data.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) authority: String,
    pub(super) path: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) timeout: Duration,
}

/// The most spans that wait, whatever the variable says.
const MAX_QUEUE: usize = 65_536;

impl Settings {
    /// From the environment; `None` if no collector is named, or all is disabled.
    ///
    /// # Errors
    ///
    /// A sentence that names the variable.
    pub fn from_env() -> Result<Option<Settings>, String> {
        Settings::read(|name| std::env::var(name).ok())
    }

    /// The same with other variables.
    ///
    /// # Errors
    ///
    /// A sentence that names the variable.
    pub fn read(var: impl Fn(&str) -> Option<String>) -> Result<Option<Settings>, String> {
        // An empty variable is as good as none.
        let var =
            |name: &str| var(name).map(|text| text.trim().to_owned()).filter(|t| !t.is_empty());
        if var("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let (traces, metrics) = (target(&var, "TRACES")?, target(&var, "METRICS")?);
        let traces = traces.filter(|_| follows_callers(&var));
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let many = |name: &str, default: usize| {
            number(&var, name, default as u64)
                .map(|n| usize::try_from(n).unwrap_or(MAX_QUEUE).clamp(1, MAX_QUEUE))
        };
        let millis = |name: &str, default| number(&var, name, default).map(Duration::from_millis);
        let queue = many("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)?;
        Ok(Some(Settings {
            traces,
            metrics,
            resource: resource(&var)?,
            interval: millis("OTEL_METRIC_EXPORT_INTERVAL", 60_000)?.max(Duration::from_millis(10)),
            delay: millis("OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
            queue,
            batch: many("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?.min(queue),
        }))
    }
}

/// Whether a caller's flag may begin a span: there is no other reason for one.
fn follows_callers(var: &impl Fn(&str) -> Option<String>) -> bool {
    let propagators = var("OTEL_PROPAGATORS").unwrap_or_else(|| "tracecontext".to_owned());
    let reads_flag = propagators.split(',').any(|name| name.trim() == "tracecontext");
    reads_flag && var("OTEL_TRACES_SAMPLER").as_deref() != Some("always_off")
}

fn target(var: &impl Fn(&str) -> Option<String>, signal: &str) -> Result<Option<Target>, String> {
    // The variable of one kind of data goes before that of all.
    let either = |name: &str| {
        let (own, all) =
            (format!("OTEL_EXPORTER_OTLP_{signal}_{name}"), format!("OTEL_EXPORTER_OTLP_{name}"));
        var(&own).map(|text| (own, text)).or_else(|| var(&all).map(|text| (all, text)))
    };
    let exporter = format!("OTEL_{signal}_EXPORTER");
    match var(&exporter).as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(None),
        Some(other) => return Err(format!("{exporter} is `{other}`; set it to otlp or none")),
    }
    let Some((name, endpoint)) = either("ENDPOINT") else { return Ok(None) };
    if let Some((name, protocol)) = either("PROTOCOL").filter(|(_, text)| text != "http/protobuf") {
        return Err(format!("{name} is `{protocol}`; only http/protobuf is supported"));
    }
    let wrong =
        || format!("{name} is `{endpoint}`; set it to an address such as http://127.0.0.1:4318");
    let uri: Uri = endpoint.parse().map_err(|_| wrong())?;
    if uri.scheme_str() == Some("https") {
        return Err(format!(
            "{name} is an https address; send to a collector on this machine or in this pod instead"
        ));
    }
    let authority =
        uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(wrong)?;
    let port = authority.port_u16().unwrap_or(80);
    let path = match name.contains(signal) {
        true => uri.path().to_owned(),
        false => format!("{}/v1/{}", uri.path().trim_end_matches('/'), signal.to_lowercase()),
    };
    let timeout = either("TIMEOUT").map(|(name, text)| millis_of(&name, &text)).transpose()?;
    Ok(Some(Target {
        authority: format!("{}:{port}", authority.host()),
        path,
        headers: either("HEADERS").map_or(Ok(Vec::new()), |(name, text)| headers(&name, &text))?,
        timeout: Duration::from_millis(timeout.unwrap_or(10_000).max(1)),
    }))
}

fn millis_of(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name} is `{text}`; set it to a whole number"))
}

fn number(var: &impl Fn(&str) -> Option<String>, name: &str, default: u64) -> Result<u64, String> {
    var(name).map_or(Ok(default), |text| millis_of(name, &text))
}

/// `key=value,key=value`; the error does not show values, which may be secrets.
fn pairs<'t>(name: &str, text: &'t str) -> Result<Vec<(&'t str, String)>, String> {
    let pair = |pair: &'t str| {
        let (key, value) = pair.split_once('=')?;
        let value = percent_decoded(value.trim());
        Some((key.trim(), value)).filter(|(key, _)| !key.is_empty())
    };
    let all: Option<Vec<_>> =
        text.split(',').filter(|text| !text.trim().is_empty()).map(pair).collect();
    all.ok_or_else(|| format!("{name} must be key=value pairs with commas between them"))
}

fn percent_decoded(text: &str) -> String {
    form_urlencoded::parse(
        text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D").as_bytes(),
    )
    .next()
    .map_or_else(String::new, |(decoded, _)| decoded.into_owned())
}

fn headers(name: &str, text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let header = |(key, value): (&str, String)| {
        let parsed = (key.parse::<HeaderName>().ok(), HeaderValue::from_str(&value).ok());
        let (Some(key), Some(value)) = parsed else {
            return Err(format!("{name}: `{key}` is no header field"));
        };
        Ok((key, value))
    };
    pairs(name, text)?.into_iter().map(header).collect()
}

fn resource(var: &impl Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, String> {
    const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
    const SERVICE: &str = "service.name";
    let text = var(NAME).unwrap_or_default();
    let mut resource: Vec<(String, String)> =
        pairs(NAME, &text)?.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    if let Some(service) = var("OTEL_SERVICE_NAME") {
        resource.retain(|(key, _)| key != SERVICE);
        resource.push((SERVICE.to_owned(), service));
    }
    if resource.iter().all(|(key, _)| key != SERVICE) {
        resource.push((SERVICE.to_owned(), "waterclock".to_owned()));
    }
    Ok(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        Settings::read(|name| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn off_unless_a_collector_is_named() {
        const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/x/");
        for vars in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "x")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
        ] {
            assert!(read(vars).unwrap().is_none(), "{vars:?}");
        }
        let settings =
            read(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%20c,d=e=f")]).unwrap().unwrap();
        let (traces, metrics) = (settings.traces.unwrap(), settings.metrics.unwrap());
        assert_eq!((&*traces.authority, &*traces.path), ("c:4318", "/x/v1/traces"));
        assert_eq!(metrics.path, "/x/v1/metrics");
        assert_eq!(
            (&traces.headers[0].1, &traces.headers[1].1),
            (&HeaderValue::from_static("b c"), &HeaderValue::from_static("e=f"))
        );
        let one =
            read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/own")]).unwrap().unwrap();
        assert_eq!(one.traces.unwrap().path, "/own");
        assert!(one.metrics.is_none());
    }

    #[test]
    fn spans_need_callers_that_are_followed() {
        let traces = |name, value| {
            let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
            let settings = read(&[endpoint, (name, value)]).unwrap().unwrap();
            assert!(settings.metrics.is_some());
            settings.traces.is_some()
        };
        assert!(traces("OTEL_PROPAGATORS", "b3, tracecontext"));
        assert!(!traces("OTEL_PROPAGATORS", "b3"));
        assert!(!traces("OTEL_PROPAGATORS", "none"));
        assert!(traces("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"));
        assert!(!traces("OTEL_TRACES_SAMPLER", "always_off"));
    }

    #[test]
    fn mistakes_name_the_variable() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        for (vars, says) in [
            (
                vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")],
                "OTEL_EXPORTER_OTLP_ENDPOINT is `c:4318`",
            ),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c")], "is an https address"),
            (vec![endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "only http/protobuf"),
            (
                vec![endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")],
                "OTEL_TRACES_EXPORTER is `zipkin`",
            ),
            (vec![endpoint, ("OTEL_METRIC_EXPORT_INTERVAL", "1s")], "OTEL_METRIC_EXPORT_INTERVAL"),
            (
                vec![endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")],
                "OTEL_EXPORTER_OTLP_HEADERS must",
            ),
        ] {
            let error = read(&vars).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let secret = [endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "a b=hidden")];
        assert!(!read(&secret).unwrap_err().contains("hidden"));
    }
}
