//! Input of an EKS operation besides its request: time, region, settings and the resolved prerequisites; and its side
//! effects in other services. The model itself performs no I/O.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::{
    config::{Limits, Timing},
    region::Region,
};

/// Settings of the model; timing and limits can change at run time.
#[derive(Debug, Clone)]
pub(crate) struct ModelSettings {
    pub(crate) timing: Timing,
    pub(crate) limits: Limits,
    pub(crate) endpoint_base: Option<String>,
    /// Whether a host runs the Kubernetes APIs of clusters.
    pub(crate) has_host: bool,
    /// Base64 of the PEM.
    pub(crate) certificate_authority: String,
}

/// A subnet as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubnetFacts {
    pub(crate) vpc_id: String,
    pub(crate) zone: String,
    pub(crate) zone_id: String,
    /// Whether its route table has a route to an internet gateway.
    pub(crate) public: bool,
}

/// A role as IAM describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RoleFacts {
    /// Service principals that may assume it.
    pub(crate) trusted_services: BTreeSet<String>,
}

/// Lookup results for the resources that a request names. An absent entry means the resource does not exist.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedPrerequisites {
    pub(crate) subnets: BTreeMap<String, SubnetFacts>,
    pub(crate) roles: BTreeMap<String, RoleFacts>,
    pub(crate) users: BTreeSet<String>,
    /// IAM principal of the caller.
    pub(crate) caller: String,
}

/// What must be looked up before an operation can be evaluated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prerequisites {
    pub(crate) subnets: BTreeSet<String>,
    pub(crate) principals: BTreeSet<String>,
    pub(crate) caller: bool,
}

/// A side effect of EKS in another service of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    CreateClusterSecurityGroup { cluster: String, vpc_id: String },
    DeleteSecurityGroup { id: String },
}

#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) region: Region,
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a ModelSettings,
    pub(crate) resolved: ResolvedPrerequisites,
    pub(crate) effects: Vec<Effect>,
}

impl RequestContext<'_> {
    pub(crate) fn after_ms(&self, ms: u64) -> Timestamp {
        let wait = SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX));
        self.now.checked_add(wait).unwrap_or(Timestamp::MAX)
    }
}
