//! Waterclock among programs that others wrote: proxies that ask it, clients that talk to it. They run
//! the files in `deploy/` as they are, with other ports.
//!
//! `scripts/peers` installs what is needed; a test fails where something is missing.

mod background;
mod browser;
mod caddy;
#[path = "../../../waterclock-server/tests/server/certificates.rs"]
#[allow(dead_code, reason = "shared with the tests of the server")]
mod certificates;
#[path = "../../../waterclock-server/tests/server/xds/control_plane.rs"]
#[allow(dead_code, reason = "shared with the tests of the server")]
mod control_plane;
mod dashboard;
mod deployed;
mod edge;
mod envoy;
mod envoy_gateway;
mod envoy_gateway_xds;
mod envoy_quota;
mod forge;
mod installed;
mod istio;
mod kubernetes;
mod metrics;
mod migrate;
mod nginx;
mod node_clients;
mod openapi;
mod origin;
#[path = "../../../waterclock-server/tests/server/patience.rs"]
#[allow(dead_code, reason = "shared with the tests of the server")]
mod patience;
mod python_client;
mod redis_tools;
mod report;
mod script;
mod server;
mod traefik;
mod visitor;
mod webdriver;
mod yaml;
