//! Which workspaces use which template. Of each workspace only the name of its template is kept: a status that changes
//! every second concerns no template.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api, Resource, ResourceExt,
    core::{ApiResource, DeserializeGuard, Object},
    runtime::{
        WatchStreamExt as _,
        reflector::ObjectRef,
        watcher::{self, Event, watcher},
    },
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use crate::{
    api::{WorkspaceTemplate, WorkspaceTemplateApply},
    blueprint::Key,
    controllers::common::Context,
};

/// A workspace, as far as it concerns templates.
type User = Object<Uses, IgnoredAny>;

type Ref = ObjectRef<DeserializeGuard<WorkspaceTemplate>>;

/// The part of a workspace that names its template. Whatever else is wrong with the object is not our concern.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Uses {
    #[serde(default)]
    template_ref: Value,
}

/// Who uses what.
#[derive(Clone, Default)]
pub struct Users(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Template of each workspace.
    of: BTreeMap<Key, Key>,
    /// The same, while a list is read.
    next: BTreeMap<Key, Key>,
    /// A list was read to its end.
    complete: bool,
}

impl Users {
    /// The workspaces that use a template; nothing while that is not known yet.
    pub fn of(&self, template: &Key) -> Option<Vec<String>> {
        let known = self.lock();
        let users = known.of.iter().filter(|(_, used)| *used == template);
        known.complete.then(|| users.map(|(user, _)| user.to_string()).collect())
    }

    /// Follows the workspaces; the stream names templates that gained or lost a user.
    pub fn follow(&self, ctx: &Context) -> impl Stream<Item = Ref> + Send + 'static {
        let kind = ApiResource::erase::<WorkspaceTemplateApply>(&());
        let client = ctx.kube.client().clone();
        let workspaces: Api<User> = match &ctx.settings.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let users = self.clone();
        watcher(workspaces, watcher::Config::default())
            .default_backoff()
            .filter_map(async |event| match event {
                Ok(event) => Some(event),
                Err(error) => {
                    tracing::warn!(%error, "the watch of those that use templates stumbled");
                    None
                }
            })
            .flat_map(move |event| stream::iter(users.take_in(event)))
            .map(|template| ObjectRef::new(&template.name).within(&template.namespace))
    }

    /// Takes in what a watch says; the templates that it concerns.
    fn take_in(&self, event: Event<User>) -> BTreeSet<Key> {
        let mut known = self.lock();
        match event {
            Event::Init => known.next.clear(),
            Event::InitApply(user) => {
                if let Some(template) = template(&user) {
                    known.next.insert(name(&user), template);
                }
            }
            Event::InitDone => {
                known.complete = true;
                let next = std::mem::take(&mut known.next);
                let before = std::mem::replace(&mut known.of, next);
                return before.into_values().chain(known.of.values().cloned()).collect();
            }
            Event::Apply(user) => {
                let (me, now) = (name(&user), template(&user));
                let before = match &now {
                    Some(template) => known.of.insert(me, template.clone()),
                    None => known.of.remove(&me),
                };
                if before != now {
                    return before.into_iter().chain(now).collect();
                }
            }
            Event::Delete(user) => return known.of.remove(&name(&user)).into_iter().collect(),
        }
        BTreeSet::new()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(user: &User) -> Key {
    Key::new(&user.namespace().unwrap_or_default(), &user.name_any())
}

/// The template that a workspace names, in its own namespace unless it says otherwise.
fn template(user: &User) -> Option<Key> {
    let text = |field| user.spec.template_ref.get(field)?.as_str().filter(|text| !text.is_empty());
    let namespace = text("namespace").map(str::to_owned).or_else(|| user.meta().namespace.clone());
    Some(Key::new(&namespace.unwrap_or_default(), text("name")?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(name: &str, template: &Value) -> User {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"namespace": "team", "name": name},
            "spec": {"templateRef": template, "variables": 7}, "status": "nonsense",
        }))
        .unwrap()
    }

    fn keys(all: &BTreeSet<Key>) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_is_known_before_the_list_was_read() {
        let users = Users::default();
        users.take_in(Event::Init);
        users.take_in(Event::InitApply(user("a", &json!({"name": "vpc"}))));
        assert_eq!(users.of(&Key::new("team", "vpc")), None);
        assert_eq!(keys(&users.take_in(Event::InitDone)), ["team/vpc"]);
        assert_eq!(users.of(&Key::new("team", "vpc")), Some(vec!["team/a".to_owned()]));
    }

    #[test]
    fn only_a_change_of_the_template_concerns_templates() {
        let users = Users::default();
        let vpc = json!({"name": "vpc"});
        assert_eq!(keys(&users.take_in(Event::Apply(user("a", &vpc)))), ["team/vpc"]);
        assert_eq!(keys(&users.take_in(Event::Apply(user("a", &vpc)))), [""; 0]);
        let other = json!({"name": "eks", "namespace": "shared"});
        assert_eq!(keys(&users.take_in(Event::Apply(user("a", &other)))), ["shared/eks", "team/vpc"]);
        assert_eq!(keys(&users.take_in(Event::Apply(user("a", &Value::Null)))), ["shared/eks"]);
        assert_eq!(keys(&users.take_in(Event::Delete(user("a", &vpc)))), [""; 0]);
    }

    #[test]
    fn a_list_that_is_read_again_forgets_who_is_gone() {
        let users = Users::default();
        users.take_in(Event::Apply(user("a", &json!({"name": "vpc"}))));
        users.take_in(Event::Init);
        assert_eq!(keys(&users.take_in(Event::InitDone)), ["team/vpc"]);
        assert_eq!(users.of(&Key::new("team", "vpc")), Some(Vec::new()));
    }
}
