//! A network of its own for a test: pods need addresses that are not those of a loopback interface.

use std::process::Command;

const INSIDE: &str = "CAPT_TEST_OWN_NETWORK";

/// Runs a test of this program again in a network of its own, where every address of 10.0.0.0/8 is this machine's. True
/// inside of it.
#[expect(clippy::disallowed_methods, reason = "a test that starts itself")]
pub(crate) fn in_own_network(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let script = "ip link set lo up && ip route add local 10.0.0.0/8 dev lo && exec \"$0\" \"$@\"";
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "/bin/sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status();
    let status = status.expect("unshare of util-linux");
    assert!(status.success(), "{test} in its own network: {status}");
    false
}
