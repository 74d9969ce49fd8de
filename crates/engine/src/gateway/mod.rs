//! The provider gateway of a data directory: a daemon that keeps providers running, and the reattach source through which
//! runs use them.

mod configuration_scan;
pub mod daemon;
mod handle;
mod journal_entries;
mod reattach;
mod replicated_journal;

pub use handle::{GatewayHandle, GatewayStartError, GatewayStopOutcome};
pub use journal_entries::{JournalError, drop_workspace_entries, workspace_entries};
pub use reattach::{AWS_PROVIDER_ADDRESS, GatewayReattachSource, PROVIDER_RULES_VARIABLE, ReattachStatus};
pub use replicated_journal::{ReplicatedJournal, import_entries, journal_source};
