//! The rate limit service of Envoy as Rust, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/ratelimit.proto");
    let described = protox::compile(["proto/ratelimit.proto"], ["proto"])?;
    tonic_prost_build::configure().build_client(false).compile_fds(described)?;
    Ok(())
}
