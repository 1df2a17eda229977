//! Ten thousand idle connections to the real server: it still serves all clients,
//! and each idle client costs little memory.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives a real process")]

#[path = "crowd/server.rs"]
mod server;

use server::{Server, exchange};

#[test]
fn ten_thousand_idle_clients_cost_little_memory_and_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let arguments = ["serve", "--memory", "16MiB", "--data", data.to_str().unwrap()];
    let server = Server::start(directory.path(), &arguments);
    let mut idle = server.crowd(|client| exchange(client, "PING\r\n", "+PONG\r\n"));
    let mut busy = server.connect();
    for number in 0..1000 {
        exchange(&mut busy, &format!("SET key {number}\r\n"), "+OK\r\n");
    }
    for client in idle.iter_mut().step_by(997) {
        exchange(client, "PING\r\n", "+PONG\r\n");
    }
}
