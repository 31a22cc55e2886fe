//! The environment variables of Envoy's reference rate limit service: those that mean something here, and those that do
//! not, with why.

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use waterclock_config::quoted;

use crate::output::Failure;

/// The variables that are set, by name.
pub(super) struct Environment(BTreeMap<String, String>);

/// Variables that are read.
const READ: &[&str] = &[
    "CONFIG_TYPE",
    "CONFIG_GRPC_XDS_NODE_ID",
    "CONFIG_GRPC_XDS_NODE_METADATA",
    "CONFIG_GRPC_XDS_SERVER_URL",
    "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
    "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
    "CONFIG_GRPC_XDS_SERVER_USE_TLS",
    "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
    "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
    "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
    "CONFIG_GRPC_XDS_SERVER_TLS_SAN",
    "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
    "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
    "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
    "FORCE_START_WITHOUT_INITIAL_CONFIG",
    "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
    "MERGE_DOMAIN_CONFIG",
    "RUNTIME_ROOT",
    "RUNTIME_SUBDIRECTORY",
    "RUNTIME_APPDIRECTORY",
    "RUNTIME_IGNOREDOTFILES",
    "HOST",
    "PORT",
    "GRPC_HOST",
    "GRPC_PORT",
    "DEBUG_HOST",
    "DEBUG_PORT",
    "GRPC_SERVER_USE_TLS",
    "GRPC_SERVER_TLS_CERT",
    "GRPC_SERVER_TLS_KEY",
    "GRPC_CLIENT_TLS_CACERT",
    "LOG_LEVEL",
    "LOG_FORMAT",
    "USE_PROMETHEUS",
    "PROMETHEUS_ADDR",
    "PROMETHEUS_PATH",
    "REDIS_URL",
    "REDIS_TYPE",
    "REDIS_SOCKET_TYPE",
    "REDIS_AUTH",
    "REDIS_TLS",
    "REDIS_TLS_CACERT",
    "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
    "SHADOW_MODE",
    "QUOTA_MODE",
    "RESPONSE_DYNAMIC_METADATA",
    "LIMIT_RESPONSE_HEADERS_ENABLED",
    "LIMIT_LIMIT_HEADER",
    "LIMIT_REMAINING_HEADER",
    "LIMIT_RESET_HEADER",
    "NEAR_LIMIT_RATIO",
    "XDS_KEEP_FILE",
];

/// Variables without a meaning here: how their names begin, and why.
const UNUSED: &[(&str, &str)] = &[
    ("USE_STATSD", "metrics are read from /metrics"),
    ("STATSD_", "metrics are read from /metrics"),
    ("USE_DOG_STATSD", "metrics are read from /metrics"),
    ("DOG_STATSD_", "metrics are read from /metrics"),
    ("STATS_FLUSH_INTERVAL", "metrics are read from /metrics"),
    ("EXTRA_TAGS", "Prometheus adds labels itself"),
    ("DISABLE_STATS", "metrics cost nothing until they are read"),
    ("PROMETHEUS_MAPPER_YAML", "metrics have the names of the usual mapping already"),
    ("PROMETHEUS_RESPONSE_TIME", "durations are in seconds"),
    ("RUNTIME_WATCH_ROOT", "changes are noticed wherever links are"),
    ("REDIS_PERSECOND", "one Redis counts all units"),
    ("REDIS_POOL_", "a few connections carry all calls"),
    ("REDIS_PIPELINE_", "calls are pipelined always"),
    ("REDIS_CLUSTER_PIPELINE", "calls are pipelined always"),
    ("REDIS_TIMEOUT", "a call that Envoy no longer waits for is given up after 15 ms"),
    ("REDIS_STARTUP_", "the server starts without Redis, and connects later"),
    ("REDIS_TLS_CLIENT_", "client certificates for Redis are not supported"),
    ("REDIS_TLS_SKIP_HOSTNAME", "certificates are always checked"),
    ("REDIS_SENTINEL_AUTH", "sentinels are asked without a password"),
    ("LOCAL_CACHE_SIZE", "refused keys are remembered without a setting"),
    ("EXPIRATION_JITTER", "keys expire when their window ends"),
    ("CACHE_KEY_PREFIX", "keys have a prefix of their own; use another database of Redis"),
    ("STOP_CACHE_KEY_INCREMENT", "refused requests are counted"),
    ("GRPC_MAX_CONNECTION_AGE", "connections end when the server drains"),
    ("GRPC_UDS", "sockets of the file system are not supported"),
    ("GRPC_CLIENT_TLS_SAN", "any certificate of GRPC_CLIENT_TLS_CACERT is enough"),
    ("GRPC_SERVER_TLS_CA_CERT", "the reference service does not read it either"),
    ("XDS_CLIENT_BACKOFF_", "the wait is a random share of an interval that doubles"),
    ("BACKEND_TYPE", "only Redis is supported"),
    ("MEMCACHE_", "only Redis is supported"),
    ("TRACING_", "see OTEL_EXPORTER_OTLP_ENDPOINT"),
];

impl Environment {
    pub(super) fn of_process() -> Environment {
        let text = |(name, value): (_, std::ffi::OsString)| {
            let name: std::ffi::OsString = name;
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment(
            env::vars_os().filter_map(text).filter(|(_, value)| !value.is_empty()).collect(),
        )
    }

    /// One line about the variables that are set and mean nothing here; `None` if there are none.
    pub(super) fn unused(&self) -> Option<String> {
        let why = |name: &String| {
            let is_read = READ.contains(&name.as_str());
            let known = UNUSED.iter().find(|(begins, _)| name.starts_with(begins));
            known.filter(|_| !is_read).map(|(_, why)| format!("{name} ({why})"))
        };
        let unused: Vec<String> = self.0.keys().filter_map(why).collect();
        (!unused.is_empty()).then(|| format!("ignored: {}", unused.join(", ")))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        debug_assert!(READ.contains(&name), "{name} must be listed");
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn text_or<'e>(&'e self, name: &str, otherwise: &'e str) -> &'e str {
        self.text(name).unwrap_or(otherwise)
    }

    /// As Go reads it.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Failure> {
        match self.text(name) {
            None => Ok(false),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
            Some(other) => Err(must_be(name, "true or false", other)),
        }
    }

    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| must_be(name, "a number", text))
    }

    /// As Go writes durations: `10s`, `1m30s`, `500ms`.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        go_duration(text).map(Some).ok_or_else(|| must_be(name, "a duration such as 10s", text))
    }

    /// `name=value` pairs, separated by commas.
    pub(super) fn pairs(&self, name: &str, separator: char) -> Vec<(String, String)> {
        let pair = |text: &str| {
            let (name, value) = text.split_once(separator)?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        self.text(name).unwrap_or_default().split(',').filter_map(pair).collect()
    }
}

fn must_be(name: &str, what: &str, found: &str) -> Failure {
    Failure::from(format!("{name} must be {what}; found {}", quoted(found)))
}

fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units = [
            ("ms", 0.001),
            ("us", 0.000_001),
            ("ns", 1e-9),
            ("h", 3_600.0),
            ("m", 60.0),
            ("s", 1.0),
        ];
        let (unit, seconds) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = &rest[unit.len()..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Environment {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Environment(pairs.iter().map(pair).collect())
    }

    #[test]
    fn durations_as_go_writes_them() {
        for (text, millis) in
            [("10s", 10_000), ("1m30s", 90_000), ("500ms", 500), ("1.5h", 5_400_000)]
        {
            assert_eq!(go_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "10x", "-1s"] {
            assert_eq!(go_duration(text), None, "{text}");
        }
    }

    #[test]
    fn variables_without_a_meaning_are_named_once() {
        let all = set(&[
            ("USE_STATSD", "false"),
            ("REDIS_URL", "h:1"),
            ("REDIS_PERSECOND_URL", "h:2"),
            ("XDS_CLIENT_BACKOFF_JITTER", "1s"),
            ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "1s"),
            ("PATH", "/bin"),
        ]);
        let line = all.unused().unwrap();
        assert!(line.starts_with("ignored: REDIS_PERSECOND_URL (one Redis"), "{line}");
        assert!(line.contains("USE_STATSD") && line.contains("BACKOFF_JITTER"), "{line}");
        assert!(!line.contains("MAX_INTERVAL") && !line.contains("PATH"), "{line}");
        assert_eq!(set(&[("REDIS_URL", "h:1")]).unused(), None);
        assert!(set(&[("SHADOW_MODE", "yes")]).flag("SHADOW_MODE").is_err());
    }
}
