//! Keeps the state of one workspace in Secrets beside its object.

use std::{sync::Arc, time::Instant};

use futures::future::BoxFuture;

use crate::{
    controllers::common::Meter,
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
    /// Hears how long a copy takes.
    pub meter: Arc<dyn Meter>,
}

impl Keeper for VaultKeeper {
    fn save(&self, deposit: Deposit) -> BoxFuture<'_, Result<(), KeepError>> {
        Box::pin(async move {
            let (Deposit { state, bundle }, begun) = (deposit, Instant::now());
            self.vault.save(&self.home, &vault::Deposit { state, bundle }, self.fence).await?;
            self.meter.replicated(begun.elapsed());
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
