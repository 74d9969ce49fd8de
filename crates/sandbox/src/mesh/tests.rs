use http::{HeaderMap, HeaderValue};
use regex::Regex;
use rstest::rstest;
use sandbox_router::key::{ExtraKeySources, find_key};

use super::*;

const KEYS_TRIED: [&str; 6] = ["k1", "k2", "k3", "k-1", "a", "k3v9q0d1m2xza"];

/// What the router finds in a header, and the keys whose expression matches it. A mesh joins lines by a comma.
fn both(name: &'static str, lines: &[&str], writing: ValueEncoding) -> (Option<String>, Vec<&'static str>) {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name, HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    let found = find_key(&headers, None, &ExtraKeySources::default()).map(|it| it.key.into_owned());
    let joined = lines.join(",");
    let matching = KEYS_TRIED
        .into_iter()
        .filter(|key| Regex::new(&pattern::list_header_pattern(key, writing)).unwrap().is_match(&joined));
    (found, matching.collect())
}

#[rstest]
fn f10_a_mesh_and_the_router_agree_on_baggage(
    #[values(
        "sd-routing-key=k1",
        "sd-sandbox=k1",
        "a=b,sd-routing-key=k1,c=d",
        "a=b , sd-routing-key=k1 , c=d",
        "\tsd-routing-key\t=\tk1\t",
        "sd-routing-key = k1",
        "sd-routing-key=k1;ttl=3",
        "sd-routing-key=k1 ; ttl = 3 ; secure",
        "sd-routing-key=k1;sd-routing-key=k2",
        "sd-routing-key=k1,sd-routing-key=k2",
        "sd-sandbox=k2,sd-routing-key=k1",
        "sd-routing-key=%6b1",
        "sd-routing-key=%6B1",
        "sd-routing-key=k%2D1",
        "sd-routing-key=k%2d1",
        "sd-routing-key=%6b%31",
        "sd-routing-key=k1,",
        ",sd-routing-key=k1",
        ",,,sd-routing-key=k1,,",
        "nonsense,sd-routing-key=k1",
        "=x,sd-routing-key=k1",
        "a=\"x\",sd-routing-key=k1",
        "a b=c,sd-routing-key=k1",
        "sd-routing-key=,sd-routing-key=k1",
        "sd-routing-key=K1,sd-routing-key=k1",
        "sd-routing-key=k 1,sd-sandbox=k2",
        "sd-routing-key=%zz,sd-sandbox=k2",
        "sd-routing-key=%ff,sd-sandbox=k2",
        "sd-routing-key=%,sd-sandbox=k2",
        "sd-routing-key=%6,sd-sandbox=k2",
        "sd-routing-key=k1-,sd-sandbox=k2",
        "sd-routing-key=-k1,sd-sandbox=k2",
        "sd-routing-key=%2dk1,sd-sandbox=k2",
        "sd-routing-key=k1%2D,sd-sandbox=k2",
        "sd-routing-key=k1;p,sd-sandbox=k2",
        "sd-routing-key=;p,sd-sandbox=k2",
        "sd-routing-key;p=k1,sd-sandbox=k2",
        "sd-routing-key,sd-sandbox=k2",
        "sd-routing,sd-sandbox=k2",
        "sd-,sd-sandbox=k2",
        "s,sd-sandbox=k2",
        "sd-x=k1,sd-sandbox=k2",
        "sd-routing-key=\"k1\"",
        "sd-routing-key=k1\\",
        "sd-routing-key=-k1",
        "sd-routing-key=k1-",
        "sd-routing-key=k_1",
        "sd-routing-key=k.1",
        "sd-routing-key=%20k1",
        "sd-routing-key",
        "sd-routing-key k1",
        "xsd-routing-key=k1",
        "sd-routing-key-2=k1",
        "SD-Routing-Key=k1",
        "sd-routing-keyk1",
        "other=sd-routing-key=k1",
        "other=x;sd-routing-key=k1",
        "other=sd-routing-key%3Dk1",
        "",
        " ",
        ";",
        "=",
        ",=,;,",
        "sd-routing-key=k1=k2",
        "sd-routing-key==k1,sd-sandbox=k2",
        "sd-sandbox=k3v9q0d1m2xza",
        "userId=alice,serverNode=DF%2028,isProduction=false,sd-routing-key=k3v9q0d1m2xza;prop",
        "sd-sandboxes=k1,sd-sandbox=a",
        " sd-routing-key=k1",
        "sd-routing-key=k1 k2,sd-sandbox=a",
        "sd-routing-key=k1 ;x,sd-sandbox=a",
        "sd-routing-key= ,sd-sandbox=a",
        "sd-routing-key= ;x,sd-sandbox=a"
    )]
    value: &str,
) {
    let (found, matching) = both("baggage", &[value], ValueEncoding::PercentEncoded);
    assert_eq!(matching, found.as_deref().into_iter().collect::<Vec<_>>());
}

#[rstest]
fn f10_a_mesh_and_the_router_agree_on_tracestate(
    #[values(
        "sd-routing-key=k1",
        "congo=t61rcWkgMzE,sd-routing-key=k1",
        "tenant@vendor=x,sd-routing-key=k1",
        "a/b=x , sd-routing-key=k1",
        "sd-routing-key=%6b1",
        "sd-routing-key=%6b1,sd-sandbox=k2",
        "xsd-routing-key=k1",
        "rojo=00-sd-routing-key=k1",
        "sd-routing-key=k1;p",
        "sd-routing-key=k1,sd-routing-key=k2",
        "",
        "sd-routing-key=k%2d1",
        "rojo=00f067aa0ba902b7,sd-routing-key=k-1"
    )]
    value: &str,
) {
    let (found, matching) = both("tracestate", &[value], ValueEncoding::Plain);
    assert_eq!(matching, found.as_deref().into_iter().collect::<Vec<_>>());
}

#[rstest]
#[case(&["a=b", "sd-routing-key=k1"])]
#[case(&["sd-routing-key=k1", "sd-routing-key=k2"])]
#[case(&["sd-routing-key=", "sd-sandbox=k2"])]
#[case(&["", "sd-sandbox=k2"])]
fn f10_lines_are_one_list_for_both(#[case] lines: &[&str]) {
    let (found, matching) = both("baggage", lines, ValueEncoding::PercentEncoded);
    assert_eq!(matching, found.as_deref().into_iter().collect::<Vec<_>>());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    /// Beyond the table: members that are nearly right.
    #[test]
    fn f10_a_mesh_and_the_router_agree_on_everything_near(
        members in proptest::collection::vec("[ \t]{0,2}(sd-routing-key|sd-sandbox|sd-routing|s|x)?[ \t]{0,1}(=|;|)[ \t]{0,1}(k1|k2|a|-|%6b1|%2d|%7|K|k1-|k 1|\"|;p|)[ \t]{0,1}(;p)?", 0..5),
    ) {
        let value = members.join(",");
        // What a header cannot hold is not asked.
        if HeaderValue::from_bytes(value.as_bytes()).is_ok() {
            let (found, matching) = both("baggage", &[&value], ValueEncoding::PercentEncoded);
            proptest::prop_assert_eq!(matching, found.as_deref().into_iter().collect::<Vec<_>>(), "{:?}", value);
        }
    }
}

fn port(count: usize, headers: usize) -> MeshPort {
    let names = || (0..headers).map(|it| format!("x-tenant-{it}")).collect::<Vec<_>>();
    let key = |it: usize| format!("k{it}");
    MeshPort {
        namespace: "shop".into(),
        service: "cart".into(),
        port: 80,
        keys: (0..count).map(|it| (key(it), Some((format!("cart-pr-{it}"), 80)))).collect(),
        headers: names().into_iter().collect(),
    }
}

#[rstest]
#[case(0, 0, 1)]
#[case(1, 0, 1)]
#[case(15, 0, 1)]
#[case(16, 0, 2)]
#[case(100, 0, 7)]
#[case(100, 8, 10)]
fn keys_are_spread_within_the_limits_and_one_shard_has_the_rest(
    #[case] count: usize,
    #[case] headers: usize,
    #[case] expected: usize,
) {
    let shards = build_shards(&port(count, headers), &ShardByKey::new());
    assert_eq!(shards.len(), expected);
    let (mut rest, mut keys) = (0, 0);
    for shard in &shards {
        let rules = shard["spec"]["rules"].as_array().unwrap();
        let matches = |rule: &Value| rule["matches"].as_array().map_or(1, Vec::len);
        assert!(rules.len() <= 16 && rules.iter().map(matches).sum::<usize>() <= 128);
        assert!(rules.iter().all(|it| matches(it) <= 64));
        rest += rules.iter().filter(|it| it["matches"].is_null()).count();
        keys += rules.iter().filter(|it| !it["matches"].is_null()).count();
        assert_eq!(shard["spec"]["parentRefs"][0]["kind"], "Service");
    }
    assert_eq!((rest, keys), (1, count), "one rule for everybody else, and one for each key");
    let names: std::collections::BTreeSet<_> =
        shards.iter().map(|it| it["metadata"]["name"].to_string()).collect();
    assert_eq!(names.len(), expected);
}

/// The keys of each object.
fn lived(port: &MeshPort, objects: &[Value]) -> Vec<(usize, Vec<String>)> {
    let mut all: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (key, at) in assigned_shards(port, objects) {
        all.entry(at).or_default().push(key);
    }
    all.into_iter().collect()
}

#[test]
fn a_key_stays_where_it_is_whoever_comes_and_goes() {
    let mut port = port(40, 0);
    let mut objects = build_shards(&port, &ShardByKey::new());
    let before = assigned_shards(&port, &objects);
    assert_eq!(before.len(), 40);
    // Sorted before all others: nobody moves on for it.
    port.keys.insert("a".into(), None);
    objects = build_shards(&port, &assigned_shards(&port, &objects));
    let after = assigned_shards(&port, &objects);
    assert!(before.iter().all(|(key, at)| after[key] == *at), "{after:?}");
    assert_eq!(after["a"], 2, "the last one had room");
    // What goes leaves a gap, and the next one fills it.
    let gone = lived(&port, &objects)[1].1[0].clone();
    port.keys.remove(&gone);
    objects = build_shards(&port, &assigned_shards(&port, &objects));
    port.keys.insert("b".into(), None);
    objects = build_shards(&port, &assigned_shards(&port, &objects));
    assert_eq!(assigned_shards(&port, &objects)["b"], 1);
    // An object whose keys are all gone goes; the first one stays for everybody else.
    port.keys.retain(|key, _| after.get(key) == Some(&2));
    objects = build_shards(&port, &assigned_shards(&port, &objects));
    let names: Vec<_> = objects.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert!(names[0].ends_with("-0") && names[1].ends_with("-2"), "{names:?}");
    assert_eq!(lived(&port, &objects).len(), 1);
}

#[test]
fn objects_that_others_fill_stay_within_the_limits() {
    let mut port = port(15, 0);
    let objects = build_shards(&port, &ShardByKey::new());
    // More headers, and so fewer keys fit into one.
    port.headers = (0..20).map(|it| format!("x-{it}")).collect();
    let fewer = build_shards(&port, &assigned_shards(&port, &objects));
    assert_eq!(lived(&port, &fewer).iter().map(|(_, keys)| keys.len()).collect::<Vec<_>>(), [5, 5, 5]);
}

#[test]
fn a_header_of_one_group_may_carry_any_key_of_the_service_as_for_the_router() {
    let rules = build_shards(&port(2, 1), &ShardByKey::new())[0]["spec"]["rules"].clone();
    for rule in &rules.as_array().unwrap()[..2] {
        assert!(rule.to_string().contains("x-tenant-0"), "{rule}");
    }
}

#[test]
fn a_key_that_nobody_answers_has_a_rule_without_a_backend() {
    let mut port = port(1, 0);
    port.keys.insert("k0".into(), None);
    let rules = build_shards(&port, &ShardByKey::new())[0]["spec"]["rules"].clone();
    assert_eq!(rules[0]["backendRefs"], json!([]));
    assert_eq!(rules[1]["backendRefs"][0]["name"], "cart");
}

#[test]
fn a_kind_that_is_served_is_no_live_mesh_and_an_accepted_route_is() {
    let route = |status: &str| json!({"status": {"parents": [{"parentRef": {"kind": "Service", "name": "x"}, "conditions": [{"type": "Accepted", "status": status}]}]}});
    assert!(!has_active_mesh(&[]));
    assert!(!has_active_mesh(&[json!({}), route("False")]));
    assert!(has_active_mesh(&[route("False"), route("True")]));
}

#[test]
fn somebody_elses_route_is_found_and_ours_is_not() {
    let port = port(1, 0);
    let theirs = json!({
        "metadata": {"name": "canary", "namespace": "shop"},
        "spec": {"parentRefs": [{"kind": "Service", "name": "cart"}]}
    });
    let ours = build_shards(&port, &ShardByKey::new());
    assert_eq!(foreign_route(&port, &ours), None);
    assert_eq!(foreign_route(&port, ours.iter().chain([&theirs])), Some("canary".to_owned()));
    let mut elsewhere = theirs.clone();
    elsewhere["metadata"]["namespace"] = json!("other");
    assert_eq!(foreign_route(&port, &[elsewhere]), None);
}
