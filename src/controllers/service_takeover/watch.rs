//! Which Services are to be looked at when something else changes: those that have to do with us, and no others.

use std::sync::Arc;

use kube::{Resource as _, runtime::reflector::ObjectRef};
use sandbox::{
    api::names,
    service::{Routing, is_ours, routing},
};

use super::{
    Guarded, build,
    facts::Seen,
    seen::{Change, Slice},
};

type Refs = Vec<ObjectRef<Guarded>>;

/// The Service of a slice, if it has anything to do with us. Where somebody deleted the Service that keeps a selector, it is
/// the one whose selector was kept.
pub(super) fn of_slice(seen: &Seen, change: &Change<Slice>) -> Refs {
    let Some(slice) = change.now.as_ref().or(change.before.as_ref()) else { return Vec::new() };
    let is_kept = |it: &Guarded| it.0.as_ref().is_ok_and(|it| build::keeper_name(it) == slice.service);
    match seen.service(&change.namespace, &slice.service) {
        Some(found) if concerns_us(seen, &found) => vec![ObjectRef::from_obj(found.as_ref())],
        Some(_) => Vec::new(),
        None => chosen(seen, &change.namespace, |it| concerns_us(seen, it) && is_kept(it)),
    }
}

/// The Services of a namespace that have anything to do with us.
pub(super) fn in_namespace(seen: &Seen, namespace: &str) -> Refs {
    chosen(seen, namespace, |it| concerns_us(seen, it))
}

/// All Services of a namespace: what it says of them was for all, and so is that it says nothing any more.
pub(super) fn all_in(seen: &Seen, change: &Change<bool>) -> Refs {
    chosen(seen, &change.name, |_| true)
}

/// The Services of a namespace whose traffic goes to the router as long as somebody needs it, and that were or are needed by
/// what changed.
pub(super) fn while_active(seen: &Seen, change: &Change<Vec<String>>) -> Refs {
    let concerned: Vec<&String> = [&change.before, &change.now].into_iter().flatten().flatten().collect();
    chosen(seen, &change.namespace, |it| {
        let annotations = it.meta().annotations.as_ref();
        annotations.is_some_and(|it| routing(it) == Some(Routing::WhileActive))
            && concerned.iter().any(|name| it.meta().name.as_ref() == Some(*name))
    })
}

fn chosen(seen: &Seen, namespace: &str, is: impl Fn(&Guarded) -> bool) -> Refs {
    let all = seen.services.state();
    let here = all.iter().filter(|it| it.meta().namespace.as_deref() == Some(namespace));
    here.filter(|it| is(it)).map(|it: &Arc<Guarded>| ObjectRef::from_obj(it.as_ref())).collect()
}

/// Whether a Service is annotated by its owner or by us, or its namespace is.
fn concerns_us(seen: &Seen, object: &Guarded) -> bool {
    let annotations = object.meta().annotations.as_ref();
    let is_named = annotations.is_some_and(|all| all.keys().any(|it| it.starts_with(names::GROUP)));
    let is_a_fork = object.0.as_ref().is_ok_and(is_ours);
    is_named || (!is_a_fork && seen.is_routed(object.meta().namespace.as_deref().unwrap_or_default()))
}
