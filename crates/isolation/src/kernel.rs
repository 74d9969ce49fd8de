//! What this kernel can enforce.

use std::fmt;

use landlock::{
    Access, AccessFs, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError,
};

use crate::{enforce::ABI_USED, syscalls};

/// The oldest Landlock that confines files and TCP connections (Linux 6.7).
pub const MIN_LANDLOCK_ABI: i32 = 4;

/// What this kernel, with the rights of this process, can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSupport {
    /// Version of Landlock; none if it is missing or disabled.
    pub landlock_abi: Option<i32>,
    /// Whether system call filters work.
    pub seccomp: bool,
}

impl KernelSupport {
    /// Why code of tenants cannot be confined here; none if it can.
    pub fn problem(&self) -> Option<String> {
        let landlock = match self.landlock_abi {
            Some(abi) if abi >= MIN_LANDLOCK_ABI => None,
            Some(abi) => Some(format!("Landlock ABI {abi} is too old (Linux 6.7 has {MIN_LANDLOCK_ABI})")),
            None => Some("Landlock is not available (Linux 6.7 or later with the `landlock` LSM)".to_owned()),
        };
        landlock.or_else(|| (!self.seccomp).then(|| "seccomp filters are not available".to_owned()))
    }
}

impl fmt::Display for KernelSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.landlock_abi {
            Some(abi) => write!(f, "Landlock ABI {abi}")?,
            None => f.write_str("no Landlock")?,
        }
        f.write_str(if self.seccomp { ", seccomp" } else { ", no seccomp" })
    }
}

/// Tries both in a thread that ends with the answer: they restrict the calling thread only.
pub fn probe() -> KernelSupport {
    let nothing = KernelSupport { landlock_abi: None, seccomp: false };
    let tried = std::thread::Builder::new().name("isolation".to_owned()).spawn(|| KernelSupport {
        landlock_abi: restrict_this_thread().ok().and_then(|status| landlock_abi(&status)),
        seccomp: syscalls::apply().is_ok(),
    });
    tried.ok().and_then(|thread| thread.join().ok()).unwrap_or(nothing)
}

fn restrict_this_thread() -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_USED))?
        .create()?
        .no_new_privs(true)
        .restrict_self()
}

fn landlock_abi(status: &RestrictionStatus) -> Option<i32> {
    match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Some(kernel_abi.unwrap_or(effective_abi as i32))
        }
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_an_old_kernel_is_a_problem_with_a_reason() {
        let of = |landlock_abi, seccomp| KernelSupport { landlock_abi, seccomp };
        assert_eq!(of(Some(4), true).problem(), None);
        assert!(of(Some(3), true).problem().unwrap().contains("ABI 3"));
        assert!(of(None, true).problem().unwrap().contains("not available"));
        assert!(of(Some(7), false).problem().unwrap().contains("seccomp"));
        assert_eq!(of(Some(7), true).to_string(), "Landlock ABI 7, seccomp");
    }

    #[test]
    fn the_probe_restricts_nothing_but_its_own_thread() {
        probe();
        std::fs::read_dir("/").unwrap();
        tempfile::tempdir().unwrap();
    }
}
