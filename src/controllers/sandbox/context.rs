//! What every reconcile of a Sandbox gets: what all get, and what is remembered between two looks.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::{
    core::{DeserializeGuard, ObjectMeta},
    runtime::reflector::{ObjectRef, Store},
};
use sandbox::api::Sandbox;

use super::{
    far::Clusters,
    index::{Index, Spot},
    memory::Memory,
};
use crate::controllers::common::{self, board::Board, outpost::Ground};

/// A Sandbox as the watches know it.
pub(super) type Ref = ObjectRef<DeserializeGuard<Sandbox>>;

/// What every reconcile gets.
pub struct Context {
    /// What all controllers need.
    pub(super) common: Arc<common::Context>,
    /// Who is made from what.
    pub(super) index: Arc<Index>,
    /// Whether this is the operator's own cluster.
    pub(super) ground: Ground,
    /// The clusters that this operator made, and that Sandboxes live in.
    pub(super) clusters: Clusters,
    /// What is remembered between two looks.
    pub(super) memory: Memory,
    /// The routes, and who has them.
    pub(super) board: Arc<Board>,
    known: OnceLock<Store<DeserializeGuard<Sandbox>>>,
    told: UnboundedSender<Ref>,
    heard: Mutex<Option<UnboundedReceiver<Ref>>>,
}

impl Context {
    pub(super) fn new(common: Arc<common::Context>, board: Arc<Board>, ground: Ground) -> Self {
        let (told, heard) = unbounded();
        Self {
            board,
            common,
            ground,
            index: Arc::default(),
            clusters: Clusters::default(),
            memory: Memory::default(),
            known: OnceLock::new(),
            told,
            heard: Mutex::new(Some(heard)),
        }
    }

    /// Where those are heard that shall be looked at; for the one who asks first.
    pub(super) fn heard(&self) -> Option<UnboundedReceiver<Ref>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Says where all Sandboxes are known.
    pub(super) fn know(&self, store: Store<DeserializeGuard<Sandbox>>) {
        // Only the first one is kept, and there is no second.
        let _first = self.known.set(store);
    }

    /// The Sandboxes with a key.
    pub(super) fn with_key(&self, key: &str) -> Vec<(ObjectMeta, String)> {
        let of =
            |it: &Sandbox| Some(super::key(it)).filter(|it| it == key).map(|key| (it.metadata.clone(), key));
        self.sandboxes().iter().filter_map(|it| of(it.0.as_ref().ok()?)).collect()
    }

    /// All Sandboxes, also those that cannot be read.
    pub(super) fn sandboxes(&self) -> Vec<Arc<DeserializeGuard<Sandbox>>> {
        self.known.get().map(Store::state).unwrap_or_default()
    }

    /// For those who find out that Sandboxes are to be looked at.
    pub(super) fn waker(&self) -> UnboundedSender<Ref> {
        self.told.clone()
    }
}

/// How a Sandbox of a spot is known.
pub(super) fn reference(spot: &Spot, name: &str) -> Ref {
    ObjectRef::new(name).within(&spot.namespace)
}
