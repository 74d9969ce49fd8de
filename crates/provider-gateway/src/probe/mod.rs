//! Drift probes: checks through the provider alone, without Terraform, schema or plan, whether a workspace is
//! unchanged.

pub mod fingerprint;
mod reader;
pub mod state;

use std::{collections::BTreeMap, fmt};

pub use fingerprint::{Fingerprint, FingerprintInputs};
pub(crate) use reader::{ProbeReader, ProbeTarget};
use serde::{Deserialize, Serialize};
pub use state::{StateObject, StateObjects, parse_objects};

use crate::serve::DataSourceRead;

/// Why a plan is required. None of these means drift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "camelCase")]
pub enum PlanReason {
    /// There was no plan without changes yet.
    NoFingerprint,
    /// The state cannot be parsed here.
    Unreadable,
    /// An object of a provider that the gateway does not serve.
    OtherProvider {
        /// Its address.
        address: String,
    },
    /// An object that is tainted or deposed.
    Unsettled {
        /// Its address.
        address: String,
    },
    /// An object changed between the plan and the probe after it.
    Moved {
        /// Its address.
        address: String,
    },
    /// More than one provider configuration, or more data sources than are recorded.
    Manifold,
    /// An input changed since the fingerprint was taken.
    Input {
        /// The input.
        what: String,
    },
    /// A periodic plan is due.
    Age,
    /// The gateway has not seen this configuration since it started.
    UnknownConfiguration,
    /// A response differs.
    Differs {
        /// The object.
        address: String,
    },
    /// An object no longer exists.
    Missing {
        /// The object.
        address: String,
    },
    /// A data source returns another value.
    Data,
    /// A read failed.
    Failed {
        /// The object.
        address: String,
        /// The error message.
        words: String,
    },
}

impl fmt::Display for PlanReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFingerprint => f.write_str("no plan without changes yet"),
            Self::Unreadable => f.write_str("the state cannot be read"),
            Self::OtherProvider { address } => write!(f, "{address} belongs to another provider"),
            Self::Unsettled { address } => write!(f, "{address} is tainted or deposed"),
            Self::Moved { address } => write!(f, "{address} changed after the plan"),
            Self::Manifold => f.write_str(
                "the workspace uses more than one provider configuration, or too many data sources",
            ),
            Self::Input { what } => write!(f, "the {what} changed"),
            Self::Age => f.write_str("a periodic plan is due"),
            Self::UnknownConfiguration => f.write_str("the gateway was restarted"),
            Self::Differs { address } => write!(f, "{address} differs from its last read"),
            Self::Missing { address } => write!(f, "{address} was not found"),
            Self::Data => f.write_str("a data source differs from its last read"),
            Self::Failed { address, words } => write!(f, "{address} could not be read: {words}"),
        }
    }
}

/// Result of reading one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "camelCase")]
pub enum ReadResult {
    /// It exists.
    There {
        /// Digest of its value.
        digest: String,
    },
    /// It does not exist.
    Missing,
    /// The read failed.
    Failed {
        /// The error message.
        words: String,
    },
}

/// Objects and data sources to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// Key of the provider's configuration, as in [`crate::serve::Seen`].
    pub seat: String,
    /// Objects.
    pub objects: Vec<StateObject>,
    /// Data sources.
    pub data: Vec<DataSourceRead>,
    /// Whether reads shared with a concurrent probe are not acceptable.
    pub fresh: bool,
}

/// Results of a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Objects by address.
    pub objects: BTreeMap<String, ReadResult>,
    /// Data sources in request order.
    pub data: Vec<ReadResult>,
}
