//! Against a real API server in this process, also one that misbehaves.

mod edits;
mod journal;
mod trouble;

use capt_kinds::api::names::{CLUSTER_NAME_LABEL, FENCE_ANNOTATION, IN_USE_FINALIZER};
use embedded_kube::fault_injection::Fault;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, NamespaceCondition, Secret};
use kube::ResourceExt;
use serde_json::json;
use terraform_driver::{state::StateVersion, workspace::WorkspaceBackup};

use super::{
    super::{DeletionPropagation, KubeClient, tests::World},
    FencingToken, KubeStateStore, SaveOutcome, StateOwner, StateStoreError, StoredPlace, StoredWorkspace,
    layout,
};
use crate::error::ErrorClass;

const ONE: FencingToken = FencingToken(1);

/// A state with something in it, or with nothing.
fn state(lineage: &str, serial: u64, payload: &str) -> Vec<u8> {
    let resources = match payload {
        "" => json!([]),
        payload => {
            json!([{"mode": "managed", "type": "aws_vpc", "name": "this", "instances": [{"attributes": {"id": payload}}]}])
        }
    };
    serde_json::to_vec(&json!({"version": 4, "serial": serial, "lineage": lineage, "resources": resources}))
        .unwrap()
}

/// Text that does not get smaller.
fn noise(bytes: usize, mut seed: u64) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[usize::try_from(seed >> 58).unwrap()])
    };
    (0..bytes).map(|_| next()).collect()
}

fn only_state(bytes: Vec<u8>) -> WorkspaceBackup {
    WorkspaceBackup { state: Some(bytes), ..WorkspaceBackup::default() }
}

fn small_pages(kube: KubeClient) -> KubeStateStore {
    KubeStateStore { page_size: 10_000, ..KubeStateStore::new(kube) }
}

struct Scene {
    world: World,
    vault: KubeStateStore,
    home: StateOwner,
    owner: ConfigMap,
}

impl Scene {
    async fn start() -> Self {
        let world = World::start().await;
        let (owner, reference) = world.owner("vpc").await;
        let home = StateOwner {
            namespace: "shop".to_owned(),
            workspace: "shop-vpc".to_owned(),
            owner: Some(reference),
            cluster: Some("shop".to_owned()),
        };
        let vault = KubeStateStore::new(world.kube.clone());
        Self { world, vault, home, owner }
    }

    /// With pages so small that a state has many.
    fn with_small_pages(mut self) -> Self {
        self.vault = small_pages(self.world.kube.clone());
        self
    }

    async fn save(
        &self,
        deposit: &WorkspaceBackup,
        fence: FencingToken,
    ) -> Result<SaveOutcome, StateStoreError> {
        self.vault.save(&self.home, deposit, fence).await
    }

    async fn load(&self) -> Option<super::LoadedState> {
        self.vault.load("shop", "shop-vpc").await.unwrap()
    }

    async fn secrets(&self) -> Vec<Secret> {
        self.world.kube.list(Some("shop"), &layout::selector("shop-vpc")).await.unwrap()
    }
}

#[tokio::test]
async fn a_large_state_and_its_bundle_come_back_and_the_state_goes_on() {
    let scene = Scene::start().await;
    assert_eq!(scene.load().await, None);
    let first = state("abc", 1, &noise(5_000_000, 1));
    let deposit = WorkspaceBackup { state: Some(first.clone()), bundle: Some(b"bundle".to_vec()), edits: 0 };
    assert_eq!(scene.save(&deposit, ONE).await.unwrap(), SaveOutcome::Written);
    let loaded = scene.load().await.unwrap();
    assert!(loaded.payload == deposit && !loaded.is_fallback);
    assert_eq!(loaded.version, Some(StateVersion { lineage: "abc".to_owned(), serial: 1 }));

    let pages = scene.secrets().await;
    // Base 64 of six bits a letter packs to three quarters: 3.75 MB are five pages, twice, and the bundle's two, and one.
    assert_eq!(pages.len(), 13);
    for secret in &pages {
        assert_eq!(secret.type_.as_deref(), Some("capt.x-k8s.io/state"));
        assert_eq!(secret.finalizers(), [IN_USE_FINALIZER]);
        assert_eq!(secret.labels()[CLUSTER_NAME_LABEL], "shop");
        assert_eq!(secret.owner_references(), [scene.home.owner.clone().unwrap()]);
        let largest = secret.data.iter().flat_map(|data| data.values()).map(|value| value.0.len()).max();
        assert!(largest <= Some(900 * 1024));
    }

    // A smaller one, in the other slot; the bundle stays.
    let second = state("abc", 2, "vpc-2");
    assert_eq!(scene.save(&only_state(second.clone()), ONE).await.unwrap(), SaveOutcome::Written);
    let loaded = scene.load().await.unwrap();
    assert_eq!(loaded.payload.state, Some(second));
    assert_eq!(loaded.payload.bundle.as_deref(), Some(&b"bundle"[..]));
    assert_eq!(scene.secrets().await.len(), 13);
}

#[tokio::test]
async fn what_is_kept_already_is_not_written_and_what_is_older_is_told() {
    let scene = Scene::start().await;
    let deposit =
        WorkspaceBackup { state: Some(state("abc", 5, "vpc-5")), bundle: Some(b"b".to_vec()), edits: 0 };
    scene.save(&deposit, ONE).await.unwrap();
    scene.world.writes();
    assert_eq!(scene.save(&deposit, ONE).await.unwrap(), SaveOutcome::Unchanged);
    assert_eq!(scene.save(&WorkspaceBackup::default(), ONE).await.unwrap(), SaveOutcome::Unchanged);
    // A leader that has nothing to say leaves no trace either.
    assert_eq!(scene.save(&deposit, FencingToken(2)).await.unwrap(), SaveOutcome::Unchanged);
    let kept = StateVersion { lineage: "abc".to_owned(), serial: 5 };
    let older = scene.save(&only_state(state("abc", 4, "vpc-4")), ONE).await.unwrap();
    assert_eq!((older, scene.world.writes()), (SaveOutcome::Older { kept }, 0));

    scene.save(&only_state(state("abc", 6, "vpc-6")), ONE).await.unwrap();
    assert_eq!(scene.world.writes(), 2, "one page and the commit");
}

#[tokio::test]
async fn another_history_begins_only_after_an_empty_state() {
    let scene = Scene::start().await;
    scene.save(&only_state(state("abc", 5, "vpc-5")), ONE).await.unwrap();
    let error = scene.save(&only_state(state("xyz", 9, "vpc-9")), ONE).await.unwrap_err();
    assert_eq!((error.class(), error.category()), (ErrorClass::Terminal, "OtherLineage"), "{error}");
    let error = scene.save(&only_state(b"{\"serial\": 6".to_vec()), ONE).await.unwrap_err();
    assert_eq!(error.category(), "NotAState");
    assert_eq!(scene.load().await.unwrap().version.unwrap().serial, 5);

    scene.save(&only_state(state("abc", 6, "")), ONE).await.unwrap();
    assert_eq!(scene.save(&only_state(state("xyz", 1, "vpc-1")), ONE).await.unwrap(), SaveOutcome::Written);
    assert_eq!(scene.load().await.unwrap().version.unwrap().lineage, "xyz");
}

#[tokio::test]
async fn neither_the_owner_nor_the_namespace_takes_a_state_before_it_is_released() {
    let scene = Scene::start().await;
    let deposit =
        WorkspaceBackup { state: Some(state("abc", 1, "vpc-1")), bundle: Some(b"b".to_vec()), edits: 0 };
    scene.save(&deposit, ONE).await.unwrap();
    scene.world.kube.delete(&scene.owner, DeletionPropagation::Foreground).await.unwrap();
    let all_going = async || {
        scene.secrets().await.iter().all(|one| one.metadata.deletion_timestamp.is_some()).then_some(())
    };
    scene.world.until(all_going).await;
    assert!(scene.load().await.unwrap().payload == deposit);

    let shop: Namespace = scene.world.kube.get(None, "shop").await.unwrap().unwrap();
    scene.world.kube.delete(&shop, DeletionPropagation::Background).await.unwrap();
    let has_tried = async || {
        let shop = scene.world.kube.get::<Namespace>(None, "shop").await.unwrap()?;
        let conditions = shop.status?.conditions?;
        let remains =
            |it: &&NamespaceCondition| it.type_ == "NamespaceContentRemaining" && it.status == "True";
        conditions.iter().find(remains).map(drop)
    };
    scene.world.until(has_tried).await;
    // A destroy goes on writing states.
    let empty = state("abc", 2, "");
    assert_eq!(scene.save(&only_state(empty.clone()), FencingToken(2)).await.unwrap(), SaveOutcome::Written);
    assert_eq!(scene.load().await.unwrap().payload.state, Some(empty));
    // One that outgrew its pages cannot be kept, and says so; the last one stays.
    let error =
        scene.save(&only_state(state("abc", 3, &noise(1_300_000, 1))), FencingToken(2)).await.unwrap_err();
    assert!(matches!(error, StateStoreError::NoRoom { part: "state", needed: 2, there: 1, .. }), "{error:?}");
    assert_eq!(scene.load().await.unwrap().version.unwrap().serial, 2);

    assert_eq!(scene.vault.release("shop", "shop-vpc").await.unwrap(), 5);
    let gone =
        async || scene.world.kube.get::<Namespace>(None, "shop").await.unwrap().is_none().then_some(());
    scene.world.until(gone).await;
}

#[tokio::test]
async fn the_namespace_alone_takes_nothing_and_a_first_save_in_it_says_why_not() {
    let scene = Scene::start().await;
    scene.save(&only_state(state("abc", 1, "vpc-1")), ONE).await.unwrap();
    let shop: Namespace = scene.world.kube.get(None, "shop").await.unwrap().unwrap();
    scene.world.kube.delete(&shop, DeletionPropagation::Background).await.unwrap();
    let other = StateOwner { workspace: "other".to_owned(), owner: None, ..scene.home.clone() };
    let error = scene.vault.save(&other, &only_state(state("o", 1, "x")), ONE).await.unwrap_err();
    assert!(matches!(error, StateStoreError::NoRoom { part: "commit", .. }), "{error}");
    let bundle = WorkspaceBackup { state: None, bundle: Some(b"late".to_vec()), edits: 0 };
    assert_eq!(scene.save(&bundle, ONE).await.unwrap(), SaveOutcome::Written);
    assert_eq!(scene.load().await.unwrap().payload.bundle.as_deref(), Some(&b"late"[..]));
}

#[tokio::test]
async fn a_release_takes_everything_can_be_repeated_and_leaves_others_alone() {
    let scene = Scene::start().await;
    scene.save(&only_state(state("abc", 1, "vpc-1")), ONE).await.unwrap();
    let label = layout::selector("shop-vpc");
    let (key, value) = label.split_once('=').unwrap();
    let theirs = json!({"metadata": {"name": "theirs", "namespace": "shop", "labels": {key: value}}});
    scene.world.make::<Secret>(theirs).await;
    let fault = Fault::fail(|call| call.targets("secrets") && call.is_write(), 500).nth(4);
    let id = scene.world.server.faults().add(fault);
    scene.vault.release("shop", "shop-vpc").await.unwrap_err();
    scene.world.server.faults().remove(id);
    assert_eq!(scene.load().await.map(|loaded| loaded.payload.bundle), Some(None), "the commit goes last");
    assert!(scene.vault.release("shop", "shop-vpc").await.unwrap() > 0);
    assert_eq!(scene.vault.release("shop", "shop-vpc").await.unwrap(), 0);
    assert_eq!(scene.load().await, None);
    assert_eq!(scene.secrets().await.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["theirs"]);
}

#[tokio::test]
async fn a_damaged_copy_is_never_given_out() {
    let scene = Scene::start().await;
    let (first, second) = (state("abc", 1, "vpc-1"), state("abc", 2, "vpc-2"));
    scene.save(&only_state(first.clone()), ONE).await.unwrap();
    scene.save(&only_state(second), ONE).await.unwrap();
    let spoil = async |slot| {
        let name = layout::page_name("shop-vpc", layout::StatePart::State, slot, 0);
        let mut page: Secret = scene.world.kube.get(Some("shop"), &name).await.unwrap().unwrap();
        page.data.as_mut().unwrap().get_mut("page").unwrap().0[12] ^= 1;
        scene.world.kube.replace(&page).await.unwrap();
    };
    spoil(layout::StateSlot::B).await;
    let loaded = scene.load().await.unwrap();
    assert!(loaded.is_fallback && loaded.payload.state == Some(first));
    assert_eq!(loaded.version.unwrap().serial, 1);
    spoil(layout::StateSlot::A).await;
    let error = scene.vault.load("shop", "shop-vpc").await.unwrap_err();
    assert_eq!((error.category(), error.class()), ("Damaged", ErrorClass::Terminal));

    let commit: Secret = scene.world.kube.get(Some("shop"), "capt-state-shop-vpc").await.unwrap().unwrap();
    scene.world.kube.delete(&commit, DeletionPropagation::Background).await.unwrap();
    scene.world.kube.remove_finalizers(&commit, &[IN_USE_FINALIZER]).await.unwrap();
    assert_eq!(scene.vault.load("shop", "shop-vpc").await.unwrap_err().category(), "Headless");
}

/// `clusterctl move`: the Secrets are made again elsewhere, with other uids and without finalizers.
#[tokio::test]
async fn a_state_that_was_moved_is_protected_again_and_leaders_elsewhere_do_not_count() {
    let (scene, there) = (Scene::start().await, Scene::start().await);
    scene.save(&only_state(state("abc", 1, "vpc-1")), FencingToken(900)).await.unwrap();
    for mut secret in scene.secrets().await {
        assert!(secret.annotations().contains_key(FENCE_ANNOTATION));
        secret.metadata.uid = None;
        secret.metadata.resource_version = None;
        secret.metadata.finalizers = None;
        secret.metadata.owner_references = None;
        there.world.kube.create(&secret).await.unwrap();
    }
    assert_eq!(there.vault.protect(&there.home).await.unwrap(), 5);
    assert_eq!(there.vault.protect(&there.home).await.unwrap(), 0);
    assert!(there.secrets().await.iter().all(|one| one.finalizers() == [IN_USE_FINALIZER]));
    assert!(there.secrets().await.iter().all(|one| one.owner_references().len() == 1));
    assert_eq!(there.save(&only_state(state("abc", 2, "vpc-2")), ONE).await.unwrap(), SaveOutcome::Written);
    assert_eq!(there.load().await.unwrap().version.unwrap().serial, 2);
}

#[tokio::test]
async fn saves_of_one_workspace_from_many_tasks_end_with_the_newest() {
    let scene = Scene::start().await;
    let saves = (1..=8).map(|serial| {
        let deposit = only_state(state("abc", serial, &format!("vpc-{serial}")));
        let (vault, home) = (scene.vault.clone(), scene.home.clone());
        async move { vault.save(&home, &deposit, ONE).await.unwrap() }
    });
    futures::future::join_all(saves).await;
    let loaded = scene.load().await.unwrap();
    assert_eq!((loaded.version.unwrap().serial, loaded.is_fallback), (8, false));
}

#[tokio::test]
async fn the_state_of_the_kubernetes_backend_is_read() {
    let scene = Scene::start().await;
    let bytes = state("abc", 7, &noise(100_000, 1));
    let whole: Vec<u8> =
        super::compress::CompressedPages::from_bytes(&bytes, 1_000_000).pages().flatten().copied().collect();
    for (number, part) in whole.chunks(40_000).enumerate() {
        let secret = json!({
            "metadata": {"name": super::backend_secret_name("demo", "aws", number), "namespace": "shop"},
            "data": {"tfstate": k8s_openapi::ByteString(part.to_vec())},
        });
        scene.world.make::<Secret>(secret).await;
    }
    assert!(whole.len() > 40_000);
    let read = scene.vault.read_kubernetes_backend("shop", "demo", "aws").await.unwrap().unwrap();
    assert_eq!((read.bytes, read.version.serial), (bytes, 7));
    assert_eq!(scene.vault.read_kubernetes_backend("shop", "none", "aws").await.unwrap(), None);
}

#[tokio::test]
async fn an_equal_serial_with_other_contents_is_refused_unless_its_own_writer_replaces_it() {
    let scene = Scene::start().await;
    scene.save(&only_state(state("abc", 3, "vpc-1")), ONE).await.unwrap();
    assert_eq!(
        scene.save(&only_state(state("abc", 3, "vpc-1")), FencingToken(2)).await.unwrap(),
        SaveOutcome::Unchanged
    );
    let error = scene.save(&only_state(state("abc", 3, "vpc-2")), FencingToken(2)).await.unwrap_err();
    assert!(matches!(error, StateStoreError::Forked { serial: 3, .. }), "{error}");
    assert_eq!(
        scene.save(&only_state(state("abc", 3, "vpc-2")), ONE).await.unwrap(),
        SaveOutcome::Written,
        "the same leader has written both"
    );
}
