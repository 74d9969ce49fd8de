//! In-memory EKS for tests.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use capt_engine::aws::{
    EksAccessEntry, EksAddon, EksApi, EksCluster, EksError, EksFargateProfile, EksFuture,
};

/// Contents of the fake.
#[derive(Debug, Default)]
pub(super) struct FakeEksState {
    /// Name → cluster.
    pub(super) clusters: BTreeMap<String, EksCluster>,
    /// Cluster and profile → profile.
    pub(super) profiles: BTreeMap<(String, String), EksFargateProfile>,
    /// Cluster → addons.
    pub(super) addons: BTreeMap<String, Vec<EksAddon>>,
    /// Cluster and principal → entry.
    pub(super) access_entries: BTreeMap<(String, String), EksAccessEntry>,
    /// Error of every call, if set: its message, and whether it is transient.
    pub(super) failure: Option<(String, bool)>,
    /// Log of the calls, such as `cluster shop`.
    pub(super) queries: Vec<String>,
}

/// In-memory EKS.
#[derive(Debug, Default)]
pub(super) struct FakeEks(Mutex<FakeEksState>);

impl FakeEks {
    /// Reads or changes the contents.
    pub(super) fn with_state<T>(&self, work: impl FnOnce(&mut FakeEksState) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn respond<'a, T: Send + 'a>(
        &'a self,
        question: String,
        work: impl FnOnce(&FakeEksState) -> T + Send + 'a,
    ) -> EksFuture<'a, T> {
        Box::pin(async move {
            self.with_state(|world| {
                world.queries.push(question.clone());
                match &world.failure {
                    Some((said, transient)) => {
                        Err(EksError::Failed { what: question, reason: said.clone(), transient: *transient })
                    }
                    None => Ok(work(world)),
                }
            })
        })
    }
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

impl EksApi for FakeEks {
    fn describe_cluster<'a>(&'a self, name: &'a str) -> EksFuture<'a, Option<EksCluster>> {
        self.respond(format!("cluster {name}"), |world| world.clusters.get(name).cloned())
    }

    fn describe_fargate_profile<'a>(
        &'a self,
        cluster: &'a str,
        profile: &'a str,
    ) -> EksFuture<'a, Option<EksFargateProfile>> {
        self.respond(format!("profile {cluster}:{profile}"), |world| {
            world.profiles.get(&pair(cluster, profile)).cloned()
        })
    }

    fn list_fargate_profiles<'a>(&'a self, cluster: &'a str) -> EksFuture<'a, Vec<String>> {
        self.respond(format!("profiles {cluster}"), move |world| {
            world.profiles.keys().filter(|(of, _)| of == cluster).map(|(_, name)| name.clone()).collect()
        })
    }

    fn describe_addons<'a>(&'a self, cluster: &'a str) -> EksFuture<'a, Vec<EksAddon>> {
        self.respond(format!("addons {cluster}"), |world| {
            world.addons.get(cluster).cloned().unwrap_or_default()
        })
    }

    fn describe_access_entry<'a>(
        &'a self,
        cluster: &'a str,
        principal: &'a str,
    ) -> EksFuture<'a, Option<EksAccessEntry>> {
        self.respond(format!("entry {cluster}:{principal}"), |world| {
            world.access_entries.get(&pair(cluster, principal)).cloned()
        })
    }
}

#[tokio::test]
async fn the_fake_says_what_it_was_told() {
    let fake = FakeEks::default();
    fake.with_state(|world| {
        world
            .clusters
            .insert("shop".to_owned(), EksCluster { name: "shop".to_owned(), ..EksCluster::default() });
        world.profiles.insert(pair("shop", "one"), EksFargateProfile::default());
        world.profiles.insert(pair("other", "two"), EksFargateProfile::default());
        world.addons.insert("shop".to_owned(), vec![EksAddon::default()]);
        world.access_entries.insert(pair("shop", "me"), EksAccessEntry::default());
    });
    let eks: &dyn EksApi = &fake;
    assert_eq!(eks.describe_cluster("shop").await.unwrap().unwrap().name, "shop");
    assert_eq!(eks.describe_cluster("other").await.unwrap(), None);
    assert_eq!(eks.list_fargate_profiles("shop").await.unwrap(), ["one"]);
    assert!(eks.describe_fargate_profile("shop", "two").await.unwrap().is_none());
    assert_eq!(eks.describe_addons("shop").await.unwrap().len(), 1);
    assert!(eks.describe_access_entry("shop", "me").await.unwrap().is_some());
    assert_eq!(fake.with_state(|world| world.queries.len()), 6);

    fake.with_state(|world| world.failure = Some(("busy".to_owned(), true)));
    assert!(eks.describe_cluster("shop").await.unwrap_err().is_transient());
}
