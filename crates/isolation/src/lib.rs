//! Confines a process to the files and ports that it needs. Needs no privileges, no capability and no user namespace, so it works in a
//! restricted pod as on a laptop.
//!
//! | layer | stops |
//! |---|---|
//! | Landlock, files | reading and writing outside the listed paths, `/proc` of other processes included |
//! | Landlock, network | TCP connections to other ports than the listed ones, and listening |
//! | Landlock, scopes | signals and abstract unix sockets to processes outside |
//! | seccomp | ptrace, namespaces, mounts, BPF, keyrings, `io_uring`, kernel modules, sockets that Landlock does not see |
//! | `no_new_privs`, rlimits | set-user-id programs, core dumps, endless files |
//!
//! A confined process confines everything that it starts, and cannot undo it. [`Confinement`] says what is allowed, [`probe`] what this
//! kernel can enforce, and [`process::become_confined`] replaces a wrapper process by the confined program.

mod enforce;
mod kernel;
mod policy;
pub mod process;
mod syscalls;

pub use enforce::{ConfineError, enforce};
pub use kernel::{KernelSupport, MIN_LANDLOCK_ABI, probe};
pub use policy::Confinement;
