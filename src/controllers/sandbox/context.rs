//! What every reconcile of a Sandbox gets: what all get, and what is remembered between two looks.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use futures::{
    FutureExt as _,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
};
use kube::{
    core::{DeserializeGuard, DynamicObject},
    runtime::reflector::{ObjectRef, Store},
};
use sandbox::{api::Sandbox, routes::Kind};
use tokio::sync::Notify;

use super::{
    far::Clusters,
    index::{Index, Spot},
    memory::Memory,
    rivals::{self, Rival},
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
    /// The last Sandbox of a cluster has left it.
    pub(super) left: Notify,
    /// What is remembered between two looks.
    pub(super) memory: Memory,
    /// The routes, and who has them.
    pub(super) board: Arc<Board>,
    known: OnceLock<Store<DeserializeGuard<Sandbox>>>,
    locals: OnceLock<Store<DynamicObject>>,
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
            left: Notify::new(),
            memory: Memory::default(),
            known: OnceLock::new(),
            locals: OnceLock::new(),
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

    /// Says where all local workloads are known.
    pub(super) fn know_locals(&self, store: Store<DynamicObject>) {
        // Only the first one is kept, and there is no second.
        let _first = self.locals.set(store);
    }

    /// All local workloads; none of them before they were seen once.
    pub(super) fn locals(&self) -> Option<Vec<Arc<DynamicObject>>> {
        let store = self.locals.get()?;
        store.wait_until_ready().now_or_never()?.ok()?;
        Some(store.state())
    }

    /// Everybody who asks for a key.
    pub(super) fn rivals(&self, key: &str) -> Vec<Rival> {
        let of = |it: &Sandbox| {
            let is_rival = known_key(it) == key && !rivals::is_out(&it.metadata);
            is_rival.then(|| (Kind::Sandbox, it.metadata.clone()))
        };
        let mut all: Vec<Rival> = self.sandboxes().iter().filter_map(|it| of(it.0.as_ref().ok()?)).collect();
        let picture = self.board.picture();
        let groups = picture.iter().filter_map(|it| it.groups.get(key)).flatten();
        all.extend(groups.map(|it| (Kind::RouteGroup, it.clone())));
        all
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

/// The key of a Sandbox. Where it was told before it is not made again: there may be thousands of them.
pub(super) fn known_key(object: &Sandbox) -> Cow<'_, str> {
    let told = object.status.as_ref().and_then(|it| it.routing_key.as_deref());
    let said = object.spec.routing_key.as_deref().filter(|it| !it.is_empty());
    said.or(told).map_or_else(|| Cow::Owned(super::key(object)), Cow::Borrowed)
}

/// How a Sandbox of a spot is known.
pub(super) fn reference(spot: &Spot, name: &str) -> Ref {
    ObjectRef::new(name).within(&spot.namespace)
}
