//! What a confined process may do. Pure: no I/O.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// System files that every program may need: programs, libraries, certificates, name resolution. None contains a secret.
const SYSTEM_READ: &[&str] = &[
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/sbin",
    "/usr",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld-musl-aarch64.path",
    "/etc/ld-musl-x86_64.path",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/timezone",
    "/dev/random",
    "/dev/urandom",
    // The process's own directory: the link is followed by the process itself.
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
];

const SYSTEM_WRITE: &[&str] = &["/dev/full", "/dev/null", "/dev/zero"];

/// HTTPS, and DNS for answers that do not fit into a datagram.
const COMMON_PORTS: [u16; 2] = [443, 53];

/// The files and ports that a process may use. Paths that do not exist are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Confinement {
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
    connect: BTreeSet<u16>,
    #[serde(default)]
    connect_anywhere: bool,
    /// Directories of which nothing may become readable by accident, as a directory above them would.
    hidden: BTreeSet<PathBuf>,
}

impl Confinement {
    /// Allows what every program needs; `hidden` are directories that a path above them must never disclose.
    pub fn new(hidden: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
        Self {
            read: paths(SYSTEM_READ),
            write: paths(SYSTEM_WRITE),
            connect: COMMON_PORTS.into(),
            connect_anywhere: false,
            hidden: hidden.into_iter().collect(),
        }
    }

    /// Allows reading and executing a file, or everything below a directory. Ignored if it would disclose a hidden directory.
    #[must_use]
    pub fn read(mut self, path: &Path) -> Self {
        let discloses = self.hidden.iter().any(|hidden| hidden.starts_with(path));
        if path.is_absolute() && !discloses {
            self.read.insert(path.to_owned());
        }
        self
    }

    /// Allows everything with a file, or below a directory. Unlike with [`Self::read`], the caller answers for the path.
    #[must_use]
    pub fn write(mut self, path: &Path) -> Self {
        self.write.insert(path.to_owned());
        self
    }

    /// Allows TCP connections to a port of any address: Landlock does not know addresses.
    #[must_use]
    pub fn connect(mut self, port: u16) -> Self {
        self.connect.insert(port);
        self
    }

    /// Allows TCP connections to every port, and listening.
    #[must_use]
    pub fn connect_anywhere(self) -> Self {
        Self { connect_anywhere: true, ..self }
    }

    /// Whether TCP is not limited.
    pub fn may_connect_anywhere(&self) -> bool {
        self.connect_anywhere
    }

    /// Readable paths.
    pub fn readable(&self) -> impl Iterator<Item = &Path> {
        self.read.iter().map(PathBuf::as_path)
    }

    /// Writable paths.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        self.write.iter().map(PathBuf::as_path)
    }

    /// Ports of TCP connections.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.connect.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_above_a_hidden_directory_is_not_readable() {
        let policy = Confinement::new([PathBuf::from("/var/lib/capt")])
            .read(Path::new("/"))
            .read(Path::new("/var/lib"))
            .read(Path::new("/var/lib/capt"))
            .read(Path::new("relative"))
            .read(Path::new("/var/lib/capt/cli.tfrc"));
        let added: Vec<_> =
            policy.readable().filter(|path| path.starts_with("/var") || path == &Path::new("/")).collect();
        assert_eq!(added, [Path::new("/var/lib/capt/cli.tfrc")]);
        assert!(policy.readable().all(Path::is_absolute));
    }

    #[test]
    fn nothing_that_everybody_may_read_holds_a_secret() {
        for path in SYSTEM_READ {
            for secret in
                ["/var/run/secrets", "/run/secrets", "/proc/1", "/root", "/home", "/tmp", "/etc/shadow"]
            {
                assert!(!Path::new(secret).starts_with(path), "{path}");
            }
        }
    }
}
