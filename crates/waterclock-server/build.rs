//! Turns the protocol files into code, without a protocol compiler on the machine.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("envoy/service/ratelimit/v3/rls.proto")?;
    // What reflection tells; the comments in it would only make it larger.
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("rls.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        // Callers bring a channel of their own.
        .build_transport(false)
        .include_file("messages.rs")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
