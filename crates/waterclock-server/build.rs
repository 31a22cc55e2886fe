//! Turns the protocol files into code, without a protocol compiler on the machine.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost_types::DescriptorProto;
use prost_types::field_descriptor_proto::Type;

/// The services, each with what it imports.
const SERVICES: [&str; 4] = [
    "envoy/service/ratelimit/v3/rls.proto",
    "envoy/service/rate_limit_quota/v3/rlqs.proto",
    "kuadrant/service/ratelimit/v1/ratelimit.proto",
    "waterclock/v1/rate_limiter.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true);
    for file in SERVICES {
        compiler.open_file(file)?;
    }
    // What reflection tells; the comments in it would only make it larger.
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("rls.bin"), compiler.encode_file_descriptor_set())?;
    // What this server asks of others is no part of that.
    compiler.open_file("envoy/service/discovery/v3/discovery.proto")?;
    compiler.open_file("ratelimit/config/ratelimit/v3/rls_conf.proto")?;
    let mut files = compiler.file_descriptor_set();
    files.file.iter_mut().flat_map(|file| &mut file.message_type).for_each(take_values_as_bytes);
    tonic_prost_build::configure()
        // Callers bring a channel of their own.
        .build_transport(false)
        // Calls are read and answered in `face/grpc/call.rs`, with a bound on everything.
        .build_server(false)
        // Answers are the same bytes whenever they say the same.
        .btree_map(".waterclock")
        // In the order of their keys, which is what tells two ids apart.
        .btree_map(".envoy.service.rate_limit_quota.v3.BucketId")
        .type_attribute(".envoy.service.rate_limit_quota.v3.BucketId", "#[derive(Eq, Hash)]")
        .include_file("messages.rs")
        .compile_fds(files)?;
    Ok(())
}

/// Values of descriptors come from clients of the proxy, which need not send UTF-8. As a string, such a value would be
/// an error, and proxies admit on errors. On the wire, both are the same.
fn take_values_as_bytes(message: &mut DescriptorProto) {
    if matches!(message.name(), "RateLimitDescriptor" | "BucketId") {
        let is_entry =
            |nested: &&mut DescriptorProto| matches!(nested.name(), "Entry" | "BucketEntry");
        let entries = message.nested_type.iter_mut().filter(is_entry);
        let fields = entries.flat_map(|entry| &mut entry.field);
        fields
            .filter(|field| field.name() == "value")
            .for_each(|value| value.set_type(Type::Bytes));
    }
}
