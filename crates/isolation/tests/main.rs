//! A confined thread tries to leave: Landlock and seccomp restrict the calling thread and what it starts, so no wrapper is needed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts processes")]

use std::{
    fs,
    io::ErrorKind,
    net::{TcpListener, TcpStream},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use isolation::{Confinement, KernelSupport, MIN_LANDLOCK_ABI, enforce, probe};
use rustix::{
    net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with},
    process::{Pid, Signal, kill_process},
};

/// ABI that restricts signals and abstract sockets.
const SCOPES_ABI: i32 = 6;

/// A tenant's directory, another's, and a process with a secret.
struct World {
    dir: tempfile::TempDir,
    operator: Child,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ours", "theirs"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("terraform.tfstate"), name).unwrap();
        }
        let operator = Command::new("sleep").arg("600").env("SECRET", "hunter2").spawn().unwrap();
        Self { dir, operator }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn policy(&self) -> Confinement {
        Confinement::new([self.dir.path().to_owned()]).write(&self.path("ours"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.operator.kill().unwrap();
        self.operator.wait().unwrap();
    }
}

/// Runs `attempt` in a confined thread; none on a kernel that cannot confine it.
fn confined<T: Send + 'static>(
    policy: Confinement,
    abi: i32,
    attempt: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let KernelSupport { landlock_abi, seccomp } = probe();
    if landlock_abi.is_none_or(|ours| ours < abi) || !seccomp {
        eprintln!("skipped: needs Landlock ABI {abi} and seccomp, this kernel has {}", probe());
        return None;
    }
    let thread = std::thread::spawn(move || {
        enforce(&policy).unwrap();
        attempt()
    });
    Some(thread.join().unwrap())
}

fn refused<T: std::fmt::Debug>(outcome: std::io::Result<T>) {
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

fn shell(script: &str) -> bool {
    Command::new("/bin/sh").args(["-c", script]).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn c1_a_confined_process_works_in_its_own_directory() {
    let world = World::new();
    let ours = world.path("ours");
    let worked = confined(world.policy(), MIN_LANDLOCK_ABI, move || {
        fs::write(ours.join("new"), "x").unwrap();
        fs::rename(ours.join("new"), ours.join("renamed")).unwrap();
        let _socket = UnixListener::bind(ours.join("plugin.sock")).unwrap();
        UnixStream::connect(ours.join("plugin.sock")).unwrap();
        fs::read_to_string("/proc/self/status").unwrap();
        std::thread::spawn(|| ()).join().unwrap();
        // A child, with the fallback from `clone3`.
        shell(&format!(
            "cat {0}/renamed && echo y > {0}/script && sh {0}/renamed >/dev/null 2>&1; true",
            ours.display()
        ))
    });
    assert!(worked.unwrap_or(true));
}

#[test]
fn c1_a_confined_process_reads_and_writes_nothing_of_others() {
    let world = World::new();
    let (theirs, data) = (world.path("theirs"), world.path(""));
    confined(world.policy(), MIN_LANDLOCK_ABI, move || {
        refused(fs::read(theirs.join("terraform.tfstate")));
        refused(fs::read_dir(&theirs));
        refused(fs::read_dir(&data));
        refused(fs::write(theirs.join("terraform.tfstate"), "x"));
        refused(fs::remove_file(theirs.join("terraform.tfstate")));
        refused(fs::write(data.join("new"), "x"));
        refused(fs::read_dir("/"));
        assert!(!shell(&format!("cat {}", theirs.join("terraform.tfstate").display())), "nor does a child");
        let link = data.join("ours/link");
        std::os::unix::fs::symlink(theirs.join("terraform.tfstate"), &link).unwrap();
        refused(fs::read(&link));
        fs::hard_link(theirs.join("terraform.tfstate"), data.join("ours/hard")).unwrap_err();
    });
    assert_eq!(fs::read(world.path("theirs/terraform.tfstate")).unwrap(), b"theirs");
}

#[test]
fn c1_a_confined_process_sees_no_environment_of_others() {
    let world = World::new();
    let proc = PathBuf::from(format!("/proc/{}", world.operator.id()));
    assert!(String::from_utf8_lossy(&fs::read(proc.join("environ")).unwrap()).contains("hunter2"));
    confined(world.policy(), MIN_LANDLOCK_ABI, move || {
        for name in ["environ", "cmdline", "maps", "mem"] {
            refused(fs::File::open(proc.join(name)));
        }
        refused(fs::read_dir("/proc"));
        refused(fs::read_dir(proc.join("root")));
    });
}

#[test]
fn c1_a_confined_process_connects_to_permitted_ports_only() {
    let world = World::new();
    let [allowed, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [open, closed] = [&allowed, &other].map(|it| it.local_addr().unwrap());
    confined(world.policy().connect(open.port()), MIN_LANDLOCK_ABI, move || {
        TcpStream::connect(open).unwrap();
        refused(TcpStream::connect(closed));
        refused(TcpListener::bind("127.0.0.1:0"));
        // It connects to TCP servers, and Landlock does not see it.
        let multipath =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::MPTCP));
        assert_eq!(multipath.unwrap_err(), rustix::io::Errno::PERM);
    });
}

#[test]
fn c1_a_confined_process_signals_its_own_children_only() {
    let world = World::new();
    let operator = Pid::from_child(&world.operator);
    confined(world.policy(), SCOPES_ABI, move || {
        assert_eq!(kill_process(operator, Signal::TERM).unwrap_err(), rustix::io::Errno::PERM);
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn c1_a_confined_process_does_not_reach_abstract_sockets_of_others() {
    let world = World::new();
    let name = format!("capt-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    UnixStream::connect_addr(&address).unwrap();
    confined(world.policy(), SCOPES_ABI, move || refused(UnixStream::connect_addr(&address)));
}

#[test]
fn c1_a_confined_process_makes_no_namespace_and_gains_no_rights() {
    let world = World::new();
    if !Path::new("/usr/bin/unshare").exists() {
        eprintln!("skipped: there is no unshare");
        return;
    }
    confined(world.policy(), MIN_LANDLOCK_ABI, || {
        assert!(!shell("unshare --user true") && !shell("unshare --mount true"));
    });
}
