//! What a control plane pushes: raw bytes and configurations made of them, from the message to what limits a descriptor.

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::Corpus;
use prost::Message;
use prost_types::Any;
use waterclock_server::envoy::DiscoveryResponse;
use waterclock_server::envoy::reference::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitReplace,
};
use waterclock_server::observe::Face;
use waterclock_server::reference::Descriptor;

use crate::server::Scene;

const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

thread_local! {
    static SCENE: Scene = Scene::new(Face::Grpc);
}

pub fn run(data: &[u8]) -> Corpus {
    let Some((kind, bytes)) = data.split_first() else { return Corpus::Reject };
    let resource = |value| Any { type_url: TYPE_URL.to_owned(), value };
    let resources = match kind % 4 {
        0 => return push(bytes, *kind),
        1 => vec![resource(bytes.to_vec())],
        _ => {
            let mut from = Unstructured::new(bytes);
            let Ok(first) = config(&mut from) else { return Corpus::Reject };
            let second = config(&mut from).ok();
            let both = std::iter::once(first).chain(second);
            both.map(|config| resource(config.encode_to_vec())).collect()
        }
    };
    let response =
        DiscoveryResponse { type_url: TYPE_URL.to_owned(), resources, ..Default::default() };
    push(&response.encode_to_vec(), *kind)
}

fn push(message: &[u8], kind: u8) -> Corpus {
    SCENE.with(|scene| {
        let _runtime = scene.runtime.enter();
        match scene.faces.xds(message, kind >= 128) {
            Ok(pushed) => {
                assert!(DiscoveryResponse::decode(message).is_ok());
                for domain in &*pushed.domains {
                    let found = |path: &[(&str, &[u8])]| pushed.limits(&domain.name, path);
                    each_path(&domain.descriptors, &mut Vec::new(), &found);
                }
            }
            Err(why) => assert!(!why.is_empty() && !why.contains('\n'), "{why:?}"),
        }
    });
    Corpus::Keep
}

/// A descriptor of exact values is limited just where the configuration has a limit for it.
fn each_path<'d>(
    descriptors: &'d [Descriptor],
    before: &mut Vec<(&'d str, &'d [u8])>,
    limits: &dyn Fn(&[(&str, &[u8])]) -> bool,
) {
    for descriptor in descriptors {
        if descriptor.value.is_empty() || descriptor.value.contains('*') {
            continue;
        }
        before.push((&descriptor.key, descriptor.value.as_bytes()));
        assert_eq!(limits(before), descriptor.limit.is_some(), "{before:?}");
        each_path(&descriptor.below, before, limits);
        before.pop();
    }
}

fn config(from: &mut Unstructured<'_>) -> Result<RateLimitConfig> {
    let domain = (*from.choose(&["d", "e", ""])?).to_owned();
    let mut left = 12;
    let descriptors = level(from, &mut left)?;
    Ok(RateLimitConfig { name: String::new(), domain, descriptors })
}

fn level(from: &mut Unstructured<'_>, left: &mut u32) -> Result<Vec<RateLimitDescriptor>> {
    let mut all = Vec::new();
    for _ in 0..from.int_in_range(0..=3)? {
        if *left == 0 {
            break;
        }
        *left -= 1;
        let limited = from.ratio(2, 3)?;
        let mut descriptor = RateLimitDescriptor {
            key: (*from.choose(&["a", "b", "c", ""])?).to_owned(),
            value: (*from.choose(&["", "x", "y", "z", "x*", "*", "*y", "a*b*c"])?).to_owned(),
            shadow_mode: from.ratio(1, 8)?,
            quota_mode: from.ratio(1, 8)?,
            ..Default::default()
        };
        if limited {
            let unlimited = from.ratio(1, 6)?;
            let replaced = from.ratio(1, 6)?;
            descriptor.rate_limit = Some(RateLimitPolicy {
                unit: if unlimited { 0 } else { from.int_in_range(0..=8)? },
                requests_per_unit: from.arbitrary()?,
                unlimited,
                name: (*from.choose(&["", "one", "p"])?).to_owned(),
                replaces: match replaced {
                    true => {
                        vec![RateLimitReplace { name: (*from.choose(&["one", "two"])?).to_owned() }]
                    }
                    false => Vec::new(),
                },
            });
        }
        descriptor.descriptors = if from.ratio(1, 3)? { level(from, left)? } else { Vec::new() };
        all.push(descriptor);
    }
    Ok(all)
}
