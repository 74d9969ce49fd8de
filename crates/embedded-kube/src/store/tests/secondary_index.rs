//! Objects are found by their current index terms.

use pretty_assertions::assert_eq;

use super::*;

fn marked(labels: &Value, controller: Option<&str>) -> Draft {
    let owners: Vec<Value> = controller
        .map(|uid| json!({"kind": "ReplicaSet", "uid": uid, "controller": true}))
        .into_iter()
        .collect();
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "x", "labels": labels, "ownerReferences": owners},
    });
    Draft::from_value(&object).unwrap()
}

async fn write(store: &Store, key: &str, labels: Value, controller: Option<&str>) {
    store.write(key, Precondition::Any, Some(marked(&labels, controller))).await.unwrap();
}

fn found(store: &Store, prefix: &str, alternatives: &[Vec<IndexTerm<'_>>]) -> Vec<String> {
    keys(&store.find(prefix, alternatives, |_| true)).into_iter().map(str::to_owned).collect()
}

#[rstest]
#[tokio::test]
async fn objects_are_found_by_their_present_marks(#[values(false, true)] on_disk: bool) {
    let (_dir, place) = place(on_disk);
    let store = Store::open(place.clone(), HistoryLimits::default()).await.unwrap();
    write(&store, "/pods/a/1", json!({"app": "web", "all": "yes"}), Some("set")).await;
    write(&store, "/pods/a/2", json!({"app": "db", "all": "yes"}), None).await;
    write(&store, "/pods/a/3", json!({"app": "web"}), Some("set")).await;
    write(&store, "/pods/ab/4", json!({"app": "web"}), None).await;
    write(&store, "/services/a/5", json!({"app": "web"}), None).await;
    // Relabelled, released, and gone.
    write(&store, "/pods/a/2", json!({"app": "web"}), Some("other")).await;
    write(&store, "/pods/a/3", json!({"app": "web"}), None).await;
    write(&store, "/pods/a/6", json!({"app": "web"}), Some("set")).await;
    remove(&store, "/pods/a/6").await;
    let check = |store: &Store| {
        let web = || vec![IndexTerm::Label("app", "web")];
        assert_eq!(found(store, "/pods/a/", &[web()]), ["/pods/a/1", "/pods/a/2", "/pods/a/3"]);
        assert_eq!(found(store, "/pods/", &[web()]), ["/pods/a/1", "/pods/a/2", "/pods/a/3", "/pods/ab/4"]);
        assert_eq!(found(store, "/pods/a/", &[vec![IndexTerm::Label("app", "db")]]), [""; 0]);
        assert_eq!(found(store, "/pods/a/", &[vec![IndexTerm::Label("no", "db")]]), [""; 0]);
        assert_eq!(found(store, "/pods/", &[vec![IndexTerm::Controller("set")]]), ["/pods/a/1"]);
        assert_eq!(found(store, "/pods/", &[vec![IndexTerm::Controller("other")]]), ["/pods/a/2"]);
        assert_eq!(found(store, "/pods/a/", &[]), [""; 0]);
        assert_eq!(found(store, "/pods/a/", &[vec![]]), ["/pods/a/1", "/pods/a/2", "/pods/a/3"]);
    };
    check(&store);
    store.expire_history();
    store.close().await;
    if on_disk {
        check(&Store::open(place, HistoryLimits::default()).await.unwrap());
    }
}

#[tokio::test]
async fn alternatives_are_found_once_and_in_the_order_of_keys() {
    let store = memory().await;
    write(&store, "/pods/a/3", json!({"app": "web"}), Some("set")).await;
    write(&store, "/pods/a/1", json!({"app": "web"}), None).await;
    write(&store, "/pods/a/2", json!({"app": "db"}), Some("set")).await;
    let alternatives = [vec![IndexTerm::Controller("set")], vec![IndexTerm::Label("app", "web")]];
    assert_eq!(found(&store, "/pods/a/", &alternatives), ["/pods/a/1", "/pods/a/2", "/pods/a/3"]);
    let fitting = store.find("/pods/a/", &alternatives, |marks| marks.label("app") == Some("db"));
    assert_eq!(keys(&fitting), ["/pods/a/2"]);
    assert_eq!(fitting.revision, store.revision());
}

#[tokio::test]
async fn of_several_marks_the_rarest_is_looked_at() {
    let store = memory().await;
    for number in 0..50 {
        write(&store, &format!("/pods/a/{number:02}"), json!({"all": "yes", "n": number.to_string()}), None)
            .await;
    }
    let looked = std::cell::Cell::new(0);
    let marks = vec![IndexTerm::Label("all", "yes"), IndexTerm::Label("n", "7")];
    let found = store.find("/pods/a/", &[marks], |_| {
        looked.set(looked.get() + 1);
        true
    });
    assert_eq!((keys(&found).as_slice(), looked.get()), (["/pods/a/07"].as_slice(), 1));
}

#[tokio::test]
async fn what_is_gone_leaves_no_marks_behind() {
    let store = memory().await;
    write(&store, "/pods/a/1", json!({"app": "web"}), Some("set")).await;
    write(&store, "/pods/a/1", json!({"app": "db"}), None).await;
    remove(&store, "/pods/a/1").await;
    assert!(store.0.shared.view.read().is_index_empty());
}
