//! Dependency graph by uid: events in, tasks out. No I/O.
//!
//! An owner that is referenced but has not been observed is *virtual*: its identity is only claimed by the reference,
//! and its task is to ask the API whether it exists.

use std::collections::{BTreeSet, HashMap};

use super::ownership::{ObjectIdentity, ObjectOwnership, OwnerRef};

/// A task of the garbage collector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GcTask {
    /// Check whether this object must be deleted, or, in foreground deletion, whether its dependents are gone.
    Delete(String),
    /// Orphan the dependents of this object.
    Orphan(String),
}

/// A reference to an owner in another namespace, which is never valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidReference {
    /// The referencing object.
    pub dependent: ObjectIdentity,
    /// The reference.
    pub owner: OwnerRef,
}

/// What follows from an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GraphEffects {
    /// Tasks to queue.
    pub tasks: BTreeSet<GcTask>,
    /// Invalid references to report as Events.
    pub invalid_references: Vec<InvalidReference>,
    /// The owner may have another identity: retry later.
    pub needs_retry: bool,
}

impl GraphEffects {
    fn delete(&mut self, uid: &str) {
        self.tasks.insert(GcTask::Delete(uid.to_owned()));
    }

    fn delete_all<'a>(&mut self, uids: impl IntoIterator<Item = &'a String>) {
        self.tasks.extend(uids.into_iter().cloned().map(GcTask::Delete));
    }
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent flag")]
struct GraphNode {
    identity: ObjectIdentity,
    owners: Vec<OwnerRef>,
    dependents: BTreeSet<String>,
    is_virtual: bool,
    is_terminating: bool,
    /// Observed in foreground deletion.
    is_foreground: bool,
    /// Observed while orphaning its dependents.
    is_orphaning: bool,
}

/// Snapshot of a node for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// Identity, observed or claimed.
    pub identity: ObjectIdentity,
    /// Referenced but not observed.
    pub is_virtual: bool,
    /// Is being deleted.
    pub is_terminating: bool,
    /// Waits until its dependents are gone.
    pub is_foreground: bool,
    /// Objects that reference it.
    pub dependents: Vec<Dependent>,
}

/// A dependent of an [`Item`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependent {
    /// Identity.
    pub identity: ObjectIdentity,
    /// Blocks the deletion of its owner.
    pub is_blocking: bool,
    /// In foreground deletion itself.
    pub is_foreground: bool,
}

/// Nodes by uid.
#[derive(Debug, Default)]
pub struct DependencyGraph {
    nodes: HashMap<String, GraphNode>,
}

impl DependencyGraph {
    /// Snapshot of a node.
    pub fn snapshot(&self, uid: &str) -> Option<NodeSnapshot> {
        let node = self.nodes.get(uid)?;
        let dependents = node.dependents.iter().filter_map(|dependent| self.nodes.get(dependent));
        Some(NodeSnapshot {
            identity: node.identity.clone(),
            is_virtual: node.is_virtual,
            is_terminating: node.is_terminating,
            is_foreground: node.is_foreground,
            dependents: dependents
                .map(|dependent| Dependent {
                    identity: dependent.identity.clone(),
                    is_blocking: dependent.owners.iter().any(|owner| owner.uid == uid && owner.is_blocking),
                    is_foreground: dependent.is_foreground,
                })
                .collect(),
        })
    }

    /// Uids of all observed objects.
    pub fn observed_uids(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|(_, node)| !node.is_virtual).map(|(uid, _)| uid.as_str())
    }

    /// An object was created or updated.
    pub fn observe(&mut self, facts: &ObjectOwnership) -> GraphEffects {
        let mut effects = GraphEffects::default();
        let uid = facts.identity.uid.clone();
        match self.nodes.get(&uid) {
            None => self.insert(facts, &mut effects),
            Some(node) => {
                if node.is_virtual {
                    self.materialise(&facts.identity, &mut effects);
                }
                self.update_owners(&uid, &facts.owners, &mut effects);
            }
        }
        self.apply_transitions(&uid, facts, &mut effects);
        effects
    }

    /// An object was deleted.
    pub fn remove(&mut self, uid: &str) -> GraphEffects {
        let mut effects = GraphEffects::default();
        if let Some(node) = self.nodes.remove(uid) {
            self.unlink(&node, &mut effects);
        }
        effects
    }

    /// The API has no object with this identity, or one with another uid.
    ///
    /// That says nothing about an object observed under the same uid elsewhere, nor about dependents that claim another
    /// identity.
    pub fn mark_absent(&mut self, absent: &ObjectIdentity) -> GraphEffects {
        let mut effects = GraphEffects::default();
        let Some(node) = self.nodes.get(&absent.uid) else { return effects };
        let (matching, differing) = self.partition_dependents(node, absent);
        if !node.is_virtual && node.identity != *absent {
            effects.delete_all(&matching);
            return effects;
        }
        if !node.is_virtual || differing.is_empty() {
            return self.remove(&absent.uid);
        }
        effects.delete_all(&matching);
        if node.identity == *absent
            && let Some(other) = self.next_claimed_identity(&differing, absent)
            && let Some(node) = self.nodes.get_mut(&absent.uid)
        {
            node.identity = other;
            effects.needs_retry = true;
        }
        effects
    }

    fn insert(&mut self, facts: &ObjectOwnership, effects: &mut GraphEffects) {
        let uid = facts.identity.uid.clone();
        let node = GraphNode {
            identity: facts.identity.clone(),
            owners: facts.owners.clone(),
            dependents: BTreeSet::new(),
            is_virtual: false,
            is_terminating: facts.is_terminating,
            is_foreground: false,
            is_orphaning: false,
        };
        self.nodes.insert(uid.clone(), node);
        self.link(&uid, &facts.owners, effects);
    }

    /// A virtual node is observed, possibly with another identity than claimed.
    fn materialise(&mut self, seen: &ObjectIdentity, effects: &mut GraphEffects) {
        let Some(node) = self.nodes.get(&seen.uid) else { return };
        if node.identity != *seen {
            let (_, differing) = self.partition_dependents(node, seen);
            for dependent in differing.iter().filter_map(|uid| self.nodes.get(uid)) {
                if !seen.namespace.is_empty() && dependent.identity.namespace != seen.namespace {
                    effects.invalid_references.extend(dependent.invalid_reference(&seen.uid));
                }
                effects.delete(&dependent.identity.uid);
            }
        }
        if let Some(node) = self.nodes.get_mut(&seen.uid) {
            node.identity = seen.clone();
            node.is_virtual = false;
        }
    }

    fn update_owners(&mut self, uid: &str, owners: &[OwnerRef], effects: &mut GraphEffects) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        if node.owners == owners {
            return;
        }
        let old = std::mem::replace(&mut node.owners, owners.to_vec());
        let still = |gone: &OwnerRef| owners.iter().find(|owner| owner.uid == gone.uid);
        for gone in &old {
            let unblocked = gone.is_blocking && still(gone).is_none_or(|owner| !owner.is_blocking);
            if unblocked && self.nodes.contains_key(&gone.uid) {
                effects.delete(&gone.uid);
            }
        }
        let is_new = |owner: &&OwnerRef| !old.iter().any(|known| known.uid == owner.uid);
        let added: Vec<OwnerRef> = owners.iter().filter(is_new).cloned().collect();
        self.link(uid, &added, effects);
        for gone in old.iter().filter(|gone| still(gone).is_none()) {
            self.remove_dependent(&gone.uid, uid);
        }
    }

    /// Links a dependent to its owners; unobserved owners become virtual nodes.
    fn link(&mut self, uid: &str, owners: &[OwnerRef], effects: &mut GraphEffects) {
        let Some(dependent) = self.nodes.get(uid).cloned() else { return };
        let mut is_doubtful = false;
        for owner in owners {
            if let Some(node) = self.nodes.get_mut(&owner.uid) {
                node.dependents.insert(uid.to_owned());
                is_doubtful |= is_mismatched(node, owner, &dependent, effects);
                continue;
            }
            let node = GraphNode {
                identity: owner.identity_in(&dependent.identity.namespace),
                owners: Vec::new(),
                dependents: BTreeSet::from([uid.to_owned()]),
                is_virtual: true,
                is_terminating: false,
                is_foreground: false,
                is_orphaning: false,
            };
            self.nodes.insert(owner.uid.clone(), node);
            effects.delete(&owner.uid);
        }
        if is_doubtful {
            effects.delete(uid);
        }
    }

    fn unlink(&mut self, node: &GraphNode, effects: &mut GraphEffects) {
        effects.delete_all(&node.dependents);
        for owner in &node.owners {
            self.remove_dependent(&owner.uid, &node.identity.uid);
            if self.nodes.get(&owner.uid).is_some_and(|owner| owner.is_foreground) {
                effects.delete(&owner.uid);
            }
        }
    }

    /// Removes a virtual node once its last dependent is gone.
    fn remove_dependent(&mut self, owner: &str, dependent: &str) {
        if let Some(node) = self.nodes.get_mut(owner) {
            node.dependents.remove(dependent);
            if node.is_virtual && node.dependents.is_empty() {
                self.nodes.remove(owner);
            }
        }
    }

    fn apply_transitions(&mut self, uid: &str, facts: &ObjectOwnership, effects: &mut GraphEffects) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        node.is_terminating |= facts.is_terminating;
        let orphaning = facts.is_terminating && facts.has_orphan_finalizer;
        if orphaning && !std::mem::replace(&mut node.is_orphaning, true) {
            effects.tasks.insert(GcTask::Orphan(uid.to_owned()));
            return;
        }
        let foreground = facts.is_terminating && facts.has_foreground_finalizer;
        if foreground && !std::mem::replace(&mut node.is_foreground, true) {
            effects.delete_all(&node.dependents);
            effects.delete(uid);
        }
    }

    /// Dependents that reference exactly this identity, and those that reference the uid with another one. One can be
    /// in both.
    fn partition_dependents(&self, node: &GraphNode, place: &ObjectIdentity) -> (Vec<String>, Vec<String>) {
        let (mut matching, mut differing) = (Vec::new(), Vec::new());
        for dependent in node.dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            let uid = &dependent.identity.uid;
            if !place.namespace.is_empty() && place.namespace != dependent.identity.namespace {
                differing.push(uid.clone());
                continue;
            }
            let claims: Vec<bool> = dependent
                .owners
                .iter()
                .filter(|owner| owner.uid == place.uid)
                .map(|owner| owner.matches(place))
                .collect();
            if claims.contains(&true) {
                matching.push(uid.clone());
            }
            if claims.contains(&false) {
                differing.push(uid.clone());
            }
        }
        (matching, differing)
    }

    /// The next identity that dependents claim for an owner after the absent one, so that every claim is tried.
    fn next_claimed_identity(
        &self,
        dependents: &[String],
        absent: &ObjectIdentity,
    ) -> Option<ObjectIdentity> {
        let mut claims = BTreeSet::new();
        for dependent in dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            for owner in dependent.owners.iter().filter(|owner| owner.uid == absent.uid) {
                let mut claim = owner.identity_in(&dependent.identity.namespace);
                let is_cluster_scoped = absent.namespace.is_empty()
                    && claim.api_version == absent.api_version
                    && claim.kind == absent.kind;
                if is_cluster_scoped {
                    claim.namespace.clear();
                }
                if claim != *absent {
                    claims.insert(claim);
                }
            }
        }
        claims.range(absent.clone()..).next().or_else(|| claims.first()).cloned()
    }
}

impl GraphNode {
    fn invalid_reference(&self, owner: &str) -> Option<InvalidReference> {
        let owner = self.owners.iter().find(|known| known.uid == owner)?.clone();
        Some(InvalidReference { dependent: self.identity.clone(), owner })
    }
}

/// Whether a reference does not match what is known of the owner; the API decides whether it is invalid.
fn is_mismatched(
    owner: &GraphNode,
    reference: &OwnerRef,
    dependent: &GraphNode,
    effects: &mut GraphEffects,
) -> bool {
    let is_namespaced = !owner.identity.namespace.is_empty();
    let is_elsewhere = owner.identity.namespace != dependent.identity.namespace;
    if is_namespaced && is_elsewhere {
        if !owner.is_virtual {
            effects.invalid_references.extend(dependent.invalid_reference(&reference.uid));
        }
        return true;
    }
    !reference.matches(&owner.identity) || (!is_namespaced && is_elsewhere && owner.is_virtual)
}
