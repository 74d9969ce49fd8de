//! What an operation of EKS is given beside its input: time, place, settings and the facts of the other services;
//! and what it may ask to be done there afterwards. The model itself does no I/O.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::{
    config::{Limits, Timing},
    place::Place,
};

/// The changeable settings and the fixed ones of the model.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) timing: Timing,
    pub(crate) limits: Limits,
    pub(crate) endpoint_base: Option<String>,
    /// Somebody plays the APIs of clusters.
    pub(crate) hosted: bool,
    /// Base64 of a PEM.
    pub(crate) certificate_authority: String,
}

/// A subnet as EC2 tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subnet {
    pub(crate) vpc_id: String,
    pub(crate) zone: String,
    pub(crate) zone_id: String,
    /// Its route table has a route to an internet gateway.
    pub(crate) public: bool,
}

/// A role as IAM tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Role {
    /// Service principals that may assume it.
    pub(crate) trusts: BTreeSet<String>,
}

/// What the other services said about the things a request names. Absent means it does not exist.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) subnets: BTreeMap<String, Subnet>,
    pub(crate) roles: BTreeMap<String, Role>,
    pub(crate) users: BTreeSet<String>,
    /// The IAM principal behind the call.
    pub(crate) caller: String,
}

/// What has to be known before an operation can be decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) subnets: BTreeSet<String>,
    pub(crate) principals: BTreeSet<String>,
    pub(crate) caller: bool,
}

/// What EKS does in other services of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    CreateClusterSecurityGroup { cluster: String, vpc_id: String },
    DeleteSecurityGroup { id: String },
}

#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) place: Place,
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    pub(crate) facts: Facts,
    pub(crate) effects: Vec<Effect>,
}

impl Context<'_> {
    pub(crate) fn after_ms(&self, ms: u64) -> Timestamp {
        let wait = SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX));
        self.now.checked_add(wait).unwrap_or(Timestamp::MAX)
    }
}
