use proptest::prelude::*;

use super::*;

/// Sandboxes with forks of some services, ready or not, and groups by label.
#[derive(Debug, Clone)]
struct Plan {
    sandboxes: Vec<(Vec<bool>, bool, u8, Option<u8>)>,
    groups: Vec<(u8, Option<u8>)>,
    /// For which sandbox, which service, and when.
    locals: Vec<(u8, u8, u8)>,
}

const SERVICES: [&str; 4] = ["cart", "web", "pay", "mail"];

fn plan() -> impl Strategy<Value = Plan> {
    let key = || prop::option::of(0..4_u8);
    let sandbox = (prop::collection::vec(any::<bool>(), SERVICES.len()), any::<bool>(), 0..3_u8, key());
    let sandboxes = prop::collection::vec(sandbox, 0..8);
    let groups = prop::collection::vec((0..3_u8, key()), 0..4);
    let locals = prop::collection::vec((0..8_u8, 0..4_u8, 0..3_u8), 0..8);
    (sandboxes, groups, locals).prop_map(|(sandboxes, groups, locals)| Plan { sandboxes, groups, locals })
}

fn shop(plan: &Plan) -> Shop {
    let mut shop = Shop::new(&SERVICES);
    for (at, (forks, ready, label, key)) in plan.sandboxes.iter().enumerate() {
        let forks: Vec<_> =
            SERVICES.iter().zip(forks).filter(|(_, it)| **it).map(|(name, _)| *name).collect();
        shop.sandbox(&format!("s{at}"), &forks, *ready);
        let sandbox = shop.sandboxes.last_mut().unwrap();
        sandbox.metadata.labels = Some([("feature".to_owned(), format!("f{label}"))].into());
        sandbox.spec.routing_key = key.map(|it| format!("k{it}"));
    }
    for (at, (label, key)) in plan.groups.iter().enumerate() {
        let spec = json!({"match": {"label": {"key": "feature", "value": format!("f{label}")}}});
        shop.group(&format!("g{at}"), &spec).spec.routing_key = key.map(|it| format!("k{it}"));
    }
    for (at, (sandbox, service, born)) in plan.locals.iter().enumerate() {
        let baseline = SERVICES[usize::from(*service)];
        let local = shop.local(&format!("s{sandbox}"), baseline, &json!({"disconnectPolicy": "Fork"}));
        local.metadata.name = Some(format!("l{at}"));
        let born = format!("2026-11-17T0{born}:00:00Z");
        local.metadata.creation_timestamp = serde_json::from_value(json!(born)).unwrap();
    }
    shop
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The order of objects makes no difference to anything.
    #[test]
    fn order_makes_no_difference(plan in plan(), seed in any::<u64>()) {
        let shop = shop(&plan);
        let straight = shop.routes();
        let mut objects = shop.objects();
        let turn = |length: usize| if length == 0 { 0 } else { usize::try_from(seed % 97).unwrap() % length };
        objects.sandboxes.reverse();
        let by = turn(objects.groups.len());
        objects.groups.rotate_left(by);
        let by = turn(objects.services.len());
        objects.services.rotate_left(by);
        objects.slices.reverse();
        objects.locals.reverse();
        let by = turn(objects.locals.len());
        objects.locals.rotate_left(by);
        let turned = build_routes(&objects);
        prop_assert_eq!(straight.table.revision(), turned.table.revision());
        prop_assert_eq!(straight.revisions, turned.revisions);
        prop_assert_eq!(straight.owners, turned.owners);
    }

    /// F1: under a key, a service is answered by a fork of it that the key's owner has, by an error, or by the baseline.
    #[test]
    fn f1_no_key_leads_to_a_wrong_fork(plan in plan()) {
        let shop = shop(&plan);
        let routes = shop.routes();
        for (owner, own) in routes.owners.iter().filter(|(_, own)| own.key_holder.is_none()) {
            let sandboxes = match owner.kind {
                OwnerKind::Sandbox => vec![owner.name.clone()],
                OwnerKind::RouteGroup => own.members.iter().map(|it| it.replace("shop/", "")).collect(),
            };
            for route in routes.table.routes() {
                let Some(Target::Backend(backend)) = route.target(&own.key) else { continue };
                let service = route.service().name();
                let forks = |name: &String| {
                    let sandbox = shop.sandboxes.iter().find(|it| it.metadata.name.as_ref() == Some(name)).unwrap();
                    sandbox.spec.forks.iter().any(|it| it.name() == service)
                };
                let who: Vec<_> = sandboxes.iter().filter(|it| forks(it)).collect();
                prop_assert_eq!(who.len(), 1, "{} at {} has one fork", own.key, service);
                prop_assert_eq!(backend.name().to_str().unwrap(), format!("fork/shop/{}", who[0]));
                let slice = &shop.slices[shop.slice_of(&format!("{service}-{}", who[0]))];
                prop_assert_eq!(backend.addresses()[0].ip().to_string(), slice.endpoints[0].addresses[0].clone());
            }
        }
    }

    /// Every key has one owner, and everybody else who wants it knows who that is.
    #[test]
    fn a_key_has_one_owner(plan in plan()) {
        let shop = shop(&plan);
        let routes = shop.routes();
        let mut holders = BTreeMap::new();
        for (owner, own) in &routes.owners {
            if own.key_holder.is_none() {
                prop_assert_eq!(holders.insert(own.key.clone(), owner.clone()), None);
            }
        }
        for own in routes.owners.values() {
            if let Some(older) = &own.key_holder {
                prop_assert_eq!(holders.get(&own.key), Some(older));
            }
        }
    }

    /// Adding a sandbox changes no route of a sandbox that was there.
    #[test]
    fn a_new_sandbox_changes_no_other(plan in plan()) {
        let mut before = shop(&plan);
        let old = before.routes();
        before.sandbox("newest", &SERVICES, true);
        let newest = before.sandboxes.last_mut().unwrap();
        newest.metadata.labels = None;
        newest.metadata.creation_timestamp = serde_json::from_value(json!("2026-11-18T05:00:00Z")).unwrap();
        let new = before.routes();
        for (owner, own) in &old.owners {
            prop_assert_eq!(&new.owners[owner], own);
        }
    }
}
