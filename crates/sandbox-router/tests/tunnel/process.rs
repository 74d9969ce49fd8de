//! An agent in its own process: this test binary, switched by environment variables.

use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio_util::sync::CancellationToken;

use super::rig::{Running, config, quick};

const GATEWAY: &str = "TUNNEL_TEST_GATEWAY";
const MAPPING: &str = "TUNNEL_TEST_MAPPING";

/// Ends with the test.
pub(crate) struct Process(Child);

impl Process {
    #[expect(clippy::disallowed_methods, reason = "a process that can be stopped as a laptop is")]
    pub(crate) fn start(gateway: SocketAddr, mapping: &str) -> Self {
        let me = std::env::current_exe().unwrap();
        let child = Command::new(me)
            .args(["--exact", "tunnel::process::be_an_agent", "--ignored"])
            .env(GATEWAY, gateway.to_string())
            .env(MAPPING, mapping)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.0.kill();
        self.0.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "other tests start it"]
#[expect(clippy::disallowed_methods, reason = "they tell it what to do by its environment")]
async fn be_an_agent() {
    let Ok(gateway) = std::env::var(GATEWAY) else { return };
    let mapping = std::env::var(MAPPING).unwrap();
    let mut agent = Running::start(config(&quick(), "process", &[mapping]), "ann", gateway.parse().unwrap());
    CancellationToken::new().run_until_cancelled(agent.end()).await;
}
