//! A network of its own for a test: pods need addresses that are not those of a loopback interface.

use std::{fs, net::SocketAddr, process::Command};

/// Names the file that the inner run writes, so that a filter that matches no test does not pass.
const INSIDE: &str = "CAPT_TEST_OWN_NETWORK";

/// Runs a test of this binary again in its own network namespace, where every address of 10.0.0.0/8 is local. Returns true
/// inside of it. `test` is the full path of the test: `suite::module::function`.
#[expect(clippy::disallowed_methods, reason = "a test that starts itself")]
pub(crate) fn in_own_network(test: &str) -> bool {
    if let Some(proof) = std::env::var_os(INSIDE) {
        fs::write(proof, test).unwrap();
        return true;
    }
    let dir = tempfile::tempdir().unwrap();
    let proof = dir.path().join("ran");
    let script = "ip link set lo up && ip route add local 10.0.0.0/8 dev lo && exec \"$0\" \"$@\"";
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "/bin/sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, &proof)
        .status();
    let status = status.expect("unshare of util-linux");
    assert!(status.success(), "{test} in its own network: {status}");
    assert_eq!(
        fs::read_to_string(proof).unwrap_or_default(),
        test,
        "the inner run executed no test of this name"
    );
    false
}

/// Where the nth router listens: for the service, for itself, for people, for agents. Each test that has one has a network of
/// its own, and nobody there is given a port below those that the kernel chooses.
pub(crate) fn ports(nth: u16) -> [SocketAddr; 4] {
    std::array::from_fn(|at| {
        SocketAddr::from(([127, 0, 0, 1], 18_000 + nth * 10 + u16::try_from(at).unwrap()))
    })
}
