use proptest::prelude::*;
use rstest::rstest;

use http::Uri;

use super::*;

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut all = HeaderMap::new();
    for (name, value) in lines {
        all.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    all
}

fn key_of(lines: &[(&'static str, &str)]) -> Option<String> {
    let (headers, uri) = (headers(lines), Uri::from_static("/"));
    find_key(&headers, uri.query(), &ExtraKeySources::default()).map(|found| found.key.into_owned())
}

#[rstest]
#[case("sd-routing-key=k1", Some("k1"))]
#[case("sd-sandbox=k1", Some("k1"))]
#[case("a=b,sd-routing-key=k1,c=d", Some("k1"))]
#[case("a=b , sd-routing-key=k1 , c=d", Some("k1"))]
#[case("\tsd-routing-key\t=\tk1\t", Some("k1"))]
#[case("sd-routing-key = k1", Some("k1"))]
#[case("sd-routing-key=k1;ttl=3", Some("k1"))]
#[case("sd-routing-key=k1 ; ttl = 3 ; secure", Some("k1"))]
#[case("sd-routing-key=k1;sd-routing-key=k2", Some("k1"))]
#[case("sd-routing-key=k1,sd-routing-key=k2", Some("k1"))]
#[case("sd-sandbox=k2,sd-routing-key=k1", Some("k2"))]
#[case("sd-routing-key=%6b1", Some("k1"))]
#[case("sd-routing-key=%6B1", Some("k1"))]
#[case("sd-routing-key=k%2D1", Some("k-1"))]
#[case("sd-routing-key=k1,", Some("k1"))]
#[case(",sd-routing-key=k1", Some("k1"))]
#[case(",,,sd-routing-key=k1,,", Some("k1"))]
#[case("nonsense,sd-routing-key=k1", Some("k1"))]
#[case("=x,sd-routing-key=k1", Some("k1"))]
#[case("a=\"x\",sd-routing-key=k1", Some("k1"))]
#[case("a b=c,sd-routing-key=k1", Some("k1"))]
#[case("sd-routing-key=,sd-routing-key=k1", Some("k1"))]
#[case("sd-routing-key=K1,sd-routing-key=k1", Some("k1"))]
#[case("sd-routing-key=k 1,sd-sandbox=k2", Some("k2"))]
#[case("sd-routing-key=%zz,sd-sandbox=k2", Some("k2"))]
#[case("sd-routing-key=%ff,sd-sandbox=k2", Some("k2"))]
#[case("sd-routing-key=\"k1\"", None)]
#[case("sd-routing-key=k1\\", None)]
#[case("sd-routing-key=-k1", None)]
#[case("sd-routing-key=k1-", None)]
#[case("sd-routing-key=k_1", None)]
#[case("sd-routing-key=k.1", None)]
#[case("sd-routing-key=%20k1", None)]
#[case("sd-routing-key", None)]
#[case("sd-routing-key k1", None)]
#[case("xsd-routing-key=k1", None)]
#[case("sd-routing-key-2=k1", None)]
#[case("SD-Routing-Key=k1", None)]
#[case("sd-routing-keyk1", None)]
#[case("other=sd-routing-key=k1", None)]
#[case("other=x;sd-routing-key=k1", None)]
#[case("other=sd-routing-key%3Dk1", None)]
#[case("", None)]
#[case(" ", None)]
#[case(";", None)]
#[case("=", None)]
#[case(",=,;,", None)]
fn f10_baggage_follows_the_grammar(#[case] value: &str, #[case] key: Option<&str>) {
    assert_eq!(key_of(&[("baggage", value)]).as_deref(), key);
}

#[rstest]
#[case("sd-routing-key=k1", Some("k1"))]
#[case("congo=t61rcWkgMzE,sd-routing-key=k1", Some("k1"))]
#[case("tenant@vendor=x,sd-routing-key=k1", Some("k1"))]
#[case("a/b=x , sd-routing-key=k1", Some("k1"))]
#[case("sd-routing-key=%6b1", None)]
#[case("xsd-routing-key=k1", None)]
#[case("rojo=00-sd-routing-key=k1", None)]
#[case("sd-routing-key=k1;p", Some("k1"))]
fn f10_tracestate_follows_the_grammar(#[case] value: &str, #[case] key: Option<&str>) {
    assert_eq!(key_of(&[("tracestate", value)]).as_deref(), key);
}

#[rstest]
#[case(&[("baggage", "a=b"), ("baggage", "sd-routing-key=k1")], "k1")]
#[case(&[("baggage", "sd-routing-key=k1"), ("baggage", "sd-routing-key=k2")], "k1")]
#[case(&[("tracestate", "sd-routing-key=k2"), ("baggage", "sd-routing-key=k1")], "k1")]
#[case(&[("tracestate", "sd-routing-key=k2"), ("baggage", "sd-routing-key=!")], "k2")]
#[case(&[("ot-baggage-sd-routing-key", "k3"), ("tracestate", "sd-routing-key=k2")], "k2")]
#[case(&[("ot-baggage-sd-routing-key", " k3 ")], "k3")]
#[case(&[("uberctx-sd-routing-key", "k4")], "k4")]
#[case(&[("uberctx-sd-routing-key", "k4"), ("ot-baggage-sd-routing-key", "k3")], "k3")]
#[case(&[("ot-baggage-sd-routing-key", "not a key"), ("ot-baggage-sd-routing-key", "k5")], "k5")]
fn f10_places_are_looked_at_in_order(#[case] lines: &[(&'static str, &str)], #[case] key: &str) {
    assert_eq!(key_of(lines).as_deref(), Some(key));
}

#[test]
fn a_group_may_name_headers_and_parameters() {
    let places = ExtraKeySources {
        headers: vec![HeaderName::from_static("x-tenant")],
        queries: vec!["sd-routing-key".to_owned()],
    };
    let uri: Uri = "/cart?a=b&sd-routing-key=k%32&sd-routing-key=k3".parse().unwrap();
    let named = headers(&[("x-tenant", "k1")]);
    let found = find_key(&named, uri.query(), &places).unwrap();
    assert_eq!((found.key.as_ref(), found.source), ("k1", KeySource::CustomHeader));
    let empty = HeaderMap::new();
    let found = find_key(&empty, uri.query(), &places).unwrap();
    assert_eq!((found.key.as_ref(), found.source), ("k2", KeySource::Query));
    assert_eq!(find_key(&named, uri.query(), &ExtraKeySources::default()), None);
}

#[test]
fn only_the_first_8192_bytes_count() {
    let member = "sd-routing-key=k1";
    let just = format!("{},{member}", "a".repeat(MAX_SCAN_BYTES - member.len() - 1));
    assert_eq!(just.len(), MAX_SCAN_BYTES);
    assert_eq!(key_of(&[("baggage", &just)]).as_deref(), Some("k1"));
    // Half a member is none: the key would be another one.
    let over = format!("b{just}");
    assert_eq!(key_of(&[("baggage", &over)]), None);
    let before = format!("{member},{}", "a".repeat(3 * MAX_SCAN_BYTES));
    assert_eq!(key_of(&[("baggage", &before)]).as_deref(), Some("k1"));
    let line = "a".repeat(MAX_SCAN_BYTES - member.len() - 1);
    assert_eq!(key_of(&[("baggage", &line), ("baggage", member)]).as_deref(), Some("k1"));
    assert_eq!(key_of(&[("baggage", &format!("b{line}")), ("baggage", member)]), None);
}

#[test]
fn the_last_member_that_is_looked_at_may_end_where_we_stop() {
    let member = ",sd-routing-key=k1";
    let list = |filler: usize, after: &str| format!("{}{member}{after}", "x".repeat(filler));
    let fits = MAX_SCAN_BYTES - member.len();
    assert_eq!(key_of(&[("baggage", &list(fits, ""))]).as_deref(), Some("k1"));
    assert_eq!(key_of(&[("baggage", &list(fits, ",a=b"))]).as_deref(), Some("k1"));
    assert_eq!(key_of(&[("baggage", &list(fits, "2,a=b"))]), None, "half a key is none");
    assert_eq!(key_of(&[("baggage", &list(fits + 1, ",a=b"))]), None);
    assert_eq!(
        key_of(&[("baggage", &"x".repeat(fits)), ("baggage", "sd-routing-key=k1,a=b")]).as_deref(),
        Some("k1")
    );
}

#[test]
fn a_key_is_a_label_of_a_host_name() {
    for good in ["a", "1", "k3v9q0d1m2xza", "a-b", &"x".repeat(MAX_KEY_LEN)] {
        assert!(is_key(good), "{good}");
    }
    for bad in ["", "-", "-a", "a-", "A", "a_b", "a.b", "ä", "a b", &"x".repeat(MAX_KEY_LEN + 1)] {
        assert!(!is_key(bad), "{bad}");
    }
}

proptest! {
    /// Whatever stands around it, a member is found if it is one, and nothing panics.
    #[test]
    fn noise_neither_hides_a_key_nor_makes_one(
        before in prop::collection::vec("[ -~]{0,20}", 0..5),
        after in prop::collection::vec("[ -~]{0,20}", 0..5),
        key in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?",
    ) {
        // Noise that happens to be a member of ours would be right to win.
        let noise = |list: &[String]| list.iter().all(|text| !MEMBER_NAMES.iter().any(|name| text.contains(name)));
        prop_assume!(noise(&before) && noise(&after));
        let silent = [before.clone(), after.clone()].concat().join(",");
        prop_assert_eq!(key_of(&[("baggage", &silent)]), None);
        let member = format!("sd-routing-key={key}");
        let list = [before, vec![member], after].concat().join(",");
        prop_assert_eq!(key_of(&[("baggage", &list)]), Some(key));
    }

    #[test]
    fn no_bytes_harm(value in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            let mut headers = HeaderMap::new();
            headers.insert("baggage", value.clone());
            headers.insert("tracestate", value);
            let uri = Uri::from_static("/");
            let found = find_key(&headers, uri.query(), &ExtraKeySources::default());
            prop_assert!(found.is_none_or(|found| is_key(&found.key)));
        }
    }
}
