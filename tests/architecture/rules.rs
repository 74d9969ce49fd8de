//! The allow-lists: which crate may depend on which, and which module may use which.

/// A crate: its folder (empty: the root), its name, the crates of this workspace that it may depend on, and what it is for.
pub(super) type CrateRule = (&'static str, &'static str, &'static [&'static str], &'static str);

/// Every crate of the workspace. A crate that is missing here, a dependency that is not listed and an entry without a
/// dependency are errors. Dependencies of tests are not restricted.
pub(super) const CRATES: &[CrateRule] = &[
    (
        "",
        "capt",
        &[
            "capt-controllers",
            "capt-dataplane",
            "capt-engine",
            "capt-kinds",
            "capt-kube",
            "capt-model",
            "capt-util",
            "embedded-kube",
            "isolation",
            "local-aws",
            "provider-gateway",
            "sandbox",
            "sandbox-router",
            "terraform-driver",
        ],
        "the command and the operator; nothing depends on it",
    ),
    (
        "crates/controllers",
        "capt-controllers",
        &[
            "capt-dataplane",
            "capt-engine",
            "capt-kinds",
            "capt-kube",
            "capt-model",
            "capt-util",
            "sandbox",
            "terraform-driver",
        ],
        "reconcile objects; know neither their caller nor the command line",
    ),
    (
        "crates/dataplane",
        "capt-dataplane",
        &["capt-kinds", "capt-kube", "sandbox", "sandbox-router", "terraform-driver"],
        "router and agent; know no controller and no cloud, and run no Terraform",
    ),
    (
        "crates/embedded-kube",
        "embedded-kube",
        &["capt-util"],
        "a Kubernetes API server; knows no kind of ours",
    ),
    (
        "crates/engine",
        "capt-engine",
        &["capt-kinds", "capt-model", "capt-util", "isolation", "provider-gateway", "terraform-driver"],
        "runs Terraform for workspaces; knows neither the Kubernetes API nor the command line",
    ),
    ("crates/isolation", "isolation", &[], "confines a process; knows neither Terraform nor AWS"),
    ("crates/kinds", "capt-kinds", &[], "the kinds, for everybody: data only"),
    (
        "crates/kube-access",
        "capt-kube",
        &["capt-kinds", "lease-deadline", "terraform-driver"],
        "the only writer to the Kubernetes API; decides nothing",
    ),
    (
        "crates/lease-deadline",
        "lease-deadline",
        &[],
        "until when a leader's runs may begin changes; knows no API",
    ),
    ("crates/local-aws", "local-aws", &["capt-util"], "a local AWS; knows no kind"),
    (
        "crates/model",
        "capt-model",
        &["capt-kinds", "terraform-driver"],
        "validated values and desired workspaces; pure",
    ),
    (
        "crates/provider-gateway",
        "provider-gateway",
        &["capt-util", "lease-deadline"],
        "shares Terraform providers; knows no kind",
    ),
    ("crates/sandbox", "sandbox", &["capt-kinds", "sandbox-router"], "decisions about Sandboxes; pure"),
    ("crates/sandbox-router", "sandbox-router", &["capt-util"], "proxy and tunnel; know no Kubernetes"),
    (
        "crates/terraform-driver",
        "terraform-driver",
        &["capt-util", "lease-deadline"],
        "runs terraform; knows nothing about EKS",
    ),
    ("crates/util", "capt-util", &[], "what several crates need and no library has"),
    ("crates/workspace-hack", "workspace-hack", &[], "no code: the features that all builds share"),
    ("tests/conformance", "conformance", &["embedded-kube"], "compares embedded-kube with a real API server"),
];

/// Everything that `capt-kinds` may depend on, so that programs that only want its types need no runtime, cloud or engine.
pub(super) const KINDS_DEPENDENCIES: &[&str] =
    &["k8s-openapi", "kube", "schemars", "serde", "serde-saphyr", "serde_json", "strum", "thiserror"];

/// A module of one of our layers: `crate::module`, the modules that it may use, and what it is for. A crate with a single
/// responsibility is one module, without the second part.
pub(super) type ModuleRule = (&'static str, &'static [&'static str], &'static str);

/// A module that is missing here, a use that is not listed and an entry that nothing uses are errors.
pub(super) const MODULES: &[ModuleRule] = &[
    ("capt_kinds::api", &["capt_kinds::sandbox"], "the kinds: data types, schemas and names"),
    ("capt_kinds::grant", &["capt_kinds::api"], "the only place that grants access across namespaces; pure"),
    ("capt_kinds::sandbox", &[], "the Sandbox kinds: data types, schemas and names"),
    ("capt_model::manifest", &["capt_kinds::api", "capt_model::model"], "files to validated objects"),
    ("capt_model::model", &["capt_kinds::api"], "validated values of the kinds"),
    ("capt_model::modules", &[], "the embedded Terraform modules"),
    (
        "capt_model::workspaces",
        &["capt_kinds::api", "capt_model::manifest", "capt_model::model", "capt_model::modules"],
        "objects to desired workspaces",
    ),
    ("capt_engine::aws", &[], "the only user of the AWS SDK; knows no kind"),
    ("capt_engine::daemon_files", &[], "record, log and lock of a background process"),
    (
        "capt_engine::gateway",
        &["capt_engine::daemon_files", "capt_engine::process_env"],
        "provider gateway as a background process; knows no kind",
    ),
    (
        "capt_engine::oneshot",
        &["capt_engine::pipeline", "capt_model::manifest", "capt_model::workspaces"],
        "plan, apply and destroy from files; knows no Kubernetes API",
    ),
    (
        "capt_engine::pipeline",
        &[
            "capt_engine::aws",
            "capt_engine::gateway",
            "capt_engine::process_env",
            "capt_model::modules",
            "capt_model::workspaces",
        ],
        "steps of one workspace; knows neither Kubernetes nor its caller",
    ),
    ("capt_engine::process_env", &[], "the only reader of the environment"),
    (
        "capt_engine::runs",
        &[
            "capt_kinds::api",
            "capt_engine::aws",
            "capt_engine::gateway",
            "capt_engine::pipeline",
            "capt_model::workspaces",
        ],
        "supervise runs; know neither the Kubernetes API nor the command line",
    ),
    ("capt_kube::certificate", &["capt_kube::k8s"], "certificates in a Secret or a file"),
    ("capt_kube::error", &[], "error classes for every module above"),
    (
        "capt_kube::k8s",
        &["capt_kinds::api", "capt_kinds::grant", "capt_kube::error"],
        "the only writer to the Kubernetes API; decides nothing",
    ),
    (
        "capt_controllers",
        &[
            "capt_dataplane",
            "capt_engine::aws",
            "capt_engine::pipeline",
            "capt_engine::runs",
            "capt_kinds::api",
            "capt_kinds::grant",
            "capt_kinds::sandbox",
            "capt_kube::error",
            "capt_kube::k8s",
            "capt_model::model",
            "capt_model::workspaces",
        ],
        "reconcile objects through runs, k8s and aws; know neither their caller nor the command line",
    ),
    (
        "capt_dataplane",
        &["capt_kinds::sandbox", "capt_kube::certificate", "capt_kube::k8s"],
        "router and agent; know no controller, no Terraform and no cloud",
    ),
    ("capt::aws_mode", &[], "the value of `--aws`"),
    (
        "capt::cli",
        &[
            "capt::aws_mode",
            "capt::local",
            "capt::operator",
            "capt_dataplane",
            "capt_engine::aws",
            "capt_engine::daemon_files",
            "capt_engine::gateway",
            "capt_engine::oneshot",
            "capt_engine::pipeline",
            "capt_engine::process_env",
            "capt_kinds::api",
            "capt_kinds::sandbox",
            "capt_kube::k8s",
            "capt_model::manifest",
            "capt_model::model",
            "capt_model::workspaces",
        ],
        "one file per subcommand; nothing depends on it",
    ),
    (
        "capt::local",
        &["capt::aws_mode", "capt_engine::daemon_files", "capt_engine::process_env"],
        "local AWS and embedded API as background processes; know no kind",
    ),
    (
        "capt::operator",
        &[
            "capt::server",
            "capt::telemetry",
            "capt_controllers",
            "capt_engine::aws",
            "capt_engine::gateway",
            "capt_engine::pipeline",
            "capt_engine::process_env",
            "capt_engine::runs",
            "capt_kinds::api",
            "capt_kube::certificate",
            "capt_kube::k8s",
            "capt_model::model",
            "capt_model::workspaces",
        ],
        "wires controllers, runs, server and leader election",
    ),
    (
        "capt::server",
        &[
            "capt::telemetry",
            "capt_kinds::api",
            "capt_kinds::grant",
            "capt_kube::certificate",
            "capt_model::model",
            "capt_model::workspaces",
        ],
        "health, metrics and webhook; knows no controller and no client",
    ),
    ("capt::telemetry", &[], "logs and metrics"),
];

/// Pure modules: no process, no socket, no file, no clock.
pub(super) const PURE: &[&str] = &[
    "capt_kinds::api",
    "capt_kinds::grant",
    "capt_kinds::sandbox",
    "capt_model::model",
    "capt_model::workspaces",
];
/// What a pure module must not contain.
pub(super) const IO_PATHS: &[&str] =
    &["std::fs", "std::net", "std::process", "tokio::", "kube::Client", "Timestamp::now", "SystemTime::now"];

/// Modules of the operator that write to the Kubernetes API only through `capt_kube::k8s`.
pub(super) const NOT_WRITERS: &[&str] = &[
    "capt_controllers",
    "capt_dataplane",
    "capt_engine::pipeline",
    "capt_engine::runs",
    "capt_kube::certificate",
    "capt::operator",
    "capt::server",
];
/// Paths that are needed to write to the Kubernetes API.
pub(super) const WRITE_PATHS: &[&str] = &["Patch::", "PatchParams", "PostParams", "DeleteParams"];
