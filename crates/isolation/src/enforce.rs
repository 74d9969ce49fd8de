//! Restricts the calling thread and everything that it starts.

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
    path_beneath_rules,
};
use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::{
    policy::Confinement,
    syscalls::{self, SyscallFilterError},
};

/// The version of Landlock whose rights are handled. Those that the kernel does not know are left out.
pub(crate) const ABI_USED: ABI = ABI::V7;

/// Largest file of a run: more than any provider, less than a disk.
const MAX_FILE_SIZE: u64 = 4 << 30;

/// A process could not be confined; it must not continue.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// Landlock refused the rules.
    #[error("Landlock refused the rules")]
    Landlock(#[from] RulesetError),
    /// The system call filter failed.
    #[error(transparent)]
    Syscalls(#[from] SyscallFilterError),
    /// A limit could not be set.
    #[error("cannot set a resource limit")]
    Limit(#[from] Errno),
}

/// Confines the calling thread, as far as the kernel can. Threads that it has started before are not confined.
pub fn enforce(policy: &Confinement) -> Result<(), ConfineError> {
    lower_limit(Resource::Core, 0)?;
    lower_limit(Resource::Fsize, MAX_FILE_SIZE)?;
    restrict_with_landlock(policy)?;
    Ok(syscalls::apply()?)
}

fn restrict_with_landlock(policy: &Confinement) -> Result<(), RulesetError> {
    let all = AccessFs::from_all(ABI_USED);
    let handled = Ruleset::default().handle_access(all)?.scope(Scope::from_all(ABI_USED))?;
    let is_limited = !policy.may_connect_anywhere();
    let handled = if is_limited { handled.handle_access(AccessNet::from_all(ABI_USED))? } else { handled };
    let ports = policy.ports().filter(|_| is_limited);
    let rules = handled
        .create()?
        .add_rules(path_beneath_rules(policy.readable(), AccessFs::from_read(ABI_USED)))?
        .add_rules(path_beneath_rules(policy.writable(), all))?
        .add_rules(ports.map(|port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp))))?;
    rules.no_new_privs(true).restrict_self()?;
    Ok(())
}

/// Never raises one.
fn lower_limit(resource: Resource, most: u64) -> Result<(), Errno> {
    let now = getrlimit(resource);
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    setrlimit(resource, Rlimit { current: least(now.current), maximum: least(now.maximum) })
}
