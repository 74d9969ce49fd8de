//! create: names, generated names, dry runs, strictness, and what is refused.

use conformance::{Case, Context, Outcome, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CM, SECRETS, cm};

pub(crate) fn cases() -> Vec<Case> {
    cases!["create":
        a_new_object_gets_its_metadata,
        a_second_of_the_same_name,
        kind_and_version_may_be_left_out,
        the_namespace_is_taken_from_the_path,
        a_namespace_that_is_not_that_of_the_path,
        a_namespace_that_is_not_there,
        a_namespace_that_is_being_deleted,
        a_name_is_generated,
        a_long_generated_name_is_cut,
        neither_name_nor_generate_name,
        both_name_and_generate_name,
        a_dry_run_stores_nothing,
        a_dry_run_still_refuses,
        a_dry_run_that_is_none,
        unknown_fields_are_warned_about_by_default,
        unknown_fields_are_ignored_when_asked,
        unknown_fields_are_refused_when_asked,
        unknown_fields_of_custom_resources,
        a_field_validation_that_is_none,
        a_duplicate_field_in_each_mode,
        a_name_with_capitals,
        a_name_that_is_too_long,
        a_namespace_name_with_a_dot,
        a_service_name_that_is_no_label,
        a_name_that_is_a_path,
        a_kind_that_does_not_fit_the_path,
        a_group_that_does_not_fit_the_path,
        an_object_with_a_resource_version,
        what_a_client_says_about_server_fields_is_dropped,
        deletion_timestamp_of_a_client_is_dropped,
        label_values_and_keys_that_are_invalid,
        annotations_that_are_too_big,
        annotation_keys_that_are_invalid,
        finalizers_that_are_invalid,
        owner_references_that_are_invalid,
        two_controllers_own_one_object,
        a_field_manager_of_the_request,
        a_field_manager_that_is_too_long,
        post_to_an_object,
        a_wrong_type_in_a_field,
    ]
}

async fn a_new_object_gets_its_metadata(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    let made = c.post("create", CM, cm("a")).await?;
    c.record("has a version", !made.resource_version().is_empty());
    let read = c.get("get", &format!("{CM}/a")).await?;
    c.record("reads as it was answered", read.body == made.body);
    Ok(())
}

async fn a_second_of_the_same_name(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.post("again", CM, cm("a")).await?;
    c.post("namespace again", "/api/v1/namespaces", json!({ "metadata": { "name": "{ns}" } })).await?;
    let deployment = json!({ "metadata": { "name": "d" }, "spec": { "selector": { "matchLabels": { "a": "b" } },
        "replicas": 0, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } });
    c.create("/apis/apps/v1/namespaces/{ns}/deployments", deployment.clone()).await?;
    c.post("deployment again", "/apis/apps/v1/namespaces/{ns}/deployments", deployment).await?;
    Ok(())
}

async fn kind_and_version_may_be_left_out(c: &mut Context) -> Outcome {
    c.post("built in", CM, json!({ "metadata": { "name": "a" } })).await?;
    Widgets::open().install(c).await?;
    c.post("custom", WIDGETS, json!({ "metadata": { "name": "a" } })).await?;
    Ok(())
}

async fn the_namespace_is_taken_from_the_path(c: &mut Context) -> Outcome {
    let made = c.create(CM, cm("a")).await?;
    c.record("namespace", made.value_at("/metadata/namespace"));
    Ok(())
}

async fn a_namespace_that_is_not_that_of_the_path(c: &mut Context) -> Outcome {
    let elsewhere = json!({ "metadata": { "name": "a", "namespace": "elsewhere" } });
    c.post("create", CM, elsewhere).await?;
    let a_namespaced_namespace = json!({ "metadata": { "name": "x-{id}", "namespace": "elsewhere" } });
    c.post("a namespace in a namespace", "/api/v1/namespaces", a_namespaced_namespace).await?;
    Ok(())
}

async fn a_namespace_that_is_not_there(c: &mut Context) -> Outcome {
    c.post("built in", "/api/v1/namespaces/nowhere-{id}/configmaps", cm("a")).await?;
    Widgets::open().install(c).await?;
    let nowhere = "/apis/{id}.example.com/v1/namespaces/nowhere-{id}/widgets";
    let widget =
        json!({ "apiVersion": "{id}.example.com/v1", "kind": "Widget", "metadata": { "name": "a" } });
    c.post("custom", nowhere, widget).await?;
    Ok(())
}

async fn a_namespace_that_is_being_deleted(c: &mut Context) -> Outcome {
    let mut held = cm("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(CM, held).await?;
    c.send_ok(Req::delete("/api/v1/namespaces/{ns}")).await?;
    c.post("create", CM, cm("late")).await?;
    let free = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    c.send_ok(Req::patch(conformance::PatchType::Json, format!("{CM}/held"), free)).await?;
    Ok(())
}

async fn a_name_is_generated(c: &mut Context) -> Outcome {
    let made = c.post("create", CM, json!({ "metadata": { "generateName": "gen-" } })).await?;
    let name = made.str_at("/metadata/name");
    c.record("length", name.len());
    let alphabet = "bcdfghjklmnpqrstvwxz2456789";
    c.record(
        "letters",
        name.strip_prefix("gen-").is_some_and(|end| end.chars().all(|l| alphabet.contains(l))),
    );
    Ok(())
}

async fn a_long_generated_name_is_cut(c: &mut Context) -> Outcome {
    let base = "n".repeat(300);
    let made = c.send(Req::post(CM, json!({ "metadata": { "generateName": base } }))).await?;
    c.record("code", made.code);
    c.record("length of the name", made.str_at("/metadata/name").len());
    Ok(())
}

async fn neither_name_nor_generate_name(c: &mut Context) -> Outcome {
    c.post("built in", CM, json!({ "metadata": {} })).await?;
    c.post("no metadata", CM, json!({ "data": {} })).await?;
    Widgets::open().install(c).await?;
    c.post(
        "custom",
        WIDGETS,
        json!({ "apiVersion": "{id}.example.com/v1", "kind": "Widget", "metadata": {} }),
    )
    .await?;
    Ok(())
}

async fn both_name_and_generate_name(c: &mut Context) -> Outcome {
    c.post("create", CM, json!({ "metadata": { "name": "fixed", "generateName": "gen-" } })).await?;
    Ok(())
}

async fn a_dry_run_stores_nothing(c: &mut Context) -> Outcome {
    let dry = c.post("dry", &format!("{CM}?dryRun=All"), cm("a")).await?;
    c.record("has a version", !dry.resource_version().is_empty());
    c.record("has a uid", !dry.uid().is_empty());
    c.get("get", &format!("{CM}/a")).await?;
    c.create(CM, cm("b")).await?;
    let mut changed = cm("b");
    changed["data"] = json!({ "k": "new" });
    c.put("dry update", &format!("{CM}/b?dryRun=All"), changed).await?;
    c.delete("dry delete", &format!("{CM}/b?dryRun=All")).await?;
    c.get("still as it was", &format!("{CM}/b")).await?;
    Ok(())
}

async fn a_dry_run_still_refuses(c: &mut Context) -> Outcome {
    c.post("invalid", &format!("{CM}?dryRun=All"), cm("Not Valid")).await?;
    c.create(CM, cm("a")).await?;
    c.post("exists", &format!("{CM}?dryRun=All"), cm("a")).await?;
    Ok(())
}

async fn a_dry_run_that_is_none(c: &mut Context) -> Outcome {
    c.post("create", &format!("{CM}?dryRun=Some"), cm("a")).await?;
    c.send_and_record("delete by option", Req::delete_with(format!("{CM}/a"), json!({ "dryRun": ["Some"] })))
        .await?;
    c.put("update", &format!("{CM}/a?dryRun=Some"), cm("a")).await?;
    Ok(())
}

fn with_unknown(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "colour": "red" }, "datum": { "k": "v" } })
}

async fn unknown_fields_are_warned_about_by_default(c: &mut Context) -> Outcome {
    c.post("default", CM, with_unknown("a")).await?;
    c.post("warn", &format!("{CM}?fieldValidation=Warn"), with_unknown("b")).await?;
    Ok(())
}

async fn unknown_fields_are_ignored_when_asked(c: &mut Context) -> Outcome {
    c.post("ignore", &format!("{CM}?fieldValidation=Ignore"), with_unknown("a")).await?;
    Ok(())
}

async fn unknown_fields_are_refused_when_asked(c: &mut Context) -> Outcome {
    c.post("strict", &format!("{CM}?fieldValidation=Strict"), with_unknown("a")).await?;
    let nested = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i", "imagee": 1 }] } });
    c.post("nested", "/api/v1/namespaces/{ns}/pods?fieldValidation=Strict", nested).await?;
    c.create(CM, cm("b")).await?;
    c.put("update", &format!("{CM}/b?fieldValidation=Strict"), with_unknown("b")).await?;
    // The message quotes the whole object in the order of its own fields; what comes after it is of interest.
    let patch = Req::patch(
        conformance::PatchType::Merge,
        format!("{CM}/b?fieldValidation=Strict"),
        json!({ "datum": 1 }),
    );
    let answer = c.send(patch).await?;
    c.record("merge patch", answer.code);
    c.record("merge patch reason", answer.value_at("/reason"));
    c.record("merge patch field", answer.value_at("/details/causes/0/field"));
    c.record("merge patch end", answer.str_at("/message").rsplit("}\": ").next().unwrap_or_default());
    Ok(())
}

async fn unknown_fields_of_custom_resources(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "size": { "type": "integer" } })).install(c).await?;
    let widget = |name: &str| {
        json!({ "apiVersion": "{id}.example.com/v1", "kind": "Widget", "metadata": { "name": name, "colour": "red" },
            "spec": { "size": 1, "sizee": 2 } })
    };
    for mode in ["Ignore", "Warn", "Strict"] {
        c.post(mode, &format!("{WIDGETS}?fieldValidation={mode}"), widget(&mode.to_lowercase())).await?;
    }
    Ok(())
}

async fn a_field_validation_that_is_none(c: &mut Context) -> Outcome {
    c.post("create", &format!("{CM}?fieldValidation=Loose"), cm("a")).await?;
    Ok(())
}

async fn a_duplicate_field_in_each_mode(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    for mode in ["Ignore", "Warn", "Strict"] {
        let name = mode.to_lowercase();
        let body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"one"}},"data":{{"k":"two"}}}}"#);
        let request = Req::new("POST", format!("{CM}?fieldValidation={mode}")).body("application/json", body);
        c.send_and_record(&format!("built in, {mode}"), request).await?;
        let body = format!(
            r#"{{"apiVersion":"{{id}}.example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{{"k":1,"k":2}}}}"#
        );
        let request =
            Req::new("POST", format!("{WIDGETS}?fieldValidation={mode}")).body("application/json", body);
        c.send_and_record(&format!("custom, {mode}"), request).await?;
    }
    Ok(())
}

async fn a_name_with_capitals(c: &mut Context) -> Outcome {
    c.post("built in", CM, cm("Capital")).await?;
    Widgets::open().install(c).await?;
    let widget =
        json!({ "apiVersion": "{id}.example.com/v1", "kind": "Widget", "metadata": { "name": "Capital" } });
    c.post("custom", WIDGETS, widget).await?;
    Ok(())
}

async fn a_name_that_is_too_long(c: &mut Context) -> Outcome {
    c.post("create", CM, cm(&"n".repeat(254))).await?;
    let just_fits = c.send(Req::post(CM, cm(&"n".repeat(253)))).await?;
    c.record("253 letters", just_fits.code);
    Ok(())
}

async fn a_namespace_name_with_a_dot(c: &mut Context) -> Outcome {
    c.post("dot", "/api/v1/namespaces", json!({ "metadata": { "name": "a.b" } })).await?;
    c.post("long", "/api/v1/namespaces", json!({ "metadata": { "name": "n".repeat(64) } })).await?;
    Ok(())
}

async fn a_service_name_that_is_no_label(c: &mut Context) -> Outcome {
    let service = |name: &str| json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } });
    c.post("capital", "/api/v1/namespaces/{ns}/services", service("A")).await?;
    c.post("dot", "/api/v1/namespaces/{ns}/services", service("a.b")).await?;
    Ok(())
}

async fn a_name_that_is_a_path(c: &mut Context) -> Outcome {
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles";
    for name in ["a/b", "..", "a%b", "fine:name"] {
        c.post(name, roles, json!({ "metadata": { "name": name } })).await?;
    }
    Ok(())
}

async fn a_kind_that_does_not_fit_the_path(c: &mut Context) -> Outcome {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } });
    c.post("other kind", CM, secret).await?;
    let unknown = json!({ "apiVersion": "v1", "kind": "Nonsense", "metadata": { "name": "a" } });
    c.post("unknown kind", CM, unknown).await?;
    Widgets::open().install(c).await?;
    let gadget =
        json!({ "apiVersion": "{id}.example.com/v1", "kind": "Gadget", "metadata": { "name": "a" } });
    c.post("custom", WIDGETS, gadget).await?;
    Ok(())
}

async fn a_group_that_does_not_fit_the_path(c: &mut Context) -> Outcome {
    let other = json!({ "apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    c.post("built in", CM, other).await?;
    Widgets::open().install(c).await?;
    let other = json!({ "apiVersion": "{id}.example.com/v2", "kind": "Widget", "metadata": { "name": "a" } });
    c.post("custom", WIDGETS, other).await?;
    Ok(())
}

async fn an_object_with_a_resource_version(c: &mut Context) -> Outcome {
    c.post("create", CM, json!({ "metadata": { "name": "a", "resourceVersion": "12" } })).await?;
    Ok(())
}

async fn what_a_client_says_about_server_fields_is_dropped(c: &mut Context) -> Outcome {
    let made = c
        .post(
            "create",
            CM,
            json!({ "metadata": { "name": "a", "uid": "mine", "generation": 7, "selfLink": "/mine",
            "creationTimestamp": "2001-01-01T00:00:00Z" } }),
        )
        .await?;
    c.record("my uid", made.uid() == "mine");
    c.record("my time", made.str_at("/metadata/creationTimestamp").starts_with("2001"));
    Ok(())
}

async fn deletion_timestamp_of_a_client_is_dropped(c: &mut Context) -> Outcome {
    let doomed = json!({ "metadata": { "name": "a", "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30, "finalizers": ["example.com/hold"] } });
    c.post("create", CM, doomed).await?;
    Ok(())
}

async fn label_values_and_keys_that_are_invalid(c: &mut Context) -> Outcome {
    c.post("value", CM, json!({ "metadata": { "name": "a", "labels": { "k": "not valid!" } } })).await?;
    c.post("long value", CM, json!({ "metadata": { "name": "a", "labels": { "k": "v".repeat(64) } } }))
        .await?;
    c.post("key", CM, json!({ "metadata": { "name": "a", "labels": { "not valid!": "v" } } })).await?;
    c.post("prefix", CM, json!({ "metadata": { "name": "a", "labels": { "-x.com/k": "v" } } })).await?;
    c.post("two slashes", CM, json!({ "metadata": { "name": "a", "labels": { "a/b/c": "v" } } })).await?;
    Ok(())
}

async fn annotations_that_are_too_big(c: &mut Context) -> Outcome {
    let big = json!({ "metadata": { "name": "a", "annotations": { "k": "v".repeat(256 * 1024) } } });
    c.post("create", CM, big).await?;
    Ok(())
}

async fn annotation_keys_that_are_invalid(c: &mut Context) -> Outcome {
    c.post("key", CM, json!({ "metadata": { "name": "a", "annotations": { "not valid!": "v" } } })).await?;
    Ok(())
}

async fn finalizers_that_are_invalid(c: &mut Context) -> Outcome {
    c.post("no domain", CM, json!({ "metadata": { "name": "a", "finalizers": ["hold"] } })).await?;
    c.post("letters", CM, json!({ "metadata": { "name": "b", "finalizers": ["not valid!"] } })).await?;
    let both = json!(["orphan", "foregroundDeletion"]);
    c.post("both propagations", CM, json!({ "metadata": { "name": "c", "finalizers": both } })).await?;
    Ok(())
}

async fn owner_references_that_are_invalid(c: &mut Context) -> Outcome {
    c.post("empty", CM, json!({ "metadata": { "name": "a", "ownerReferences": [{}] } })).await?;
    let event = json!([{ "apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u" }]);
    c.post("an event as owner", CM, json!({ "metadata": { "name": "a", "ownerReferences": event } })).await?;
    let version = json!([{ "apiVersion": "a/b/c", "kind": "K", "name": "e", "uid": "u" }]);
    c.post("version", CM, json!({ "metadata": { "name": "a", "ownerReferences": version } })).await?;
    Ok(())
}

async fn two_controllers_own_one_object(c: &mut Context) -> Outcome {
    let owner = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true });
    c.post("create", CM, json!({ "metadata": { "name": "a", "ownerReferences": [owner("x"), owner("y")] } }))
        .await?;
    Ok(())
}

async fn a_field_manager_of_the_request(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.post("named", &format!("{SECRETS}?fieldManager=tester"), json!({ "metadata": { "name": "a" } }))
        .await?;
    let agent =
        Req::post(SECRETS, json!({ "metadata": { "name": "b" } })).header("user-agent", "agent/v1.2 (linux)");
    c.send_and_record("from the agent", agent).await?;
    Ok(())
}

async fn a_field_manager_that_is_too_long(c: &mut Context) -> Outcome {
    let long = "m".repeat(129);
    c.post("long", &format!("{CM}?fieldManager={long}"), cm("a")).await?;
    c.post("unprintable", &format!("{CM}?fieldManager=a%07b"), cm("a")).await?;
    Ok(())
}

async fn post_to_an_object(c: &mut Context) -> Outcome {
    c.post("post", &format!("{CM}/a"), cm("a")).await?;
    Ok(())
}

async fn a_wrong_type_in_a_field(c: &mut Context) -> Outcome {
    c.post("number for text", CM, json!({ "metadata": { "name": "a" }, "data": { "k": 1 } })).await?;
    c.post("list for object", CM, json!({ "metadata": { "name": "a" }, "data": ["k"] })).await?;
    c.post("text for object", CM, json!({ "metadata": "a" })).await?;
    let deployment = json!({ "metadata": { "name": "d" }, "spec": { "replicas": "three" } });
    c.post("text for number", "/apis/apps/v1/namespaces/{ns}/deployments", deployment).await?;
    Ok(())
}
