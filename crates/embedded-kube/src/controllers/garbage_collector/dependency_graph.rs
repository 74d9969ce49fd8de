//! Who owns whom, by uid: events in, work out. No I/O.
//!
//! An owner that somebody refers to but nobody has seen is *virtual*: its place is only what the reference claims, and
//! the work it causes is to ask the API whether it exists at all.

use std::collections::{BTreeSet, HashMap};

use super::facts::{Facts, Identity, OwnerRef};

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Whether this object has to go, or, if it waits for its dependents, whether they are gone.
    Delete(String),
    /// Whose dependents have to be let go.
    Orphan(String),
}

/// A reference to an owner in another namespace, which can never be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Who refers.
    pub dependent: Identity,
    /// To whom.
    pub owner: OwnerRef,
}

/// What follows from an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// To be looked at.
    pub work: BTreeSet<Work>,
    /// To be told to people.
    pub strays: Vec<Stray>,
    /// The owner in question may be elsewhere: to be looked at again, but not at once.
    pub is_open: bool,
}

impl Effects {
    fn delete(&mut self, uid: &str) {
        self.work.insert(Work::Delete(uid.to_owned()));
    }

    fn delete_all<'a>(&mut self, uids: impl IntoIterator<Item = &'a String>) {
        self.work.extend(uids.into_iter().cloned().map(Work::Delete));
    }
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a mark of its own")]
struct Node {
    identity: Identity,
    owners: Vec<OwnerRef>,
    dependents: BTreeSet<String>,
    is_virtual: bool,
    is_terminating: bool,
    /// Has been seen to wait until its dependents are gone.
    is_foreground: bool,
    /// Has been seen to wait until its dependents are let go.
    is_orphaning: bool,
}

/// A node as the work on it needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it is, or is said to be.
    pub identity: Identity,
    /// Nobody has seen it.
    pub is_virtual: bool,
    /// Is being deleted.
    pub is_terminating: bool,
    /// Waits until its dependents are gone.
    pub is_foreground: bool,
    /// Who refers to it.
    pub dependents: Vec<Dependent>,
}

/// A dependent of an [`Item`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependent {
    /// Where it is.
    pub identity: Identity,
    /// Keeps its owner from going.
    pub is_blocking: bool,
    /// Waits until its own dependents are gone.
    pub is_foreground: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<String, Node>,
}

impl Graph {
    /// A node as it is now.
    pub fn item(&self, uid: &str) -> Option<Item> {
        let node = self.nodes.get(uid)?;
        let dependents = node.dependents.iter().filter_map(|dependent| self.nodes.get(dependent));
        Some(Item {
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

    /// Everything that has been seen.
    pub fn observed(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|(_, node)| !node.is_virtual).map(|(uid, _)| uid.as_str())
    }

    /// An object is there, new or changed.
    pub fn observe(&mut self, facts: &Facts) -> Effects {
        let mut effects = Effects::default();
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
        self.transitions(&uid, facts, &mut effects);
        effects
    }

    /// An object is gone.
    pub fn forget(&mut self, uid: &str) -> Effects {
        let mut effects = Effects::default();
        if let Some(node) = self.nodes.remove(uid) {
            self.unlink(&node, &mut effects);
        }
        effects
    }

    /// The API knows nobody at this place, or somebody else.
    ///
    /// That says nothing about an object that has been seen elsewhere under the same uid, nor about those who claim
    /// that it is elsewhere.
    pub fn absent(&mut self, absent: &Identity) -> Effects {
        let mut effects = Effects::default();
        let Some(node) = self.nodes.get(&absent.uid) else { return effects };
        let (matching, differing) = self.partition(node, absent);
        if !node.is_virtual && node.identity != *absent {
            effects.delete_all(&matching);
            return effects;
        }
        if !node.is_virtual || differing.is_empty() {
            return self.forget(&absent.uid);
        }
        effects.delete_all(&matching);
        if node.identity == *absent
            && let Some(other) = self.other_claim(&differing, absent)
            && let Some(node) = self.nodes.get_mut(&absent.uid)
        {
            node.identity = other;
            effects.is_open = true;
        }
        effects
    }

    fn insert(&mut self, facts: &Facts, effects: &mut Effects) {
        let uid = facts.identity.uid.clone();
        let node = Node {
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

    /// A virtual node turns out to exist, maybe elsewhere than was claimed.
    fn materialise(&mut self, seen: &Identity, effects: &mut Effects) {
        let Some(node) = self.nodes.get(&seen.uid) else { return };
        if node.identity != *seen {
            let (_, differing) = self.partition(node, seen);
            for dependent in differing.iter().filter_map(|uid| self.nodes.get(uid)) {
                if !seen.namespace.is_empty() && dependent.identity.namespace != seen.namespace {
                    effects.strays.extend(dependent.stray(&seen.uid));
                }
                effects.delete(&dependent.identity.uid);
            }
        }
        if let Some(node) = self.nodes.get_mut(&seen.uid) {
            node.identity = seen.clone();
            node.is_virtual = false;
        }
    }

    fn update_owners(&mut self, uid: &str, owners: &[OwnerRef], effects: &mut Effects) {
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

    /// Enters a dependent at its owners; those that nobody has seen become virtual nodes.
    fn link(&mut self, uid: &str, owners: &[OwnerRef], effects: &mut Effects) {
        let Some(dependent) = self.nodes.get(uid).cloned() else { return };
        let mut is_doubtful = false;
        for owner in owners {
            if let Some(node) = self.nodes.get_mut(&owner.uid) {
                node.dependents.insert(uid.to_owned());
                is_doubtful |= doubtful(node, owner, &dependent, effects);
                continue;
            }
            let node = Node {
                identity: owner.claimed_in(&dependent.identity.namespace),
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

    fn unlink(&mut self, node: &Node, effects: &mut Effects) {
        effects.delete_all(&node.dependents);
        for owner in &node.owners {
            self.remove_dependent(&owner.uid, &node.identity.uid);
            if self.nodes.get(&owner.uid).is_some_and(|owner| owner.is_foreground) {
                effects.delete(&owner.uid);
            }
        }
    }

    /// A virtual node that nobody refers to any more has no reason to be.
    fn remove_dependent(&mut self, owner: &str, dependent: &str) {
        if let Some(node) = self.nodes.get_mut(owner) {
            node.dependents.remove(dependent);
            if node.is_virtual && node.dependents.is_empty() {
                self.nodes.remove(owner);
            }
        }
    }

    fn transitions(&mut self, uid: &str, facts: &Facts, effects: &mut Effects) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        node.is_terminating |= facts.is_terminating;
        let orphaning = facts.is_terminating && facts.has_orphan_finalizer;
        if orphaning && !std::mem::replace(&mut node.is_orphaning, true) {
            effects.work.insert(Work::Orphan(uid.to_owned()));
            return;
        }
        let foreground = facts.is_terminating && facts.has_foreground_finalizer;
        if foreground && !std::mem::replace(&mut node.is_foreground, true) {
            effects.delete_all(&node.dependents);
            effects.delete(uid);
        }
    }

    /// Dependents that refer to exactly this place, and those that refer to the uid elsewhere. One can be in both.
    fn partition(&self, node: &Node, place: &Identity) -> (Vec<String>, Vec<String>) {
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

    /// Another place that dependents claim for an owner: the next one after the place where it is not, so that all
    /// claims get their turn.
    fn other_claim(&self, dependents: &[String], absent: &Identity) -> Option<Identity> {
        let mut claims = BTreeSet::new();
        for dependent in dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            for owner in dependent.owners.iter().filter(|owner| owner.uid == absent.uid) {
                let mut claim = owner.claimed_in(&dependent.identity.namespace);
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

impl Node {
    fn stray(&self, owner: &str) -> Option<Stray> {
        let owner = self.owners.iter().find(|known| known.uid == owner)?.clone();
        Some(Stray { dependent: self.identity.clone(), owner })
    }
}

/// A reference that does not fit what is known of the owner; whether it is wrong, the API has to say.
fn doubtful(owner: &Node, reference: &OwnerRef, dependent: &Node, effects: &mut Effects) -> bool {
    let is_namespaced = !owner.identity.namespace.is_empty();
    let is_elsewhere = owner.identity.namespace != dependent.identity.namespace;
    if is_namespaced && is_elsewhere {
        if !owner.is_virtual {
            effects.strays.extend(dependent.stray(&reference.uid));
        }
        return true;
    }
    !reference.matches(&owner.identity) || (!is_namespaced && is_elsewhere && owner.is_virtual)
}
