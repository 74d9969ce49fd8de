//! What the router would do, and why: for people, and for consumers of queues.

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::decide::{Asked, key_of};
use crate::{
    key::Source,
    table::{Route, Rule, Table, Target, Workload},
};

/// The parameters of a query.
pub(super) fn parameters(query: &str) -> Vec<(String, String)> {
    let plain = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(a, b)| (plain(a), plain(b))).collect()
}

fn one<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

/// Who would answer a request, and why. `service` and, where it has several ports, `port` name the route; `path` is the
/// request's; every other parameter is one of its headers.
pub(super) fn explain(table: &Table, query: &str) -> Result<Value, String> {
    let parameters = parameters(query);
    let service =
        one(&parameters, "service").ok_or("say which service: service=cart.shop, or shop/cart:80")?;
    let route = route_of(table, service, one(&parameters, "port"))
        .ok_or_else(|| format!("no route of a service {service:?}; see /debug/routes"))?;
    let uri =
        one(&parameters, "path").unwrap_or("/").parse::<Uri>().map_err(|error| format!("path: {error}"))?;
    let mut headers = HeaderMap::new();
    for (name, value) in
        parameters.iter().filter(|(name, _)| !["service", "port", "path"].contains(&name.as_str()))
    {
        let parsed = (name.parse::<HeaderName>(), HeaderValue::from_str(value));
        let (Ok(name), Ok(value)) = parsed else { return Err(format!("{name:?} cannot be a header")) };
        headers.append(name, value);
    }
    Ok(decision(table, route, &Asked::of(&headers, &uri)))
}

fn decision(table: &Table, route: &Route, asked: &Asked<'_>) -> Value {
    let found = key_of(asked, table, route);
    let (target, why) = match &found {
        None => (None, "no place of the request has a key: the baseline answers".to_owned()),
        Some((key, source)) => {
            let place = place(*source);
            match route.target(key) {
                Some(target @ Target::Virtual(_)) => {
                    let why = format!("the key {key} in {place} is known here, and the baseline answers");
                    (Some(target), why)
                }
                Some(target) => (Some(target), format!("the key {key} in {place} has a route here")),
                None if table.knows(key) => {
                    let why = format!("the key {key} in {place} overrides other services, not this one");
                    (None, why)
                }
                None => (None, format!("nobody knows the key {key} in {place}")),
            }
        }
    };
    let (name, to) = match target {
        None => (route.baseline().name(), json!(route.baseline().addresses())),
        Some(target) => (target.name(), shown(route, target)),
    };
    json!({
        "service": route.service(),
        "key": found.as_ref().map(|(key, _)| key.as_ref()),
        "source": found.as_ref().map(|(_, source)| place(*source)),
        "route": name.to_str().unwrap_or_default(),
        "to": to,
        "why": why,
        "revision": table.revision(),
    })
}

fn shown(route: &Route, target: &Target) -> Value {
    match target {
        Target::Virtual(_) => json!(route.baseline().addresses()),
        Target::Backend(backend) => json!(backend.addresses()),
        Target::Local(local) => json!(local.as_ref()),
        Target::Unavailable(it) => {
            json!({ "error": it.error().to_str().unwrap_or_default(), "message": it.message() })
        }
    }
}

const fn place(source: Source) -> &'static str {
    match source {
        Source::Baggage => "baggage",
        Source::Tracestate => "tracestate",
        Source::Older => "an older tracer's header",
        Source::Custom => "a header of a route group",
        Source::Query => "the query",
        Source::Preview => "the host of a preview",
    }
}

/// `cart.shop`, `cart.shop.svc:80`, `shop/cart` or `shop/cart:80`.
fn route_of<'a>(table: &'a Table, service: &str, port: Option<&str>) -> Option<&'a Route> {
    let host = match service.split_once('/') {
        Some((namespace, rest)) => {
            let (name, own) = rest.split_once(':').unwrap_or((rest, ""));
            let own = if own.is_empty() { String::new() } else { format!(":{own}") };
            format!("{name}.{namespace}{own}")
        }
        None => service.to_owned(),
    };
    let host = match port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    };
    table.named(&host).map(AsRef::as_ref)
}

/// All routes.
pub(super) fn routes(table: &Table) -> Value {
    let previews = table.previews().collect::<std::collections::BTreeMap<_, _>>();
    let routes = table.routes().iter().map(AsRef::as_ref).collect::<Vec<&Route>>();
    json!({ "revision": table.revision(), "routes": routes, "previews": previews })
}

/// Which keys are whose, in the words of Signadot's route server, whose clients ask every few seconds. Every parameter
/// narrows.
pub(super) fn rules(table: &Table, query: &str) -> Value {
    let parameters = parameters(query);
    let asked = |name: &str, own: &str| one(&parameters, name).is_none_or(|it| it.is_empty() || it == own);
    let mut rules = table
        .all_rules()
        .filter(|(of, _)| {
            asked("baselineKind", &of.kind)
                && asked("baselineNamespace", &of.namespace)
                && asked("baselineName", &of.name)
        })
        .flat_map(|(of, rules)| rules.iter().map(move |rule| (of, rule)))
        .filter(|(_, rule)| {
            asked("routingKey", rule.routing_key.as_str()) && asked("destinationSandboxName", &rule.sandbox)
        })
        .collect::<Vec<(&Workload, &Rule)>>();
    rules.sort_by(|a, b| (a.0, &a.1.routing_key).cmp(&(b.0, &b.1.routing_key)));
    let shown = rules.into_iter().map(|(of, rule)| {
        json!({
            "routingKey": rule.routing_key,
            "baseline": of,
            "destinationSandbox": { "name": rule.sandbox },
            "mappings": rule.mappings,
        })
    });
    json!({ "routingRules": shown.collect::<Vec<_>>() })
}
