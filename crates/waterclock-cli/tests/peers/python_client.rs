//! redis-py, as applications use it: what it expects is written in its script.

use crate::installed::peer;
use crate::script;
use crate::server::Server;

#[test]
fn redis_py() {
    let server = Server::start();
    for protocol in ["2", "3"] {
        let mut python = peer("python/bin/python");
        python.arg(script::path("redis_py.py")).args([&server.resp.to_string(), protocol]);
        script::run(&mut python);
    }
    server.stop();
}
