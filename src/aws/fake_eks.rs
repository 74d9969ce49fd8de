//! An EKS for tests: it says what it was told.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use super::{AccessEntryView, AddonView, AskEks, Asked, ClusterView, EksError, ProfileView};

/// What there is.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// Name → cluster.
    pub(crate) clusters: BTreeMap<String, ClusterView>,
    /// Cluster and profile → profile.
    pub(crate) profiles: BTreeMap<(String, String), ProfileView>,
    /// Cluster → addons.
    pub(crate) addons: BTreeMap<String, Vec<AddonView>>,
    /// Cluster and principal → entry.
    pub(crate) entries: BTreeMap<(String, String), AccessEntryView>,
    /// Every question is refused like this: what is said, and whether it passes.
    pub(crate) refusal: Option<(String, bool)>,
    /// The questions so far, as `cluster shop`.
    pub(crate) asked: Vec<String>,
}

/// An EKS for tests.
#[derive(Debug, Default)]
pub(crate) struct FakeEks(Mutex<World>);

impl FakeEks {
    /// Changes or reads what there is.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut World) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer<'a, T: Send + 'a>(
        &'a self,
        question: String,
        work: impl FnOnce(&World) -> T + Send + 'a,
    ) -> Asked<'a, T> {
        Box::pin(async move {
            self.with(|world| {
                world.asked.push(question.clone());
                match &world.refusal {
                    Some((said, transient)) => {
                        Err(EksError::Refused { what: question, said: said.clone(), transient: *transient })
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

impl AskEks for FakeEks {
    fn cluster<'a>(&'a self, name: &'a str) -> Asked<'a, Option<ClusterView>> {
        self.answer(format!("cluster {name}"), |world| world.clusters.get(name).cloned())
    }

    fn profile<'a>(&'a self, cluster: &'a str, profile: &'a str) -> Asked<'a, Option<ProfileView>> {
        self.answer(format!("profile {cluster}:{profile}"), |world| {
            world.profiles.get(&pair(cluster, profile)).cloned()
        })
    }

    fn profiles<'a>(&'a self, cluster: &'a str) -> Asked<'a, Vec<String>> {
        self.answer(format!("profiles {cluster}"), move |world| {
            world.profiles.keys().filter(|(of, _)| of == cluster).map(|(_, name)| name.clone()).collect()
        })
    }

    fn addons<'a>(&'a self, cluster: &'a str) -> Asked<'a, Vec<AddonView>> {
        self.answer(format!("addons {cluster}"), |world| {
            world.addons.get(cluster).cloned().unwrap_or_default()
        })
    }

    fn access_entry<'a>(
        &'a self,
        cluster: &'a str,
        principal: &'a str,
    ) -> Asked<'a, Option<AccessEntryView>> {
        self.answer(format!("entry {cluster}:{principal}"), |world| {
            world.entries.get(&pair(cluster, principal)).cloned()
        })
    }
}

#[tokio::test]
async fn the_fake_says_what_it_was_told() {
    let fake = FakeEks::default();
    fake.with(|world| {
        world
            .clusters
            .insert("shop".to_owned(), ClusterView { name: "shop".to_owned(), ..ClusterView::default() });
        world.profiles.insert(pair("shop", "one"), ProfileView::default());
        world.profiles.insert(pair("other", "two"), ProfileView::default());
        world.addons.insert("shop".to_owned(), vec![AddonView::default()]);
        world.entries.insert(pair("shop", "me"), AccessEntryView::default());
    });
    let eks: &dyn AskEks = &fake;
    assert_eq!(eks.cluster("shop").await.unwrap().unwrap().name, "shop");
    assert_eq!(eks.cluster("other").await.unwrap(), None);
    assert_eq!(eks.profiles("shop").await.unwrap(), ["one"]);
    assert!(eks.profile("shop", "two").await.unwrap().is_none());
    assert_eq!(eks.addons("shop").await.unwrap().len(), 1);
    assert!(eks.access_entry("shop", "me").await.unwrap().is_some());
    assert_eq!(fake.with(|world| world.asked.len()), 6);

    fake.with(|world| world.refusal = Some(("busy".to_owned(), true)));
    assert!(eks.cluster("shop").await.unwrap_err().is_transient());
}
