//! The AWS that a command uses: the value of `--aws`.

use serde::{Deserialize, Serialize};

/// AWS that a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AwsMode {
    /// Local emulation on this machine; free, needs no account.
    #[cfg_attr(feature = "local", default)]
    #[cfg_attr(not(feature = "local"), value(skip))]
    Local,
    /// The AWS account of the default credential chain.
    #[cfg_attr(not(feature = "local"), default)]
    Real,
}
