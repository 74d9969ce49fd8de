//! What the gateway has done, as numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So many.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// All numbers.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter,)* }

        /// All numbers at one moment.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counts { $($(#[$doc])* #[serde(default)] pub $name: u64,)* }

        impl Counters {
            /// Now.
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        impl Counts {
            /// Names and numbers, for whoever lists them.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Runs that were registered.
    runs,
    /// Providers that were started.
    started,
    /// Calls of terraform.
    calls,
    /// Calls that were passed on.
    forwarded,
    /// Calls that failed because their provider was gone.
    lost,
    /// Schemas answered from memory.
    schema_hits,
    /// Checks of a configuration answered from memory.
    check_hits,
    /// Configurations that were in force already.
    configure_hits,
    /// Other answers from memory.
    pure_hits,
    /// Stops that went no further.
    stops,
    /// Calls about a type that was left out of the schema.
    unwanted,
    /// Calls that this gateway does not know.
    unknown,
    /// Connections of somebody else.
    strangers,
    /// Entries of the journal.
    journalled,
    /// Entries that could not be written.
    not_journalled,
    /// Workspaces that were probed.
    probes,
    /// Objects that a probe read.
    probe_reads,
    /// Objects that a probe did not have to read, because another one did just then.
    probe_shared,
}
