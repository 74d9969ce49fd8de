//! Keeps the state of one workspace in Secrets beside its object.

use futures::future::BoxFuture;

use crate::{
    k8s::{
        Fence,
        vault::{self, Home, Vault},
    },
    runs::{Deposit, KeepError, Keeper},
};

/// The vault, for one workspace.
pub struct VaultKeeper {
    /// The vault.
    pub vault: Vault,
    /// Whose state it is.
    pub home: Home,
    /// Grows with every change of leadership.
    pub fence: Fence,
}

impl Keeper for VaultKeeper {
    fn save(&self, deposit: Deposit) -> BoxFuture<'_, Result<(), KeepError>> {
        Box::pin(async move {
            let Deposit { state, bundle } = deposit;
            self.vault.save(&self.home, &vault::Deposit { state, bundle }, self.fence).await?;
            Ok(())
        })
    }

    fn load(&self) -> BoxFuture<'_, Result<Option<Deposit>, KeepError>> {
        Box::pin(async move {
            let found = self.vault.load(&self.home.namespace, &self.home.workspace).await?;
            Ok(found.map(|it| Deposit { state: it.deposit.state, bundle: it.deposit.bundle }))
        })
    }
}
