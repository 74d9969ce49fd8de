//! Which call is answered by whom.

/// What is done with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// All schemas. A function of the program alone, so it is kept; filtered for each run.
    Schema,
    /// The list of everything that the provider has. The same.
    Metadata,
    /// Functions and identity schemas: the same, and small enough to stay whole.
    AboutItself,
    /// The check of a provider block. Kept if it found no error: terraform asks twice in every run, and the AWS
    /// provider takes four seconds for it. A function of the program, its environment (defaults come from there)
    /// and the bytes; it runs before `Configure`, so there is nothing else it could depend on.
    CheckConfig,
    /// Binds the connection.
    Configure,
    /// A function of the program, its environment and the bytes: see [`Method::PURE`].
    Pure,
    /// Needs no configuration; asked of any process of the same program.
    Unconfigured,
    /// Works on the cloud without changing it; may be cancelled with its run.
    Reads,
    /// Changes the cloud: always awaited, whoever has gone; journalled.
    Applies,
    /// Takes something into the state: journalled too.
    Imports,
    /// Streams in one direction or both.
    Streams,
    /// Must not reach a process that others use.
    Stop,
    /// Ours to answer: streams that stay open and silent.
    Idle,
    /// Ours to answer.
    Health,
    /// Unknown to this gateway.
    Unknown,
}

/// A call by its name, without the protocol's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method<'a> {
    /// `5`, `6`, or nothing for the plumbing.
    pub protocol: Option<u8>,
    /// The last part of its path.
    pub name: &'a str,
    /// What is done with it.
    pub class: Class,
}

impl<'a> Method<'a> {
    /// Reads the path of a call.
    pub fn parse(path: &'a str) -> Self {
        let (service, name) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
        let protocol = match service {
            "tfplugin5.Provider" => Some(5),
            "tfplugin6.Provider" => Some(6),
            _ => None,
        };
        let class = match (protocol, service) {
            (Some(_), _) => class(name),
            (None, "plugin.GRPCController") => Class::Stop,
            (None, "plugin.GRPCBroker" | "plugin.GRPCStdio") => Class::Idle,
            (None, "grpc.health.v1.Health") => Class::Health,
            (None, _) => Class::Unknown,
        };
        Self { protocol, name, class }
    }

    /// The number of the field that holds diagnostics in the answer, for calls whose answers are kept.
    pub fn diagnostics(&self) -> u64 {
        match self.class {
            Class::Schema => 4,
            Class::Metadata | Class::CheckConfig => 2,
            Class::AboutItself => match self.name {
                "GetFunctions" => 2,
                _ => 1,
            },
            Class::Configure => 1,
            _ => match self.name {
                "UpgradeResourceState"
                | "UpgradeResourceIdentity"
                | "ImportResourceState"
                | "ReadResource"
                | "ReadDataSource" => 2,
                "ApplyResourceChange" => 3,
                _ => 1,
            },
        }
    }
}

impl Method<'_> {
    /// Calls that are functions of their bytes.
    ///
    /// `UpgradeResourceState` brings a stored value to today's schema. Terraform calls it for values that it has, in
    /// every run, also right after a write; a provider that asked the cloud here would see it when it is too late to
    /// plan. The plugin frameworks give it no client in a fresh process, and the AWS provider's upgraders rename and
    /// convert. Kept are only answers without any diagnostic.
    ///
    /// `Validate…Config` runs on providers that were never configured, with values that may be unknown; what it says
    /// cannot depend on a cloud that it cannot reach. Kept are only answers without any diagnostic, so a warning is
    /// given by the provider itself each time.
    pub const PURE: &'static [&'static str] = &[
        "UpgradeResourceState",
        "UpgradeResourceIdentity",
        "ValidateResourceTypeConfig",
        "ValidateResourceConfig",
        "ValidateDataSourceConfig",
        "ValidateDataResourceConfig",
        "ValidateEphemeralResourceConfig",
        "ValidateListResourceConfig",
        "ValidateActionConfig",
    ];
}

fn class(name: &str) -> Class {
    match name {
        "GetSchema" | "GetProviderSchema" => Class::Schema,
        "GetMetadata" => Class::Metadata,
        "GetFunctions" | "GetResourceIdentitySchemas" => Class::AboutItself,
        "PrepareProviderConfig" | "ValidateProviderConfig" => Class::CheckConfig,
        "Configure" | "ConfigureProvider" => Class::Configure,
        name if Method::PURE.contains(&name) => Class::Pure,
        // Not kept: a function may read the clock.
        "CallFunction" => Class::Unconfigured,
        "ReadResource"
        | "PlanResourceChange"
        | "ReadDataSource"
        | "MoveResourceState"
        | "PlanAction"
        | "GenerateResourceConfig" => Class::Reads,
        // What an ephemeral resource opened must be closed, so these are not given up half-way either.
        "ApplyResourceChange"
        | "OpenEphemeralResource"
        | "RenewEphemeralResource"
        | "CloseEphemeralResource" => Class::Applies,
        "ImportResourceState" => Class::Imports,
        "InvokeAction" | "ListResource" | "ReadStateBytes" | "WriteStateBytes" => Class::Streams,
        "Stop" | "StopProvider" => Class::Stop,
        _ => Class::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_stop_stay_here() {
        for path in [
            "/tfplugin5.Provider/Stop",
            "/tfplugin6.Provider/StopProvider",
            "/plugin.GRPCController/Shutdown",
        ] {
            assert_eq!(Method::parse(path).class, Class::Stop, "{path}");
        }
    }

    #[test]
    fn names_of_both_protocols_mean_the_same() {
        for (five, six) in [
            ("GetSchema", "GetProviderSchema"),
            ("PrepareProviderConfig", "ValidateProviderConfig"),
            ("Configure", "ConfigureProvider"),
            ("ValidateResourceTypeConfig", "ValidateResourceConfig"),
            ("ValidateDataSourceConfig", "ValidateDataResourceConfig"),
        ] {
            let (five, six) = (format!("/tfplugin5.Provider/{five}"), format!("/tfplugin6.Provider/{six}"));
            assert_eq!(Method::parse(&five).class, Method::parse(&six).class);
        }
    }

    #[test]
    fn what_is_unknown_is_called_so() {
        assert_eq!(Method::parse("/tfplugin6.Provider/FromTheFuture").class, Class::Unknown);
        assert_eq!(Method::parse("/other.Service/GetSchema").class, Class::Unknown);
        assert_eq!(Method::parse("").class, Class::Unknown);
    }
}
