//! Index of the workspaces that use each template. It stores only the template reference of a workspace, so that frequent
//! status changes reconcile no template.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use capt_kinds::api::{WorkspaceTemplate, WorkspaceTemplateApply};
use capt_model::workspaces::WorkspaceKey;
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

use crate::common::Context;

/// A workspace, deserialized only as far as needed here.
type TemplateUser = Object<TemplateUse, IgnoredAny>;

type TemplateObjectRef = ObjectRef<DeserializeGuard<WorkspaceTemplate>>;

/// The template reference in a workspace's spec. Ignores all other fields, valid or not.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TemplateUse {
    #[serde(default)]
    template_ref: Value,
}

/// Workspaces by template.
#[derive(Clone, Default)]
pub struct TemplateUsageIndex(Arc<Mutex<UsageState>>);

#[derive(Default)]
struct UsageState {
    /// Template by workspace.
    template_by_workspace: BTreeMap<WorkspaceKey, WorkspaceKey>,
    /// The same, collected during a relist.
    relisted: BTreeMap<WorkspaceKey, WorkspaceKey>,
    /// The initial list is complete.
    is_synced: bool,
}

impl TemplateUsageIndex {
    /// Workspaces that use the template; none until the initial list is complete.
    pub fn users_of(&self, template: &WorkspaceKey) -> Option<Vec<String>> {
        let known = self.lock();
        let users = known.template_by_workspace.iter().filter(|(_, used)| *used == template);
        known.is_synced.then(|| users.map(|(user, _)| user.to_string()).collect())
    }

    /// Watches the workspaces; the stream yields templates that gained or lost a user.
    pub fn watch(&self, ctx: &Context) -> impl Stream<Item = TemplateObjectRef> + Send + 'static {
        let kind = ApiResource::erase::<WorkspaceTemplateApply>(&());
        let client = ctx.kube.client().clone();
        let workspaces: Api<TemplateUser> = match &ctx.settings.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let users = self.clone();
        watcher(workspaces, watcher::Config::default())
            .default_backoff()
            .filter_map(async |event| match event {
                Ok(event) => Some(event),
                Err(error) => {
                    tracing::warn!(%error, "WorkspaceTemplateApply watch failed, restarting");
                    None
                }
            })
            .flat_map(move |event| stream::iter(users.apply_event(event)))
            .map(|template| ObjectRef::new(&template.name).within(&template.namespace))
    }

    /// Applies a watch event and returns the affected templates.
    fn apply_event(&self, event: Event<TemplateUser>) -> BTreeSet<WorkspaceKey> {
        let mut known = self.lock();
        match event {
            Event::Init => known.relisted.clear(),
            Event::InitApply(user) => {
                if let Some(template) = template_key(&user) {
                    known.relisted.insert(workspace_key(&user), template);
                }
            }
            Event::InitDone => {
                known.is_synced = true;
                let next = std::mem::take(&mut known.relisted);
                let before = std::mem::replace(&mut known.template_by_workspace, next);
                return before.into_values().chain(known.template_by_workspace.values().cloned()).collect();
            }
            Event::Apply(user) => {
                let (me, now) = (workspace_key(&user), template_key(&user));
                let before = match &now {
                    Some(template) => known.template_by_workspace.insert(me, template.clone()),
                    None => known.template_by_workspace.remove(&me),
                };
                if before != now {
                    return before.into_iter().chain(now).collect();
                }
            }
            Event::Delete(user) => {
                return known.template_by_workspace.remove(&workspace_key(&user)).into_iter().collect();
            }
        }
        BTreeSet::new()
    }

    fn lock(&self) -> MutexGuard<'_, UsageState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn workspace_key(user: &TemplateUser) -> WorkspaceKey {
    WorkspaceKey::new(&user.namespace().unwrap_or_default(), &user.name_any())
}

/// Key of the template that a workspace references; the namespace defaults to the workspace's.
fn template_key(user: &TemplateUser) -> Option<WorkspaceKey> {
    let text = |field| user.spec.template_ref.get(field)?.as_str().filter(|text| !text.is_empty());
    let namespace = text("namespace").map(str::to_owned).or_else(|| user.meta().namespace.clone());
    Some(WorkspaceKey::new(&namespace.unwrap_or_default(), text("name")?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(name: &str, template: &Value) -> TemplateUser {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"namespace": "team", "name": name},
            "spec": {"templateRef": template, "variables": 7}, "status": "nonsense",
        }))
        .unwrap()
    }

    fn keys(all: &BTreeSet<WorkspaceKey>) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_is_known_before_the_list_was_read() {
        let users = TemplateUsageIndex::default();
        users.apply_event(Event::Init);
        users.apply_event(Event::InitApply(user("a", &json!({"name": "vpc"}))));
        assert_eq!(users.users_of(&WorkspaceKey::new("team", "vpc")), None);
        assert_eq!(keys(&users.apply_event(Event::InitDone)), ["team/vpc"]);
        assert_eq!(users.users_of(&WorkspaceKey::new("team", "vpc")), Some(vec!["team/a".to_owned()]));
    }

    #[test]
    fn only_a_change_of_the_template_concerns_templates() {
        let users = TemplateUsageIndex::default();
        let vpc = json!({"name": "vpc"});
        assert_eq!(keys(&users.apply_event(Event::Apply(user("a", &vpc)))), ["team/vpc"]);
        assert_eq!(keys(&users.apply_event(Event::Apply(user("a", &vpc)))), [""; 0]);
        let other = json!({"name": "eks", "namespace": "shared"});
        assert_eq!(keys(&users.apply_event(Event::Apply(user("a", &other)))), ["shared/eks", "team/vpc"]);
        assert_eq!(keys(&users.apply_event(Event::Apply(user("a", &Value::Null)))), ["shared/eks"]);
        assert_eq!(keys(&users.apply_event(Event::Delete(user("a", &vpc)))), [""; 0]);
    }

    #[test]
    fn a_list_that_is_read_again_forgets_who_is_gone() {
        let users = TemplateUsageIndex::default();
        users.apply_event(Event::Apply(user("a", &json!({"name": "vpc"}))));
        users.apply_event(Event::Init);
        assert_eq!(keys(&users.apply_event(Event::InitDone)), ["team/vpc"]);
        assert_eq!(users.users_of(&WorkspaceKey::new("team", "vpc")), Some(Vec::new()));
    }
}
