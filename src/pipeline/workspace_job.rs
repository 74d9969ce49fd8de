//! One workspace with everything that goes into it.

use std::collections::BTreeSet;

use crate::{
    aws::Principal,
    blueprint::{Blueprint, Body, Key, Resolved, Role},
    modules::Builtin,
};

/// A workspace to bring to what it should be.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// Its name.
    pub key: Key,
    /// What it is for.
    pub role: Role,
    /// The object that it was made for.
    pub owner: String,
    /// The EKS cluster that it changes, which allows one change at a time.
    pub eks_cluster: Option<String>,
    /// Where.
    pub region: Option<String>,
    /// What has to be there first.
    pub after: BTreeSet<Key>,
    /// Stays when its object goes.
    pub retained: bool,
    /// Whether it is a Fargate profile of the built-in module, which gets another name when it must become
    /// another profile.
    pub is_profile: bool,
    /// What is rendered, and with which environment it runs.
    pub resolved: Resolved,
    /// As whom it acts; as the operator itself if it is nobody else.
    pub principal: Option<Principal>,
}

impl Assignment {
    /// Of a blueprint whose values are all known.
    pub fn of(blueprint: &Blueprint, resolved: Resolved) -> Self {
        let Blueprint {
            key,
            role,
            owner,
            eks_cluster,
            region,
            body,
            handed: _,
            after,
            connection_secret: _,
            retained,
        } = blueprint.clone();
        Self {
            is_profile: matches!(body, Body::Module { module: Builtin::Fargate, .. }),
            key,
            role,
            owner,
            eks_cluster,
            region,
            after,
            retained,
            resolved,
            principal: None,
        }
    }
}
