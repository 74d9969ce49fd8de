//! Objects that are refused, and some that are not.

use serde_json::{Value, json};

/// A case: what it is, the object, and a word that both answers have.
pub(crate) struct Case(pub(crate) &'static str, pub(crate) Value, pub(crate) &'static str);

pub(crate) fn sandbox(name: &str, spec: &Value) -> Value {
    object("Sandbox", name, spec)
}

pub(crate) fn group(spec: &Value) -> Value {
    object("RouteGroup", "cart-v2", spec)
}

pub(crate) fn local(spec: &Value) -> Value {
    object("LocalWorkload", "cart-local", spec)
}

pub(crate) fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "default"}, "spec": spec
    })
}

pub(crate) fn fork(name: &str) -> Value {
    json!({"forkOf": {"kind": "Deployment", "name": name}})
}

pub(crate) fn named(name: &str, of: &str) -> Value {
    json!({"name": name, "forkOf": {"kind": "Deployment", "name": of}})
}

pub(crate) fn mapped(name: &str, of: &str, rest: &Value) -> Value {
    let mut local = json!({
        "name": name, "from": {"kind": "Deployment", "name": of},
        "mappings": [{"port": 8080, "toLocal": "localhost:3000"}]
    });
    local.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    local
}

pub(crate) fn mapping(port: i64, to: &str) -> Value {
    json!({
        "sandboxRef": {"name": "pr-1"}, "from": {"kind": "Deployment", "name": "cart"},
        "mappings": [{"port": port, "toLocal": to}]
    })
}

pub(crate) fn with(fork_rest: &Value) -> Value {
    json!({"forks": [{"forkOf": {"name": "cart"}, "customizations": fork_rest}]})
}

pub(crate) fn sandboxes() -> Vec<Case> {
    let long = "a".repeat(31);
    let web = json!({"name": "web", "target": "http://a.b.svc"});
    vec![
        Case("name too long", sandbox(&long, &json!({"forks": [fork("cart")]})), "metadata.name"),
        Case("name with a dot", sandbox("pr.1", &json!({"forks": [fork("cart")]})), "metadata.name"),
        Case("nothing in it", sandbox("pr-1", &json!({})), "forks"),
        Case("empty lists", sandbox("pr-1", &json!({"forks": [], "local": [], "virtual": []})), "forks"),
        Case(
            "fork names twice",
            sandbox("pr-1", &json!({"forks": [named("x", "a"), named("x", "b")]})),
            "forks",
        ),
        Case(
            "a name that another has by default",
            sandbox("pr-1", &json!({"forks": [named("b", "a"), fork("b")]})),
            "forks",
        ),
        Case(
            "endpoint names twice",
            sandbox("pr-1", &json!({"forks": [fork("a")], "endpoints": [web, web]})),
            "endpoints",
        ),
        Case(
            "local names twice",
            sandbox("pr-1", &json!({"local": [mapped("x", "a", &json!({})), mapped("x", "b", &json!({}))]})),
            "local",
        ),
        Case(
            "virtual names twice",
            sandbox(
                "pr-1",
                &json!({"virtual": [{"name": "v", "workload": {"name": "a"}}, {"name": "v", "workload": {"name": "b"}}]}),
            ),
            "virtual",
        ),
        Case(
            "baseline in two forks",
            sandbox("pr-1", &json!({"forks": [named("x", "a"), named("y", "a")]})),
            "forks",
        ),
        Case(
            "baseline in two locals",
            sandbox("pr-1", &json!({"local": [mapped("x", "a", &json!({})), mapped("y", "a", &json!({}))]})),
            "local",
        ),
        Case(
            "baseline in a fork and a local",
            sandbox("pr-1", &json!({"forks": [fork("a")], "local": [mapped("x", "a", &json!({}))]})),
            "local",
        ),
        Case(
            "such a local that falls back to the baseline",
            sandbox(
                "pr-1",
                &json!({"forks": [fork("a")], "local": [mapped("x", "a", &json!({"disconnectPolicy": "Baseline"}))]}),
            ),
            "local",
        ),
    ]
}

/// Bad fields of a sandbox whose lists are fine.
pub(crate) fn sandbox_fields() -> Vec<Case> {
    vec![
        Case(
            "bad duration",
            sandbox("pr-1", &json!({"forks": [fork("a")], "ttl": {"duration": "2 hours"}})),
            "ttl.duration",
        ),
        Case(
            "duration of nothing",
            sandbox("pr-1", &json!({"forks": [fork("a")], "ttl": {"duration": "0m"}})),
            "ttl.duration",
        ),
        Case(
            "key with capitals",
            sandbox("pr-1", &json!({"forks": [fork("a")], "routingKey": "PR-1"})),
            "routingKey",
        ),
        Case(
            "too many forks",
            sandbox("pr-1", &json!({"forks": (0..17).map(|it| fork(&format!("f{it}"))).collect::<Vec<_>>()})),
            "forks",
        ),
        Case(
            "long description",
            sandbox("pr-1", &json!({"forks": [fork("a")], "description": "x".repeat(256)})),
            "description",
        ),
        Case(
            "local port 0",
            sandbox(
                "pr-1",
                &json!({"local": [mapped("x", "a", &json!({"mappings": [{"port": 0, "toLocal": "localhost:1"}]}))]}),
            ),
            "port",
        ),
        Case(
            "local without mappings",
            sandbox("pr-1", &json!({"local": [mapped("x", "a", &json!({"mappings": []}))]})),
            "mappings",
        ),
        Case(
            "value and valueFrom",
            sandbox(
                "pr-1",
                &with(
                    &json!({"env": [{"name": "A", "value": "x", "valueFrom": {"secret": {"name": "s", "key": "k"}}}]}),
                ),
            ),
            "env[0]",
        ),
        Case(
            "deleted with a value",
            sandbox("pr-1", &with(&json!({"env": [{"name": "A", "value": "x", "operation": "delete"}]}))),
            "env[0]",
        ),
        Case(
            "valueFrom nothing",
            sandbox("pr-1", &with(&json!({"env": [{"name": "A", "valueFrom": {}}]}))),
            "valueFrom",
        ),
        Case(
            "valueFrom two places",
            sandbox(
                "pr-1",
                &with(
                    &json!({"env": [{"name": "A", "valueFrom": {"secret": {"name": "s", "key": "k"}, "configMap": {"name": "s", "key": "k"}}}]}),
                ),
            ),
            "valueFrom",
        ),
        Case(
            "variable without a name",
            sandbox("pr-1", &with(&json!({"env": [{"name": "1A"}]}))),
            "env[0].name",
        ),
        Case("negative replicas", sandbox("pr-1", &with(&json!({"replicas": -1}))), "replicas"),
        Case(
            "image of nothing",
            sandbox("pr-1", &with(&json!({"images": [{"image": ""}]}))),
            "images[0].image",
        ),
        Case(
            "amount that is none",
            sandbox("pr-1", &with(&json!({"resources": [{"requests": {"cpu": "much"}}]}))),
            "cpu",
        ),
        Case(
            "override of nothing",
            sandbox("pr-1", &json!({"local": [mapped("x", "a", &json!({"override": {}}))]})),
            "override",
        ),
    ]
}

pub(crate) fn groups() -> Vec<Case> {
    let label = json!({"key": "feature", "value": "cart-*"});
    let clause = json!({"label": label});
    vec![
        Case("no match", group(&json!({"match": {}})), "match"),
        Case("label and any", group(&json!({"match": {"label": label, "any": [clause]}})), "match"),
        Case("any and all", group(&json!({"match": {"all": [clause], "any": [clause]}})), "match"),
        Case(
            "clause of two",
            group(&json!({"match": {"any": [{"label": label, "all": [clause]}]}})),
            "match.any[0]",
        ),
        Case("clause of nothing", group(&json!({"match": {"any": [{}]}})), "match.any[0]"),
        Case("any of nothing", group(&json!({"match": {"any": []}})), "match.any"),
        Case(
            "key that is none",
            group(&json!({"match": {"label": {"key": "a b", "value": "x"}}})),
            "match.label.key",
        ),
        Case(
            "value that is none",
            group(&json!({"match": {"label": {"key": "a", "value": "x y"}}})),
            "match.label.value",
        ),
        Case(
            "bad duration",
            group(&json!({"match": {"label": label}, "ttl": {"duration": "1y"}})),
            "ttl.duration",
        ),
        Case(
            "selector that nobody reads",
            group(&json!({"match": {"label": label}, "namespaces": {"from": "All", "selector": {}}})),
            "namespaces",
        ),
        Case(
            "selector missing",
            group(&json!({"match": {"label": label}, "namespaces": {"from": "Selector"}})),
            "namespaces",
        ),
        Case(
            "header with a capital",
            group(&json!({"match": {"label": label}, "routing": {"customHeaders": ["X-Tenant"]}})),
            "routing.customHeaders",
        ),
        Case(
            "headers twice",
            group(&json!({"match": {"label": label}, "routing": {"customHeaders": ["x-a", "x-a"]}})),
            "routing.customHeaders",
        ),
        Case(
            "parameter that is none",
            group(&json!({"match": {"label": label}, "routing": {"queryParam": "a&b"}})),
            "routing.queryParam",
        ),
        Case(
            "endpoints twice",
            group(
                &json!({"match": {"label": label}, "endpoints": [{"name": "w", "target": "http://a.b.svc"}, {"name": "w", "target": "http://a.b.svc"}]}),
            ),
            "endpoints",
        ),
        Case(
            "name too long",
            object("RouteGroup", &"g".repeat(31), &json!({"match": {"label": label}})),
            "metadata.name",
        ),
    ]
}

pub(crate) fn locals() -> Vec<Case> {
    let mut twice = mapping(8080, "localhost:3000");
    twice["mappings"] = json!([{"port": 1, "toLocal": "localhost:1"}, {"port": 1, "toLocal": "localhost:2"}]);
    let and = |rest: &Value| {
        let mut spec = mapping(8080, "localhost:3000");
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        local(&spec)
    };
    vec![
        Case("port 0", local(&mapping(0, "localhost:3000")), "mappings[0].port"),
        Case("port 65536", local(&mapping(65_536, "localhost:3000")), "mappings[0].port"),
        Case("no port", local(&mapping(8080, "localhost")), "mappings[0].toLocal"),
        Case("local port 0", local(&mapping(8080, "localhost:0")), "mappings[0].toLocal"),
        Case("local port 65536", local(&mapping(8080, "localhost:65536")), "mappings[0].toLocal"),
        Case("a URL", local(&mapping(8080, "http://localhost:3000")), "mappings[0].toLocal"),
        Case("no host", local(&mapping(8080, ":3000")), "mappings[0].toLocal"),
        Case("ports twice", local(&twice), "mappings"),
        Case("grace too long", and(&json!({"disconnectGracePeriod": "11m"})), "disconnectGracePeriod"),
        Case(
            "override both ways",
            and(&json!({"override": {"requireHeader": "a: b", "exceptStatus": [404]}})),
            "override",
        ),
        Case(
            "override by a header that is none",
            and(&json!({"override": {"requireHeader": "a"}})),
            "override.requireHeader",
        ),
        Case(
            "override by a code that is none",
            and(&json!({"override": {"exceptStatus": [99]}})),
            "override.exceptStatus",
        ),
        Case("sandbox without a name", and(&json!({"sandboxRef": {"name": ""}})), "sandboxRef.name"),
    ]
}

pub(crate) fn good() -> Vec<Value> {
    let everything = json!({
        "description": "cart v2", "routingKey": "", "clusterRef": {"name": "dev-eu"},
        "ttl": {"duration": "2h", "offsetFrom": "updatedAt"},
        "forks": [{
            "name": "cart", "forkOf": {"kind": "Deployment", "name": "cart"}, "baselineUpdatePolicy": "Pin",
            "customizations": {
                "replicas": 2, "images": [{"container": "app", "image": "repo/cart:pr-1234"}],
                "env": [
                    {"name": "FEATURE_X", "value": "on", "container": "app"},
                    {"name": "DB_DSN", "valueFrom": {"secret": {"name": "cart-dsn", "key": "dsn"}}},
                    {"name": "OLD", "operation": "delete"},
                    {"name": "SELF", "valueFrom": {"fork": {"forkOf": {"kind": "Deployment", "name": "cart"}, "expression": "{{.Service.Host}}:{{.Service.Port}}"}}}
                ],
                "resources": [{"container": "app", "requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"cpu": 1}}],
                "preservedLabels": ["^team$"], "patch": {"type": "strategic", "value": "spec: {}"}
            }
        }],
        "local": [mapped("cart-local", "cart", &json!({"disconnectPolicy": "Fork"})), mapped("b", "b", &json!({"override": {"exceptStatus": [404, 503]}}))],
        "virtual": [{"name": "v", "workload": {"kind": "Deployment", "name": "checkout"}}],
        "endpoints": [{"name": "web", "target": "http://frontend.shop.svc:8080"}]
    });
    let matches = json!({"any": [
        {"label": {"key": "feature", "value": "cart-*"}},
        {"all": [{"label": {"key": "team", "value": "cart"}}, {"label": {"key": "tier", "value": "?"}}]}
    ]});
    let mut over = mapping(8080, "[::1]:3000");
    over["override"] = json!({"requireHeader": "sd-override: true"});
    over["disconnectGracePeriod"] = json!("0");
    vec![
        sandbox("pr-1234", &everything),
        sandbox(
            &"a".repeat(30),
            &json!({"forks": [fork("cart")], "local": [mapped("x", "cart", &json!({"override": {"requireHeader": "sd-override: true"}}))]}),
        ),
        group(&json!({
            "match": matches, "namespaces": {"from": "Selector", "selector": {"matchLabels": {"env": "dev"}}},
            "routing": {"mode": "GatewayAPI", "customHeaders": ["x-tenant"], "queryParam": "sd-routing-key", "unreadyPolicy": "Baseline"},
            "ttl": {"duration": "1d", "offsetFrom": "noMatchedSandboxes"},
            "endpoints": [{"name": "web", "target": "grpc://frontend.shop.svc:8080"}]
        })),
        local(&over),
    ]
}
