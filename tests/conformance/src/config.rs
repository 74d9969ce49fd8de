//! What the suite is asked to do: the only reader of the environment and of the arguments.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Which servers are asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Servers {
    /// Both, as far as they are there.
    #[default]
    Both,
    /// The real one alone.
    Real,
    /// The embedded one alone, against the recordings.
    Embedded,
}

/// Settings of one run.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct Settings {
    /// Cases whose `area/name` contains one of these; all where empty.
    pub filters: Vec<String>,
    /// Print the names of the cases and stop.
    pub list: bool,
    /// Rewrite the recordings and docs/conformance.md.
    pub record: bool,
    /// Which servers to ask.
    pub servers: Servers,
    /// Ask the embedded server without a socket.
    pub in_process: bool,
    /// A missing real server is a failure.
    pub require_real: bool,
    /// Where the binaries of the real server are, if they are.
    pub real_bin: Option<PathBuf>,
    /// Cases at the same time.
    pub parallelism: usize,
}

impl Settings {
    /// Reads the environment and the arguments. Flags that the default harness knows are accepted and ignored.
    #[expect(clippy::disallowed_methods, reason = "config is the reader of the environment")]
    pub fn read() -> Self {
        let is_set = |name: &str| env::var(name).is_ok_and(|value| !value.is_empty() && value != "0");
        let mut settings = Self {
            record: is_set("CONFORMANCE_RECORD"),
            require_real: is_set("CONFORMANCE_REQUIRE_REAL"),
            real_bin: real_bin(env::var_os("CAPT_REAL_KUBE"), env::var_os("CAPT_CACHE")),
            parallelism: 10,
            ..Self::default()
        };
        for argument in env::args().skip(1) {
            match argument.as_str() {
                "--list" => settings.list = true,
                "--record" => settings.record = true,
                "--real-only" => settings.servers = Servers::Real,
                "--embedded-only" => settings.servers = Servers::Embedded,
                "--in-process" => settings.in_process = true,
                "--serial" => settings.parallelism = 1,
                flag if flag.starts_with('-') => {}
                filter => settings.filters.push(filter.to_owned()),
            }
        }
        settings
    }

    /// Whether the filters let a case through.
    pub fn selects(&self, id: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| id.contains(filter.as_str()))
    }
}

/// The directory of this crate, where the recordings are.
pub fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The root of the repository.
pub fn repository_dir() -> &'static Path {
    crate_dir().ancestors().nth(2).unwrap_or_else(crate_dir)
}

fn real_bin(named: Option<std::ffi::OsString>, cache: Option<std::ffi::OsString>) -> Option<PathBuf> {
    let in_cache = |cache: PathBuf| cache.join("real-kube/bin");
    let candidates = [
        named.map(PathBuf::from),
        cache.map(PathBuf::from).map(in_cache),
        Some(in_cache(repository_dir().join(".cache"))),
    ];
    candidates.into_iter().flatten().find(|bin| {
        ["etcd", "kube-apiserver", "kube-controller-manager"].iter().all(|tool| bin.join(tool).is_file())
    })
}
