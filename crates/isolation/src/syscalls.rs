//! System calls that no terraform and no provider needs, and that reach other processes or the kernel.
//!
//! A deny-list: the programs are built by others, and an allow-list would break with their next version. Landlock does the rest.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Denied with EPERM, whatever the arguments are.
const DENIED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Large or privileged parts of the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // It would open sockets that this filter does not see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The keyrings of the user.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_quotactl,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] =
    &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[i64] = &[libc::SYS_kexec_file_load];

/// Flags of `clone` that make namespaces.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Families of sockets that are neither for the internet nor local.
const DENIED_FAMILIES: &[i32] = &[
    libc::AF_PACKET,
    libc::AF_KEY,
    libc::AF_ALG,
    libc::AF_VSOCK,
    libc::AF_BLUETOOTH,
    libc::AF_TIPC,
    libc::AF_RDS,
    libc::AF_XDP,
    AF_SMC,
];
const AF_SMC: i32 = 43;

/// Protocols that connect to TCP servers, or to others, past Landlock's rules for TCP.
const DENIED_PROTOCOLS: &[i32] = &[libc::IPPROTO_MPTCP, libc::IPPROTO_SCTP, IPPROTO_SMC];
const IPPROTO_SMC: i32 = 256;

/// Adds the system calls of the x32 ABI, which has other numbers under the same architecture.
#[cfg(target_arch = "x86_64")]
const X32: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const X32: Option<i64> = None;

/// A filter cannot be built or installed.
#[derive(Debug, thiserror::Error)]
pub enum SyscallFilterError {
    /// The rules do not compile.
    #[error("the system call filter is invalid")]
    Invalid(#[from] seccompiler::BackendError),
    /// The kernel refused it.
    #[error("the kernel refused the system call filter")]
    Refused(#[from] seccompiler::Error),
}

/// Installs the filters for this thread and everything that it starts.
pub(crate) fn apply() -> Result<(), SyscallFilterError> {
    for filter in filters()? {
        seccompiler::apply_filter(&filter)?;
    }
    Ok(())
}

fn filters() -> Result<[BpfProgram; 2], SyscallFilterError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.iter().chain(DENIED_HERE).map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, any_of(NAMESPACE_FLAGS.iter().map(|flag| has_flag(0, *flag)))?);
    let families = DENIED_FAMILIES.iter().map(|family| equals(0, *family));
    let protocols = DENIED_PROTOCOLS.iter().map(|protocol| equals(2, *protocol));
    rules.insert(libc::SYS_socket, any_of(families.chain(protocols))?);
    // TCP Fast Open connects without `connect`.
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules.insert(call, any_of([has_flag(flags, libc::MSG_FASTOPEN)])?);
    }
    // Typing into a terminal that the process inherited.
    rules
        .insert(libc::SYS_ioctl, any_of([equals_dword(1, libc::TIOCSTI), equals_dword(1, libc::TIOCLINUX)])?);
    // Its flags are in memory, where a filter cannot see them. The C library falls back to `clone` on ENOSYS only.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok([compile(rules, libc::EPERM)?, compile(unknown, libc::ENOSYS)?])
}

fn compile(
    mut rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: i32,
) -> Result<BpfProgram, seccompiler::BackendError> {
    if let Some(offset) = X32 {
        let twice: Vec<_> = rules.iter().map(|(call, rules)| (call | offset, rules.clone())).collect();
        rules.extend(twice);
    }
    let denied = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, std::env::consts::ARCH.try_into()?)?;
    filter.try_into()
}

type Condition = Result<SeccompCondition, seccompiler::BackendError>;

fn any_of(
    conditions: impl IntoIterator<Item = Condition>,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    conditions.into_iter().map(|condition| SeccompRule::new(vec![condition?])).collect()
}

fn has_flag(argument: u8, flag: i32) -> Condition {
    let flag = u64::from(flag.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)
}

fn equals(argument: u8, value: i32) -> Condition {
    let value = u64::from(value.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn equals_dword(argument: u8, value: libc::Ioctl) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}
