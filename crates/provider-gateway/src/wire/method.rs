//! Classification of provider calls.

/// How a call is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallClass {
    /// All schemas. Depends on the program alone, so it is cached; filtered for each run.
    Schema,
    /// The list of all types. Handled like schemas.
    Metadata,
    /// Functions and identity schemas: cached like schemas, but small enough not to be filtered.
    ProviderInfo,
    /// Validation of a provider block. Cached if it returned no diagnostics: Terraform calls it twice in every run, and
    /// the AWS provider takes four seconds for it. Depends on the program, its environment (source of defaults) and the
    /// request; it runs before `Configure`, so it cannot depend on anything else.
    CheckConfig,
    /// Binds the connection to a configuration.
    Configure,
    /// Depends on the program, its environment and the request only: see [`Method::PURE`].
    Pure,
    /// Needs no configuration; sent to any process of the same program.
    Unconfigured,
    /// Reads from the cloud; cancelled by `Stop`.
    Read,
    /// Changes the cloud: always completed, even if Terraform disconnects; journaled.
    Apply,
    /// Imports into the state: journaled too.
    Import,
    /// Streams in one or both directions.
    Stream,
    /// Must not reach a shared process.
    Stop,
    /// Answered by the gateway: streams that stay open without messages.
    SilentStream,
    /// Answered by the gateway.
    Health,
    /// Unknown to this gateway.
    Unknown,
}

/// A call by its name, without the protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method<'a> {
    /// `5`, `6`, or none for plumbing services.
    pub protocol: Option<u8>,
    /// The last segment of its path.
    pub name: &'a str,
    /// How it is handled.
    pub class: CallClass,
}

impl<'a> Method<'a> {
    /// Parses the path of a call.
    pub fn parse(path: &'a str) -> Self {
        let (service, name) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
        let protocol = match service {
            "tfplugin5.Provider" => Some(5),
            "tfplugin6.Provider" => Some(6),
            _ => None,
        };
        let class = match (protocol, service) {
            (Some(_), _) => classify(name),
            (None, "plugin.GRPCController") => CallClass::Stop,
            (None, "plugin.GRPCBroker" | "plugin.GRPCStdio") => CallClass::SilentStream,
            (None, "grpc.health.v1.Health") => CallClass::Health,
            (None, _) => CallClass::Unknown,
        };
        Self { protocol, name, class }
    }

    /// The field number of diagnostics in the response.
    pub fn diagnostics_field(&self) -> u64 {
        match self.class {
            CallClass::Schema => 4,
            CallClass::Metadata | CallClass::CheckConfig => 2,
            CallClass::ProviderInfo => match self.name {
                "GetFunctions" => 2,
                _ => 1,
            },
            CallClass::Configure => 1,
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
    /// Calls that depend on their request alone.
    ///
    /// `UpgradeResourceState` converts a stored value to the current schema. Terraform calls it in every run, also
    /// right after a write, for values that it already has; the plugin frameworks give it no client in a fresh process,
    /// and the AWS provider's upgraders only rename and convert.
    ///
    /// `Validate…Config` runs on unconfigured providers with values that may be unknown, so its result cannot depend on
    /// the cloud.
    ///
    /// Only responses without diagnostics are cached, so warnings always come from the provider itself.
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

fn classify(name: &str) -> CallClass {
    match name {
        "GetSchema" | "GetProviderSchema" => CallClass::Schema,
        "GetMetadata" => CallClass::Metadata,
        "GetFunctions" | "GetResourceIdentitySchemas" => CallClass::ProviderInfo,
        "PrepareProviderConfig" | "ValidateProviderConfig" => CallClass::CheckConfig,
        "Configure" | "ConfigureProvider" => CallClass::Configure,
        name if Method::PURE.contains(&name) => CallClass::Pure,
        // Not cached: a function may read the clock.
        "CallFunction" => CallClass::Unconfigured,
        "ReadResource"
        | "PlanResourceChange"
        | "ReadDataSource"
        | "MoveResourceState"
        | "PlanAction"
        | "GenerateResourceConfig" => CallClass::Read,
        // An opened ephemeral resource must be closed, so these calls are not cancelled either.
        "ApplyResourceChange"
        | "OpenEphemeralResource"
        | "RenewEphemeralResource"
        | "CloseEphemeralResource" => CallClass::Apply,
        "ImportResourceState" => CallClass::Import,
        "InvokeAction" | "ListResource" | "ReadStateBytes" | "WriteStateBytes" => CallClass::Stream,
        "Stop" | "StopProvider" => CallClass::Stop,
        _ => CallClass::Unknown,
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
            assert_eq!(Method::parse(path).class, CallClass::Stop, "{path}");
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
        assert_eq!(Method::parse("/tfplugin6.Provider/FromTheFuture").class, CallClass::Unknown);
        assert_eq!(Method::parse("/other.Service/GetSchema").class, CallClass::Unknown);
        assert_eq!(Method::parse("").class, CallClass::Unknown);
    }
}
