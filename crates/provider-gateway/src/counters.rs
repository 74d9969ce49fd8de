//! Counters of the gateway.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Increments by one.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// All counters.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter,)* }

        /// Snapshot of all counters.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counts { $($(#[$doc])* #[serde(default)] pub $name: u64,)* }

        impl Counters {
            /// A snapshot of the current values.
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        impl Counts {
            /// Names and values.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Registered runs.
    runs,
    /// Started providers.
    started,
    /// Calls from Terraform.
    calls,
    /// Calls forwarded to a provider.
    forwarded,
    /// Calls that failed because their provider exited.
    lost,
    /// Schemas served from the cache.
    schema_hits,
    /// Configuration checks served from the cache.
    check_hits,
    /// `Configure` calls for a configuration that already has a process.
    configure_hits,
    /// Other responses served from the cache.
    pure_hits,
    /// Stop calls, which are not forwarded.
    stops,
    /// Calls for a type that was filtered out of the schema.
    unwanted,
    /// Calls that this gateway does not know.
    unknown,
    /// Rejected connections of other users.
    strangers,
    /// Journal entries.
    journalled,
    /// Journal entries that could not be written.
    not_journalled,
    /// Journal entries that went on with the disk alone although they should have been replicated.
    not_replicated,
    /// Probed workspaces.
    probes,
    /// Objects read by probes.
    probe_reads,
    /// Objects whose read was shared with a concurrent probe.
    probe_shared,
}
