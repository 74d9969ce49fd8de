//! The explain API: what the router would do and why, for humans and for queue consumers.

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::routing::{RequestParts, routing_key};
use crate::{
    key::KeySource,
    table::{BaselineWorkload, Route, RouteTable, RoutingRule, Target},
};

/// Parses the parameters of a query.
pub(super) fn parameters(query: &str) -> Vec<(String, String)> {
    let plain = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(a, b)| (plain(a), plain(b))).collect()
}

fn parameter<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

/// Explains who would answer a request. `service` and, for services with several ports, `port` select the route; `path`
/// is the request path; every other parameter is a request header.
pub(super) fn explain(table: &RouteTable, query: &str) -> Result<Value, String> {
    let parameters = parameters(query);
    let service = parameter(&parameters, "service")
        .ok_or("missing parameter `service`, such as service=cart.shop or service=shop/cart:80")?;
    let route = find_route(table, service, parameter(&parameters, "port"))
        .ok_or_else(|| format!("no route for service {service:?}; see /debug/routes"))?;
    let uri = parameter(&parameters, "path")
        .unwrap_or("/")
        .parse::<Uri>()
        .map_err(|error| format!("path: {error}"))?;
    let mut headers = HeaderMap::new();
    for (name, value) in
        parameters.iter().filter(|(name, _)| !["service", "port", "path"].contains(&name.as_str()))
    {
        let parsed = (name.parse::<HeaderName>(), HeaderValue::from_str(value));
        let (Ok(name), Ok(value)) = parsed else { return Err(format!("{name:?} is not a valid header")) };
        headers.append(name, value);
    }
    Ok(explain_route(table, route, &RequestParts::from_uri(&headers, &uri)))
}

fn explain_route(table: &RouteTable, route: &Route, asked: &RequestParts<'_>) -> Value {
    let found = routing_key(asked, table, route);
    let (target, why) = match &found {
        None => (None, "the request has no routing key: the baseline answers".to_owned()),
        Some((key, source)) => {
            let place = source_name(*source);
            match route.target(key) {
                Some(target @ Target::Virtual(_)) => {
                    let why = format!("the key {key} in {place} is known here, and the baseline answers");
                    (Some(target), why)
                }
                Some(target) => (Some(target), format!("the key {key} in {place} has a route here")),
                None if table.has_key(key) => {
                    let why = format!("the key {key} in {place} overrides other services, not this one");
                    (None, why)
                }
                None => (None, format!("the key {key} in {place} is unknown: the baseline answers")),
            }
        }
    };
    let (name, to) = match target {
        None => (route.baseline().name(), json!(route.baseline().addresses())),
        Some(target) => (target.name(), target_json(route, target)),
    };
    json!({
        "service": route.service(),
        "key": found.as_ref().map(|(key, _)| key.as_ref()),
        "source": found.as_ref().map(|(_, source)| source_name(*source)),
        "route": name.to_str().unwrap_or_default(),
        "to": to,
        "why": why,
        "revision": table.revision(),
    })
}

fn target_json(route: &Route, target: &Target) -> Value {
    match target {
        Target::Virtual(_) => json!(route.baseline().addresses()),
        Target::Backend(backend) => json!(backend.addresses()),
        Target::Local(local) => json!(local.as_ref()),
        Target::Unavailable(it) => {
            json!({ "error": it.error().to_str().unwrap_or_default(), "message": it.message() })
        }
    }
}

const fn source_name(source: KeySource) -> &'static str {
    match source {
        KeySource::Baggage => "baggage",
        KeySource::Tracestate => "tracestate",
        KeySource::LegacyHeader => "an older tracer's header",
        KeySource::CustomHeader => "a header of a route group",
        KeySource::Query => "the query",
        KeySource::PreviewHost => "the host of a preview",
    }
}

/// Accepts `cart.shop`, `cart.shop.svc:80`, `shop/cart` and `shop/cart:80`.
fn find_route<'a>(table: &'a RouteTable, service: &str, port: Option<&str>) -> Option<&'a Route> {
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
    table.route_by_host(&host).map(AsRef::as_ref)
}

/// All routes as JSON.
pub(super) fn routes_json(table: &RouteTable) -> Value {
    let previews = table.previews().collect::<std::collections::BTreeMap<_, _>>();
    let routes = table.routes().iter().map(AsRef::as_ref).collect::<Vec<&Route>>();
    json!({ "revision": table.revision(), "routes": routes, "previews": previews })
}

/// Routing rules in the format of Signadot's route server, whose clients poll every few seconds. Every parameter
/// filters.
pub(super) fn rules_json(table: &RouteTable, query: &str) -> Value {
    let parameters = parameters(query);
    let asked =
        |name: &str, own: &str| parameter(&parameters, name).is_none_or(|it| it.is_empty() || it == own);
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
        .collect::<Vec<(&BaselineWorkload, &RoutingRule)>>();
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
