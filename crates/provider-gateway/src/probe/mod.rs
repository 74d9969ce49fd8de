//! Whether a workspace is as it was, asked of its provider alone: no terraform, no schema, no plan.

pub mod fingerprint;
mod reads;
pub mod state;

use std::{collections::BTreeMap, fmt};

pub use fingerprint::{Fingerprint, Inputs};
pub(crate) use reads::{Provider, Reads};
use serde::{Deserialize, Serialize};
pub use state::{Object, Objects, objects};

use crate::serve::DataRead;

/// Why a plan has to decide. None of these says that something has drifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "camelCase")]
pub enum Why {
    /// No plan has found nothing to change yet.
    NoFingerprint,
    /// The state cannot be read here.
    Unreadable,
    /// An object of a provider that the gateway does not have.
    OtherProvider {
        /// Its address.
        address: String,
    },
    /// An object that is tainted or about to go.
    Unsettled {
        /// Its address.
        address: String,
    },
    /// It changed between the plan and the probe that followed.
    Moved {
        /// Its address.
        address: String,
    },
    /// More than one configuration of the provider, or more data than is remembered.
    Manifold,
    /// Something else is asked for than when the fingerprint was taken.
    Input {
        /// What.
        what: String,
    },
    /// It is time for one.
    Age,
    /// The gateway has not seen this configuration since it started.
    UnknownConfiguration,
    /// An answer differs.
    Differs {
        /// Of which object.
        address: String,
    },
    /// It is not there.
    Missing {
        /// What.
        address: String,
    },
    /// A data source answers something else.
    Data,
    /// The provider could not tell.
    Failed {
        /// About which object.
        address: String,
        /// What it said.
        words: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFingerprint => f.write_str("no plan has found it unchanged yet"),
            Self::Unreadable => f.write_str("its state cannot be read"),
            Self::OtherProvider { address } => write!(f, "{address} belongs to another provider"),
            Self::Unsettled { address } => write!(f, "{address} is tainted or about to go"),
            Self::Moved { address } => write!(f, "{address} changed after the plan had read it"),
            Self::Manifold => f.write_str("it uses more than one configuration of the provider"),
            Self::Input { what } => write!(f, "its {what} is another one"),
            Self::Age => f.write_str("it is time for a plan"),
            Self::UnknownConfiguration => f.write_str("the gateway is a new one"),
            Self::Differs { address } => write!(f, "{address} answers differently"),
            Self::Missing { address } => write!(f, "{address} was not found"),
            Self::Data => f.write_str("a data source answers differently"),
            Self::Failed { address, words } => write!(f, "{address} could not be read: {words}"),
        }
    }
}

/// What the provider says about one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "camelCase")]
pub enum Found {
    /// It is there.
    There {
        /// Of its value.
        digest: String,
    },
    /// It is not.
    Missing,
    /// The provider could not tell.
    Failed {
        /// What it said.
        words: String,
    },
}

/// What to ask.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ask {
    /// The provider's configuration, as [`crate::serve::Seen`] names it.
    pub seat: String,
    /// Objects.
    pub objects: Vec<Object>,
    /// Data sources.
    pub data: Vec<DataRead>,
    /// Whether an answer that somebody else got just now will not do.
    pub fresh: bool,
}

/// What was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// By address.
    pub objects: BTreeMap<String, Found>,
    /// In the order of the questions.
    pub data: Vec<Found>,
}
